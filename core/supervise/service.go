package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Service keeps one process of a kind running. Its methods are safe for concurrent use.
type Service struct {
	set      Settings
	view     atomic.Pointer[view]
	base     context.Context // ends with Close
	stop     context.CancelCauseFunc
	wake     chan struct{}   // Resume was called; of capacity 1
	patience context.Context // of the caller of Close; written before base ends
	ended    chan struct{}
	probes   sync.WaitGroup
	once     sync.Once

	mu      sync.Mutex
	life    *life         // the current attempt, nil between two
	changed chan struct{} // closed and made anew with each view

	// The goroutine's own; others read them when it has ended.
	record record
	last   *Process   // started last
	stuck  []*Process // were killed and did not end
}

// view is what callers see without waiting.
type view struct {
	status Status
	life   *life // ready, unless its context has ended
	down   error // when life is nil
}

// life is one attempt, from verify to the end of the process.
type life struct {
	ctx  context.Context // ends with the reason when the process is not to be used any longer
	fail context.CancelCauseFunc
	p    *Process // nil until it is started; written under Service.mu
}

// Supervise starts a service at once, in the background. Wait says when it is ready; Close ends it.
func Supervise(settings Settings) *Service {
	s := &Service{set: settings.defaults(), wake: make(chan struct{}, 1), ended: make(chan struct{}),
		changed: make(chan struct{})}
	s.base, s.stop = context.WithCancelCause(context.Background())
	first := Status{Name: s.set.Name, State: StateVerify, Since: s.set.Now()}
	s.view.Store(&view{status: first, down: &DownError{Name: first.Name, State: first.State}})
	go s.run()
	return s
}

// Process gives the ready process, or an error that is ErrDown and says why. It never waits. The process may end at any
// moment after; then what its caller began has failed.
func (s *Service) Process() (*Process, error) {
	v := s.view.Load()
	if v.life == nil {
		return nil, v.down
	}
	if v.life.ctx.Err() != nil { // before the end it leads to, since it says why
		return nil, &DownError{Name: s.set.Name, State: StateReady, Err: context.Cause(v.life.ctx)}
	}
	select {
	case <-v.life.p.done:
		return nil, &DownError{Name: s.set.Name, State: StateReady, Err: ended(v.life.p)}
	default:
		return v.life.p, nil
	}
}

// State gives a snapshot.
func (s *Service) State() Status { return s.view.Load().status }

// Words is the line of stderr that tells why the last process has ended; "" if it runs, somebody else has ended it, or
// it wrote nothing.
func (s *Service) Words() string {
	s.mu.Lock()
	p := s.last
	s.mu.Unlock()
	if p == nil {
		return ""
	}
	select {
	case <-p.done:
		return p.exit.words()
	default:
		return ""
	}
}

// Wait waits until a process is ready. It fails at once when the service is quarantined or closed, and with ctx; the
// error is ErrDown and says why there is none.
func (s *Service) Wait(ctx context.Context) (*Process, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		p, err := s.Process()
		if err == nil {
			return p, nil
		}
		switch s.State().State {
		case StateQuarantined, StateDraining, StateStopped:
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// Resume lifts a quarantine, forgets the failures so far and starts at once if the service was waiting. It does nothing
// to a service that is up or on its way.
func (s *Service) Resume() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Restart kills the current process, ready or not, for a reason, which counts as a crash. From now on Process fails
// with that reason, until the next one is ready. Without a process it does nothing.
func (s *Service) Restart(reason error) { s.Fail(nil, reason) }

// Fail is Restart, but only if p is still the current process: who was late on an old one does no harm to the new.
func (s *Service) Fail(p *Process, reason error) {
	s.mu.Lock()
	l := s.life
	var current *Process
	if l != nil {
		current = l.p
	}
	s.mu.Unlock()
	if l == nil || p != nil && p != current {
		return
	}
	if reason == nil {
		reason = errors.New("a restart was asked for")
	}
	l.fail(reason)
	if current != nil {
		current.Kill()
	}
}

// ErrRenewed is why a process has ended that Renew has ended.
var ErrRenewed = errors.New("it was renewed")

// Renew is Fail for what is not the process's fault, such as what a caller gave it to do: it counts as no crash, and
// the next process is started at once.
func (s *Service) Renew(p *Process, reason error) {
	s.Fail(p, fmt.Errorf("%w: %w", ErrRenewed, reason))
}

// Close asks the process to end (its stdin is closed, SIGTERM to its group), kills it when ctx ends, and returns when
// all is done. The error says what could not be ended. It may be called more than once; the first call's ctx counts.
func (s *Service) Close(ctx context.Context) error {
	s.once.Do(func() {
		s.patience = ctx
		s.stop(errStopped)
	})
	select {
	case <-s.ended:
		return s.tidy()
	case <-ctx.Done():
	}
	select {
	case <-s.ended:
		return s.tidy()
	case <-time.After(2 * killWait):
		return fmt.Errorf("close %s: Command or Notify does not return", s.set.Name)
	}
}

// run is the service's goroutine: one life after the other.
func (s *Service) run() {
	defer close(s.ended)
	for {
		healthy, err := s.live()
		if s.base.Err() != nil {
			if s.State().State == StateReady { // its process ended by itself just before Close
				s.become(StateDraining, errStopped, nil, time.Time{})
			}
			s.become(StateStopped, err, nil, time.Time{})
			return
		}
		if errors.Is(err, ErrRenewed) && healthy > 0 {
			s.become(StateBackoff, err, nil, s.set.Now())
			continue
		}
		wait, quarantined := s.record.crash(s.set.Backoff, s.set.Now(), healthy, s.set.Jitter())
		select { // a Resume of long ago is none
		case <-s.wake:
		default:
		}
		var timer <-chan time.Time
		if quarantined {
			s.become(StateQuarantined, err, nil, time.Time{})
		} else {
			timer = s.set.After(wait)
			s.become(StateBackoff, err, nil, s.set.Now().Add(wait))
		}
		select {
		case <-timer:
		case <-s.wake:
			s.record = record{}
		case <-s.base.Done():
			s.become(StateStopped, errStopped, nil, time.Time{})
			return
		}
	}
}

// live is one attempt. It says how long the process was ready, and why it is not any longer.
func (s *Service) live() (healthy time.Duration, err error) {
	l := &life{}
	l.ctx, l.fail = context.WithCancelCause(s.base)
	defer l.fail(nil)
	s.mu.Lock()
	s.life = l
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.life = nil
		s.mu.Unlock()
	}()
	if err := s.raise(l); err != nil {
		return 0, s.end(l.p, err)
	}
	since := s.set.Now()
	s.become(StateReady, nil, l, time.Time{})
	select {
	case <-l.p.done:
	case <-l.ctx.Done():
	}
	healthy = s.set.Now().Sub(since)
	switch {
	case s.base.Err() != nil:
		return healthy, s.drain(l)
	case l.ctx.Err() != nil: // also when it has ended by now: the reason says more
		return healthy, s.end(l.p, context.Cause(l.ctx))
	}
	return healthy, ended(l.p)
}

// raise brings a process up to the end of its probe.
func (s *Service) raise(l *life) error {
	s.become(StateVerify, nil, nil, time.Time{})
	c, err := s.set.Command()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	up := make(chan struct{})
	defer close(up)
	late := s.set.After(s.set.StartTimeout)
	s.probes.Go(func() {
		select {
		case <-late:
			l.fail(fmt.Errorf("%w: more than %v", errLate, s.set.StartTimeout))
		case <-up:
		}
	})
	s.become(StateStarting, nil, nil, time.Time{})
	p, err := s.set.Start(l.ctx, c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	l.p, s.last = p, p
	s.mu.Unlock()
	s.become(StateProbing, nil, l, time.Time{})
	return s.probe(l)
}

// probe asks the process, and gives up on it as soon as the process or the attempt is over, whatever Probe does.
func (s *Service) probe(l *life) error {
	answer := make(chan error, 1)
	if s.set.Probe == nil {
		answer <- nil
	} else {
		s.probes.Go(func() { answer <- s.set.Probe(l.ctx, l.p) })
	}
	select {
	case err := <-answer:
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
	case <-l.p.done:
		if l.ctx.Err() == nil {
			return errEarly
		}
	case <-l.ctx.Done():
	}
	return context.Cause(l.ctx)
}

// drain lets the process end, until Close's caller has waited enough.
func (s *Service) drain(l *life) error {
	s.become(StateDraining, errStopped, l, time.Time{})
	l.p.in.Close()
	l.p.Terminate()
	select {
	case <-l.p.done:
		return errStopped
	case <-s.patience.Done():
	}
	return s.end(l.p, errStopped)
}

// become shows a state to callers and to Notify.
func (s *Service) become(to State, why error, l *life, next time.Time) {
	old := s.view.Load().status
	now := s.set.Now()
	st := Status{Name: s.set.Name, State: to, Since: now, Err: why, Crashes: len(s.record.crashes), Starts: old.Starts,
		Next: next}
	if why == nil && to != StateReady {
		st.Err = old.Err
	}
	v := &view{}
	if l != nil {
		st.Pid = l.p.pid
	}
	if to == StateProbing {
		st.Starts++
	}
	v.status = st
	if to == StateReady {
		v.life = l
	} else {
		v.down = &DownError{Name: st.Name, State: to, Err: st.Err}
	}
	s.view.Store(v)
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if to != old.State {
		s.set.Notify(Change{Name: st.Name, From: old.State, To: to, Err: why, Crashes: st.Crashes, At: now})
	}
}
