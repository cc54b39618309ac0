package prochost

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
)

// startSlack is how much later than StartTimeout a start is ended from outside: by then the probe has said what it
// waited for.
const startSlack = 2 * time.Second

// A plugin is started anew at most restartsMost times in quick succession, however many replicas it has: then each of
// them has reached its share of crashes and is quarantined.
const (
	crashesMost  = 5
	restartsMost = 10
)

// replica keeps one process (or connection) of a plugin running.
type replica struct {
	p       *Plugin
	index   int
	service *supervise.Service
	begun   chan struct{} // closed when service is set
	now     atomic.Pointer[instance]

	mu      sync.Mutex
	birth   *birth // made, and not taken over by a handshake
	shown   State  // told to Notify last
	shaken  bool   // the handshake of this start is done: probing has begun
	crashes int
	ended   error // why the last instance is no more
	once    bool  // was ready
	failed  error // why the last start failed
	gaps    []confine.Gap
}

func (p *Plugin) newReplica(index int) *replica {
	r := &replica{p: p, index: index, begun: make(chan struct{}), shown: supervise.StateVerify}
	name := p.spec.Name
	if p.spec.Replicas > 1 {
		name = fmt.Sprintf("%.60s.%d", name, index)
	}
	set := supervise.Settings{Name: name, Command: r.command, StartTimeout: p.spec.StartTimeout + startSlack,
		Probe: r.probe, Notify: r.notify, Now: p.o.Now, Backoff: p.tune.backoff}
	if n := p.spec.Replicas; set.Backoff.Crashes == 0 && n > 1 {
		set.Backoff.Crashes = min(crashesMost, max(2, restartsMost/n+1))
	}
	if p.spec.Connect != "" {
		set.Start = func(ctx context.Context, _ supervise.Command) (*supervise.Process, error) { return r.birth.start(ctx) }
		set.Backoff.Crashes = math.MaxInt32 // whoever runs it starts it again, and nobody would tell us to resume
	}
	r.service = supervise.Supervise(set)
	close(r.begun)
	return r
}

// command makes what the next start needs. It is called by the service's goroutine, as Start is.
func (r *replica) command() (supervise.Command, error) {
	r.release()
	b, err := newBirth(&r.p.o, &r.p.spec)
	if err != nil {
		return supervise.Command{}, err
	}
	b.command.Private = true // how it ended is told to agents, on /readyz and in the log
	r.mu.Lock()
	r.birth = b
	r.mu.Unlock()
	return b.command, nil
}

// release tidies up after a start that came to nothing.
func (r *replica) release() {
	if b := r.takeBirth(context.Background()); b != nil {
		b.release()
	}
}

// takeBirth is what the last start made; nil if the attempt that ctx is of is over. A probe is not waited for when its
// process has ended: one that comes late must not take over what the next process needs.
func (r *replica) takeBirth(ctx context.Context) *birth {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	b := r.birth
	r.birth = nil
	return b
}

// use puts an instance in use, unless the attempt that ctx is of is over: then there may be another one by now.
func (r *replica) use(ctx context.Context, in *instance) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	r.now.Store(in)
	return true
}

// probe brings a process up to where it can be asked.
func (r *replica) probe(ctx context.Context, process *supervise.Process) error {
	<-r.begun
	r.tellGaps(gapsOf(&r.p.spec, process))
	ctx, cancel := context.WithTimeoutCause(ctx, r.p.spec.StartTimeout, tooSlow(r.p.spec.StartTimeout))
	defer cancel()
	b := r.takeBirth(ctx)
	if b == nil {
		r.p.sessions.Go(func() { tellLeft(&r.p.o, r.p.spec.Name, process) })
		return errLost
	}
	s, err := b.handshake(ctx, process)
	r.p.sessions.Go(func() { <-s.gone })
	if err != nil {
		return err
	}
	r.shakes(ctx)
	s.failing.Store(new(func(why error) { r.service.Fail(process, why) }))
	in, err := prepare(ctx, s, r.p.about.Load(), &r.p.count.stray, r.moved)
	if err == nil && !r.p.agree(in.about) {
		err = differs(&r.p.spec, "what Info says is not what it says in another replica")
	}
	if err == nil || errors.Is(err, errAnother) {
		r.p.another.Store(err != nil)
	}
	if err != nil {
		s.stop(err)
		return err
	}
	if !r.use(ctx, in) {
		s.stop(context.Cause(ctx))
		return context.Cause(ctx)
	}
	if !s.spawn(func() { r.leave(in) }) {
		r.now.CompareAndSwap(in, nil)
		return errLost
	}
	return nil
}

// tellGaps notes what the process is not confined in, and logs it when it is news.
func (r *replica) tellGaps(gaps []confine.Gap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if told := confine.Told(gaps); told != confine.Told(r.gaps) && r.index == 0 {
		r.p.o.Log(r.p.spec.Name, LevelHost, "not wholly confined: "+told)
	}
	r.gaps = gaps
}

// shakes tells that the handshake is done, and the probing begins; to the supervisor both are its probe.
func (r *replica) shakes(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() == nil && r.shown == supervise.StateStarting { // else this start is over
		r.shaken = true
		r.show(Change{To: supervise.StateProbing, At: r.p.o.Now()})
	}
}

// leave takes an instance out of use when its session has ended. What it said is not to be used after it.
func (r *replica) leave(in *instance) {
	<-in.ctx.Done()
	r.mu.Lock()
	r.ended = context.Cause(in.ctx)
	r.mu.Unlock()
	r.now.CompareAndSwap(in, nil)
	r.p.cache.drop()
}

// ready is the instance that may be asked now, or nil.
func (r *replica) ready() *instance {
	in := r.now.Load()
	if in == nil || !in.serving.Load() || in.ctx.Err() != nil {
		return nil
	}
	return in
}

// moved looks at whether a plugin serves after a health message.
func (r *replica) moved(in *instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Load() != in {
		return
	}
	how := ""
	if s := in.said.Load(); s != nil {
		how = s.how
	}
	switch serving := in.serving.Load(); {
	case serving && r.shown == StateUnready:
		r.show(Change{To: supervise.StateReady, At: r.p.o.Now()})
	case !serving && r.shown == supervise.StateReady:
		r.p.cache.drop()
		r.show(Change{To: StateUnready, Reason: how, At: r.p.o.Now()})
	}
}

// show tells a change. r.mu is held, so that changes come in order.
func (r *replica) show(c Change) {
	c.Plugin, c.Generation, c.Replica, c.From = r.p.spec.Name, r.p.spec.Generation, r.index, r.shown
	c.Crashes = r.crashes
	r.shown = c.To
	r.p.o.Notify(c)
	r.p.wakeWaiters()
}

// notify hears of each change of the service's state.
func (r *replica) notify(c supervise.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crashes = c.Crashes
	out := Change{To: c.To, At: c.At}
	if c.Err != nil {
		out.Reason = quote.Short(c.Err.Error(), 1<<10)
	}
	switch c.To {
	case supervise.StateProbing:
		r.shaken = false
		return
	case supervise.StateDraining: // before the signal: a server that ends gracefully waits for our streams to end
		if in := r.now.Load(); in != nil {
			in.stop(errClosed)
		}
	case supervise.StateReady:
		r.once, r.failed = true, nil
	case supervise.StateBackoff, supervise.StateQuarantined:
		r.p.count.crashes.Add(1)
		if r.failed = c.Err; r.failed == nil {
			r.failed = errLost
		}
		<-r.begun
		if words := r.service.Words(); words != "" {
			r.failed = &chain.Spoken{Err: r.failed, Words: words}
		}
		r.p.o.Log(r.p.spec.Name, LevelHost, fmt.Sprintf("replica %d: %s: %s", r.index, c.To, out.Reason))
	}
	r.show(out)
}

// outcome of the start: ready once, or failed, or neither yet.
func (r *replica) outcome() (once bool, failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.once, r.failed
}
