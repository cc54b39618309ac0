package policyfiles

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Policies is what Configure puts into force: the engine that answers, and the goroutine that looks for newer content.
type Policies[E Engine] struct {
	origin *Origin[E]
	log    *slog.Logger
	now    atomic.Pointer[loaded[E]]
	bad    atomic.Pointer[string] // why newer content was not taken; nil when what is on disk is in force

	stop context.CancelFunc
	done chan struct{}
}

// loaded is an engine and the hash of what it was made of.
type loaded[E Engine] struct {
	engine E
	digest [sha256.Size]byte
}

// start loads the policies and begins to look for newer ones.
func start[E Engine](ctx context.Context, o *Origin[E], log *slog.Logger) (*Policies[E], error) {
	s, e, err := o.load(ctx)
	if err != nil {
		return nil, err
	}
	p := &Policies[E]{origin: o, log: log, done: make(chan struct{})}
	p.use(&loaded[E]{e, s.Digest()}, "policies loaded")
	var own context.Context
	own, p.stop = context.WithCancel(context.Background()) // outlives the call of Configure
	go p.poll(own)
	return p, nil
}

// settle is how long newer content must stay as it is before it is taken: files that are being written one after the
// other, or half written, are not what the operator means.
const settle = time.Second

// poll looks for newer content until its context ends.
func (p *Policies[E]) poll(ctx context.Context) {
	defer close(p.done)
	if p.origin.Every == 0 {
		return
	}
	t := time.NewTimer(p.origin.Every)
	defer t.Stop()
	var seen Sighting
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			seen = p.Refresh(ctx, seen)
			if seen.Pending {
				t.Reset(min(settle, p.origin.Every))
			} else {
				t.Reset(p.origin.Every)
			}
		}
	}
}

// Sighting is content that is not in force: seen once (pending), or refused and not to be loaded again.
type Sighting struct {
	Digest  [sha256.Size]byte
	Pending bool
}

// Refresh looks once, as the goroutine does: it takes newer content into force if it is the same as at the last look
// and can be loaded; otherwise the policies of before go on. It is not to be called while the goroutine looks, only
// with an Every of 0.
func (p *Policies[E]) Refresh(ctx context.Context, last Sighting) Sighting {
	s, err := p.origin.Read()
	if err != nil {
		p.refuse(err)
		return Sighting{}
	}
	digest := s.Digest()
	switch {
	case digest == p.now.Load().digest:
		if p.bad.Swap(nil) != nil {
			p.log.Info("the policies on disk are those in force again")
		}
		return Sighting{}
	case digest != last.Digest:
		return Sighting{digest, true} // refused content is forgotten with this: it may come back
	case !last.Pending:
		return last
	}
	told := p.tellSlow()
	e, err := guarded(ctx, s)
	told()
	switch {
	case ctx.Err() != nil:
		return last
	case err != nil:
		p.refuse(err)
		return Sighting{digest, false}
	}
	p.use(&loaded[E]{e, digest}, "newer policies loaded")
	p.bad.Store(nil)
	return Sighting{}
}

// slow is how long newer content may be loaded until the operator is told that this is why it is not in force.
const slow = 10 * time.Second

// tellSlow begins to wait for a load that is slow: an engine's library may not let itself be interrupted. What it
// returns ends that.
func (p *Policies[E]) tellSlow() (end func()) {
	said := make(chan struct{})
	t := time.AfterFunc(slow, func() {
		defer close(said)
		p.log.Warn("newer policies are still being loaded; those of before stay in force", "after", slow)
	})
	return func() {
		if !t.Stop() {
			<-said
		}
	}
}

// guarded loads newer content. A panic of an engine's library is a refusal: it must not end the plugin, and with it the
// policies that are in force. (Configure and Validate are guarded by the plugin's server.)
func guarded[E Engine](ctx context.Context, s Source[E]) (e E, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the engine panicked while it loaded them: %v", r)
		}
	}()
	return s.Load(ctx)
}

// use puts an engine into force, and says so.
func (p *Policies[E]) use(l *loaded[E], what string) {
	p.now.Store(l)
	p.log.Info(what, "digest", fmt.Sprintf("sha256:%x", l.digest))
	if p.origin.Tell != nil {
		p.origin.Tell(p.log, l.engine)
	}
}

// refuse notes why newer content was not taken, and logs it when the reason is another one than before.
func (p *Policies[E]) refuse(err error) {
	why := err.Error()
	if old := p.bad.Swap(&why); old == nil || *old != why {
		p.log.Error("newer policies refused; those of before stay in force", "error", why)
	}
}

// Refused is why newer content was not taken, "" when what is on disk is in force.
func (p *Policies[E]) Refused() string {
	if why := p.bad.Load(); why != nil {
		return *why
	}
	return ""
}

// close ends the polling and waits for it.
func (p *Policies[E]) close(ctx context.Context) error {
	p.stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
