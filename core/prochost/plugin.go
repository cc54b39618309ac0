package prochost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/supervise"
)

var (
	_ chain.Checker = (*Plugin)(nil)
	_ chain.Scanner = (*Plugin)(nil)
)

// Plugin is one plugin of the operator's with all its replicas. Its methods are safe for concurrent use.
type Plugin struct {
	o    Options
	spec Spec
	tune tuning

	replicas []*replica
	about    atomic.Pointer[described] // what the first process said
	another  atomic.Bool               // Connect: what is there now says something else
	sessions sync.WaitGroup

	turn    atomic.Uint64                 // which replica is next
	places  *places.Places                // of the calls in flight
	masks   atomic.Pointer[places.Places] // of those that mask; the same where there is only one
	flying  atomic.Int64
	breaker *breaker // nil: none
	blame   blame
	cache   *cache // nil: none
	count   counters

	closing chan struct{} // closed by Close
	once    sync.Once
	idle    chan struct{} // of capacity 1: a call ended while closing
	closed  chan struct{}
	closeIs error // written before closed is closed
	stop    context.CancelFunc
	ctx     context.Context // of Consume's streams

	mu      sync.Mutex
	changed chan struct{} // closed and made anew with each change of a replica
}

type counters struct {
	calls, errors, late, refused, wrong, lost, retried, stray, crashes, opened atomic.Uint64
}

// tuning is what tests change.
type tuning struct {
	backoff supervise.Backoff
}

// Load verifies a plugin and begins to start its replicas. ctx bounds the verification only. Errors are *Refused. The
// caller closes the Plugin.
func Load(ctx context.Context, o Options, s Spec) (*Plugin, error) { return load(ctx, o, s, tuning{}) }

func load(ctx context.Context, o Options, s Spec, tune tuning) (*Plugin, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, s.named(err)
	}
	if err := verify(ctx, &s); err != nil {
		return nil, s.named(err)
	}
	p := &Plugin{o: o.withDefaults().hiding(s.Hide), spec: s, tune: tune, cache: newCache(s.Cache),
		closing: make(chan struct{}), idle: make(chan struct{}, 1), closed: make(chan struct{}), changed: make(chan struct{})}
	p.blame.delay = s.Breaker.Delay
	p.makePlaces()
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.breaker = newBreaker(s.Breaker, func(from, to string) {
		if to == circuitbreaker.OpenState.String() {
			p.count.opened.Add(1)
		}
		p.o.Log(s.Name, LevelHost, fmt.Sprintf("breaker: %s, was %s", to, from))
	})
	p.replicas = make([]*replica, s.Replicas)
	for i := range p.replicas {
		p.replicas[i] = p.newReplica(i)
	}
	return p, nil
}

// errAnother: with Connect a plugin runs without us, and may be replaced.
var errAnother = refusef("it is not the plugin that it was at first, but another version, say: reload the " +
	"configuration to take it as it is now")

// differs is the error of a plugin that does not say of itself what it said before.
func differs(s *Spec, what string) error {
	if s.Connect != "" {
		return errAnother
	}
	return refusef("%s", what)
}

// Another reports that what listens at a plugin's socket is not what it was at first, so that only a new Load takes it
// as it is.
func (p *Plugin) Another() bool { return p.another.Load() }

// agree takes what the first process says of the plugin, and holds every later one to it.
func (p *Plugin) agree(about *described) bool {
	if !p.about.CompareAndSwap(nil, about) {
		return string(p.about.Load().raw) == string(about.raw)
	}
	if n := about.MaxInFlight; n > 0 && n < p.spec.MaxInFlight {
		p.limitPlaces(n)
	}
	return true
}

// Wait waits until all replicas have been ready once. It fails with ctx, and as soon as the start of one failed that
// was not ready yet: with a *Refused if only the operator can mend it. Replicas are started again all the same; it may
// be called again.
func (p *Plugin) Wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		ready := 0
		for _, r := range p.replicas {
			once, failed := r.outcome()
			if once {
				ready++
			} else if failed != nil {
				return p.spec.named(failed)
			}
		}
		if ready == len(p.replicas) {
			return nil
		}
		select {
		case <-changed:
		case <-p.closing:
			return p.spec.named(errClosed)
		case <-ctx.Done():
			return p.spec.named(fmt.Errorf("it is not ready yet (%s): %w", p.Status().State, context.Cause(ctx)))
		}
	}
}

func (p *Plugin) wakeWaiters() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Meta is what the plugin said about itself; the zero Meta before its first process spoke.
func (p *Plugin) Meta() Meta {
	if about := p.about.Load(); about != nil {
		return about.Meta
	}
	return Meta{}
}

// About gives the plugin's own version and the digest of its program ("" with Connect).
func (p *Plugin) About() chain.About {
	return chain.About{Version: p.Meta().Version, Digest: p.spec.Digest}
}

// Resume lifts quarantines, starts at once what waits for its next start, and closes the breaker.
func (p *Plugin) Resume() {
	for _, r := range p.replicas {
		r.service.Resume()
	}
	if p.breaker != nil {
		p.breaker.closeCircuit()
	}
}

var errClosed = errors.New("the plugin is closed")

// Close refuses new calls, waits for those in flight, asks the processes to end (SIGTERM) and kills them and whatever
// they started: all within DrainTimeout and ctx. The error says what did not end. It may be called more than once; the
// first call's ctx counts.
func (p *Plugin) Close(ctx context.Context) error {
	p.once.Do(func() {
		close(p.closing)
		p.stop()
		go func() {
			defer close(p.closed)
			p.closeIs = p.drain(ctx)
		}()
	})
	<-p.closed
	return p.closeIs
}

func (p *Plugin) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.spec.DrainTimeout)
	defer cancel()
	for p.flying.Load() > 0 && ctx.Err() == nil {
		select {
		case <-p.idle:
		case <-ctx.Done():
		}
	}
	errs := make([]error, len(p.replicas))
	var all sync.WaitGroup
	for i, r := range p.replicas {
		all.Go(func() {
			<-r.begun
			errs[i] = r.service.Close(ctx)
			r.release()
		})
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil { // else what did not end is waited for no longer
		p.sessions.Wait()
	}
	if err != nil {
		return p.spec.named(err)
	}
	return nil
}
