package supervise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// State is where a service is.
type State string

// The states. verify → starting → probing → ready, from each of them to backoff or quarantined; draining → stopped is
// the way out.
const (
	StateVerify      State = "verify"      // the command is made: files are read and compared with their digests
	StateStarting    State = "starting"    // the process is started
	StateProbing     State = "probing"     // it runs and is asked whether it is what it should be
	StateReady       State = "ready"       // it may be used
	StateBackoff     State = "backoff"     // it failed and is started again in a while
	StateQuarantined State = "quarantined" // it failed too often; nothing happens until Resume
	StateDraining    State = "draining"    // Close was called: the process is asked to end
	StateStopped     State = "stopped"     // for good
)

// Backoff says how failures are spaced and when they are too many. A zero field has its default.
type Backoff struct {
	First   time.Duration // before the first new start; 200 ms. It doubles with each failure
	Most    time.Duration // no wait is longer; 30 s
	Reset   time.Duration // ready for so long, and the next failure waits First again; 5 min
	Crashes int           // so many failures …; 5
	Window  time.Duration // … within so long quarantine the service; 10 min
}

// Settings of a service. Name and Command are required.
type Settings struct {
	Name    string
	Command func() (Command, error) // called before each start; an error counts as a crash
	// from the start of the process to the end of Probe; 10 s
	StartTimeout time.Duration
	// nil: a started process is ready. It must end when ctx does
	Probe   func(ctx context.Context, p *Process) error
	Backoff Backoff //
	// each change of state, in order, from one goroutine; it must not call Close
	Notify func(Change)
	Now    func() time.Time                       // nil: time.Now
	After  func(d time.Duration) <-chan time.Time // nil: time.After
	Jitter func() float64                         // in [0, 1): takes up to a quarter off each wait; nil: random
	// nil: a child process, as Start does. What it gives must end when it is killed
	Start func(context.Context, Command) (*Process, error)
}

// Change is one step from state to state.
type Change struct {
	Name     string
	From, To State
	Err      error // why; nil on the way up
	Crashes  int   // within the window
	At       time.Time
}

// Status is a snapshot of a service.
type Status struct {
	Name    string
	State   State
	Since   time.Time
	Err     error     // the last failure; nil once it is ready
	Crashes int       // within the window, as of the last failure
	Starts  uint64    // processes started in all
	Pid     int       // 0 unless probing, ready or draining
	Next    time.Time // in backoff: when it is started again
}

// Away is how long a service that is not ready stays so at least, as far as anybody knows; negative: until Resume, or
// for good.
func (s Status) Away(now time.Time) time.Duration {
	switch s.State {
	case StateQuarantined, StateStopped:
		return -1
	case StateBackoff:
		return max(s.Next.Sub(now), 0)
	}
	return 0
}

// ErrDown is what Process gives while there is no ready process. The error says why.
var ErrDown = errors.New("no process is ready")

var (
	errStopped = errors.New("it was closed")
	errEarly   = errors.New("it ended before it was ready")
	errLate    = errors.New("took too long to become ready")
)

// DownError joins ErrDown and the reason.
type DownError struct {
	Name  string
	State State
	Err   error // nil on the first way up
}

// Error names the service, its state and the reason.
func (e *DownError) Error() string {
	s := fmt.Sprintf("%s: %v (%s)", e.Name, ErrDown, e.State)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives ErrDown and the reason.
func (e *DownError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrDown}
	}
	return []error{ErrDown, e.Err}
}

// defaults fills in what is zero.
func (s Settings) defaults() Settings {
	s.StartTimeout = or(s.StartTimeout, 10*time.Second)
	s.Backoff.First = or(s.Backoff.First, 200*time.Millisecond)
	s.Backoff.Most = or(s.Backoff.Most, 30*time.Second)
	s.Backoff.Reset = or(s.Backoff.Reset, 5*time.Minute)
	s.Backoff.Window = or(s.Backoff.Window, 10*time.Minute)
	if s.Backoff.Crashes <= 0 {
		s.Backoff.Crashes = 5
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.After == nil {
		s.After = time.After
	}
	if s.Jitter == nil {
		s.Jitter = rand.Float64
	}
	if s.Notify == nil {
		s.Notify = func(Change) {}
	}
	if s.Start == nil {
		s.Start = start
	}
	return s
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// record counts failures. It belongs to the service's goroutine.
type record struct {
	crashes []time.Time // within the window
	inRow   int         // since the last long health
}

// crash notes a failure and says how long to wait, or that it was one too many.
func (r *record) crash(b Backoff, now time.Time, healthy time.Duration, jitter float64) (wait time.Duration,
	quarantined bool) {
	if healthy >= b.Reset {
		r.inRow = 0
	}
	keep := r.crashes[:0]
	for _, at := range r.crashes {
		if now.Sub(at) < b.Window {
			keep = append(keep, at)
		}
	}
	r.crashes = append(keep, now)
	wait = b.Most
	if r.inRow < 32 && b.First<<r.inRow < b.Most {
		wait = b.First << r.inRow
	}
	r.inRow++
	return wait - time.Duration(jitter*float64(wait)/4), len(r.crashes) >= b.Crashes
}
