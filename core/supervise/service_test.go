//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The state machine runs in a bubble with its own clock, on fake processes.

// stage makes fake processes and writes down what the service did with them.
type stage struct {
	mu      sync.Mutex
	alive   []*Process
	most    int // alive at once
	started int
	changes []Change
	deaf    bool // ignores SIGTERM
	stuck   bool // ignores SIGKILL too
	refuses error
}

func (st *stage) start(ctx context.Context, c Command) (*Process, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.refuses != nil {
		return nil, st.refuses
	}
	st.started++
	p := &Process{name: c.Name, pid: st.started, in: noInput{}, out: strings.NewReader(""), done: make(chan struct{}),
		gone: make(chan struct{})}
	p.signal = func(kill bool) {
		if kill && !st.stuck || !kill && !st.deaf {
			p.reaped = true
			st.ends(p, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseKilled, Err: "killed by the supervisor"})
		}
	}
	st.alive = append(st.alive, p)
	st.most = max(st.most, len(st.alive))
	return p, nil
}

func (st *stage) ends(p *Process, e Exit) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if i := slices.Index(st.alive, p); i >= 0 {
		st.alive = slices.Delete(st.alive, i, i+1)
		p.exit = e
		close(p.done)
		close(p.gone)
	}
}

// crash ends the current process of itself and lets the service see it.
func (st *stage) crash(t *testing.T, s *Service) {
	t.Helper()
	p, err := s.Process()
	if err != nil {
		t.Fatal(err)
	}
	st.ends(p, Exit{Code: 1, Cause: CauseExited, Err: "ended with exit status 1"})
	if _, err := s.Process(); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("before the service has noticed: %v", err)
	}
	synctest.Wait()
}

func (st *stage) settings() Settings {
	return Settings{
		Name: "fake", Start: st.start, Command: func() (Command, error) {
			return Command{Name: "fake"}, nil
		}, Jitter: func() float64 { return 0 },
		Notify: func(c Change) {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.changes = append(st.changes, c)
		},
	}
}

// path is the states since the last call.
func (st *stage) path() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	var to []string
	for i, c := range st.changes {
		if i == 0 {
			to = append(to, string(c.From))
		}
		to = append(to, string(c.To))
	}
	st.changes = nil
	return strings.Join(to, " ")
}

func (st *stage) wants(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := st.path(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// closes ends a service with little patience.
func closes(t *testing.T, s *Service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if p, err := s.Process(); p != nil || !errors.Is(err, ErrDown) || s.State().State != StateStopped {
		t.Errorf("after Close: %v %+v", err, s.State())
	}
}

// passes lets the bubble's clock go on.
func passes(d time.Duration) { <-time.After(d) }

func bubble(t *testing.T, name string, run func(t *testing.T, st *stage)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { run(t, &stage{}) })
	})
}

func TestWayUpAndDown(t *testing.T) {
	bubble(t, "asked to end", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Probe = func(_ context.Context, p *Process) error {
			if p.Pid() != 1 {
				t.Errorf("probed process %d", p.Pid())
			}
			return nil
		}
		s := Supervise(set)
		p, err := s.Wait(t.Context())
		if err != nil || p.Pid() != 1 {
			t.Fatal(err)
		}
		st.wants(t, "verify starting probing ready")
		if v := s.State(); v.Pid != 1 || v.Starts != 1 || v.Err != nil || v.Crashes != 0 || v.State != StateReady {
			t.Errorf("%+v", v)
		}
		s.Resume() // of no effect
		closes(t, s)
		st.wants(t, "ready draining stopped")
		closes(t, s) // twice
	})
	bubble(t, "deaf", func(t *testing.T, st *stage) {
		st.deaf = true
		s := Supervise(st.settings())
		s.Wait(t.Context())
		began := time.Now()
		closes(t, s)
		if took := time.Since(began); took != time.Second || len(st.alive) > 0 {
			t.Errorf("killed after %v, %d alive", took, len(st.alive))
		}
	})
	bubble(t, "stuck", func(t *testing.T, st *stage) {
		st.deaf, st.stuck = true, true
		s := Supervise(st.settings())
		p, _ := s.Wait(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err == nil || !strings.Contains(err.Error(), "process 1 of fake does not end") {
			t.Error(err)
		}
		st.ends(p, Exit{})
	})
}

func TestBackoff(t *testing.T) {
	bubble(t, "doubles", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Backoff.Crashes = 1000
		st.refuses = errors.New("no such thing")
		s := Supervise(set)
		var waits []time.Duration
		for range 11 {
			synctest.Wait()
			v := s.State()
			if v.State != StateBackoff || v.Err == nil || v.Err.Error() != "no such thing" {
				t.Fatalf("%+v", v)
			}
			waits = append(waits, time.Until(v.Next))
			passes(time.Until(v.Next) - 1)
			synctest.Wait()
			if s.State().State != StateBackoff {
				t.Error("it did not wait")
			}
			passes(1)
		}
		want := "[200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s 25.6s 30s 30s 30s]"
		if got := fmt.Sprint(waits); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		closes(t, s)
	})
	bubble(t, "health resets it", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Backoff.Crashes = 1000
		s := Supervise(set)
		for _, c := range []struct{ healthy, wait time.Duration }{
			{0, 200 * time.Millisecond}, {time.Second, 400 * time.Millisecond}, {5*time.Minute - 1, 800 * time.Millisecond},
			{5 * time.Minute, 200 * time.Millisecond}, {0, 400 * time.Millisecond},
		} {
			s.Wait(t.Context())
			passes(c.healthy)
			st.crash(t, s)
			if got := time.Until(s.State().Next); got != c.wait {
				t.Errorf("healthy for %v, then waits %v, want %v", c.healthy, got, c.wait)
			}
		}
		closes(t, s)
	})
	t.Run("jitter", func(t *testing.T) {
		b := (Settings{}).defaults().Backoff
		for n := range 40 {
			for _, j := range []float64{0, 0.5, 0.999} {
				r := record{inRow: n}
				wait, _ := r.crash(b, time.Unix(0, 0), 0, j)
				full := min(200*time.Millisecond<<min(n, 20), 30*time.Second)
				if want := full - time.Duration(j*float64(full)/4); wait != want {
					t.Errorf("after %d: %v, want %v", n, wait, want)
				}
			}
		}
	})
}

func TestQuarantine(t *testing.T) {
	bubble(t, "until resumed", func(t *testing.T, st *stage) {
		s := Supervise(st.settings())
		for i := range 5 {
			if _, err := s.Wait(t.Context()); err != nil {
				t.Fatal(i, err)
			}
			st.crash(t, s)
		}
		if v := s.State(); v.State != StateQuarantined || v.Crashes != 5 || v.Starts != 5 || v.Pid != 0 {
			t.Errorf("%+v", v)
		}
		st.path()
		passes(1000 * time.Hour)
		st.wants(t, "")
		_, err := s.Wait(t.Context())
		if !errors.Is(err, ErrDown) || err.Error() != "fake: no process is ready (quarantined): ended with exit status 1" {
			t.Error(err)
		}
		s.Restart(errors.New("of no effect"))
		st.wants(t, "")
		s.Resume()
		synctest.Wait() // at once, without a wait
		if v := s.State(); v.State != StateReady || v.Crashes != 0 || v.Err != nil {
			t.Errorf("%+v", v)
		}
		st.wants(t, "quarantined verify starting probing ready")
		st.crash(t, s)
		if v := s.State(); v.State != StateBackoff || v.Crashes != 1 || time.Until(v.Next) != 200*time.Millisecond {
			t.Errorf("%+v", v)
		}
		closes(t, s)
	})
	bubble(t, "not when far apart", func(t *testing.T, st *stage) {
		s := Supervise(st.settings())
		for range 20 {
			s.Wait(t.Context())
			passes(3 * time.Minute) // so four of them are within ten minutes
			st.crash(t, s)
			if s.State().State != StateBackoff {
				t.Fatalf("%+v", s.State())
			}
		}
		closes(t, s)
	})
	bubble(t, "closed while in it", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Backoff.Crashes = 1
		st.refuses = errors.New("never")
		s := Supervise(set)
		synctest.Wait()
		closes(t, s)
		st.wants(t, "verify starting quarantined stopped")
	})
}

func TestResumeInBackoff(t *testing.T) {
	bubble(t, "starts at once", func(t *testing.T, st *stage) {
		s := Supervise(st.settings())
		s.Wait(t.Context())
		s.Resume() // long before: not kept for later
		st.crash(t, s)
		if s.State().State != StateBackoff {
			t.Errorf("%+v", s.State())
		}
		before := time.Now()
		s.Resume()
		synctest.Wait()
		if s.State().State != StateReady || !time.Now().Equal(before) {
			t.Errorf("%+v", s.State())
		}
		closes(t, s)
	})
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*stage, *Settings)
		path   string
		err    string
		after  time.Duration
	}{
		"verify": {func(st *stage, set *Settings) {
			set.Command = func() (Command, error) { return Command{}, errors.New("digest differs") }
		}, "verify backoff", "verify: digest differs", 0},
		"start": {func(st *stage, set *Settings) { st.refuses = errors.New("exec: no") }, "verify starting backoff", "exec: no", 0},
		"probe": {func(st *stage, set *Settings) {
			set.Probe = func(context.Context, *Process) error { return errors.New("wrong version") }
		}, "verify starting probing backoff", "probe: wrong version", 0},
		"probe is late": {func(st *stage, set *Settings) {
			set.Probe = func(ctx context.Context, _ *Process) error { <-ctx.Done(); return ctx.Err() }
		}, "verify starting probing backoff", "took too long to become ready: more than 10s", 10 * time.Second},
		"probe sees the process only": {func(st *stage, set *Settings) {
			set.StartTimeout = time.Minute
			set.Probe = func(_ context.Context, p *Process) error { <-p.Done(); return nil }
		}, "verify starting probing backoff", "took too long to become ready: more than 1m0s", time.Minute},
		"it ends when probed": {func(st *stage, set *Settings) {
			set.Probe = func(ctx context.Context, p *Process) error {
				st.ends(p, Exit{Code: 9, Cause: CauseExited, Err: "ended with exit status 9"})
				<-ctx.Done()
				return nil
			}
		}, "verify starting probing backoff", "it ended before it was ready (ended with exit status 9)", 0},
	} {
		bubble(t, name, func(t *testing.T, st *stage) {
			set := st.settings()
			c.change(st, &set)
			s := Supervise(set)
			synctest.Wait()
			passes(c.after)
			st.wants(t, c.path)
			if v := s.State(); v.Err == nil || v.Err.Error() != c.err || v.Crashes != 1 || len(st.alive) > 0 {
				t.Errorf("%+v, %d alive", v, len(st.alive))
			}
			if _, err := s.Process(); !errors.Is(err, ErrDown) || !strings.HasSuffix(err.Error(), "(backoff): "+c.err) {
				t.Error(err)
			}
			closes(t, s)
		})
	}
}

func TestRestart(t *testing.T) {
	bubble(t, "ready", func(t *testing.T, st *stage) {
		s := Supervise(st.settings())
		old, _ := s.Wait(t.Context())
		late := errors.New("a call was late")
		s.Restart(late)
		if _, err := s.Process(); !errors.Is(err, ErrDown) || !errors.Is(err, late) {
			t.Errorf("right after: %v", err)
		}
		synctest.Wait()
		if v := s.State(); v.State != StateBackoff || !errors.Is(v.Err, late) || v.Crashes != 1 {
			t.Errorf("%+v", v)
		}
		s.Wait(t.Context())
		s.Fail(old, errors.New("late as well, but that was the old one"))
		synctest.Wait()
		p, err := s.Process()
		if err != nil || p == old {
			t.Fatal(err)
		}
		s.Fail(p, nil)
		synctest.Wait()
		if v := s.State(); v.Crashes != 2 || v.Err.Error() != "a restart was asked for" {
			t.Errorf("%+v", v)
		}
		closes(t, s)
	})
	bubble(t, "probing", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Probe = func(ctx context.Context, _ *Process) error { <-ctx.Done(); return nil }
		s := Supervise(set)
		synctest.Wait()
		s.Restart(errors.New("enough"))
		st.wants(t, "verify starting probing backoff")
		if v := s.State(); v.Err.Error() != "enough" {
			t.Errorf("%+v", v)
		}
		closes(t, s)
	})
	bubble(t, "stuck", func(t *testing.T, st *stage) {
		s := Supervise(st.settings())
		old, _ := s.Wait(t.Context())
		st.mu.Lock()
		st.stuck = true
		st.mu.Unlock()
		s.Restart(errors.New("late"))
		p, err := s.Wait(t.Context()) // another one, though the old one does not end
		if err != nil || p == old {
			t.Error(err)
		}
		st.ends(old, Exit{})
		st.mu.Lock()
		st.stuck = false
		st.mu.Unlock()
		closes(t, s)
	})
}

func TestCloseOnTheWay(t *testing.T) {
	bubble(t, "probing", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Probe = func(ctx context.Context, _ *Process) error { <-ctx.Done(); return nil }
		s := Supervise(set)
		synctest.Wait()
		closes(t, s)
		if len(st.alive) > 0 {
			t.Error("a process lives")
		}
		st.wants(t, "verify starting probing stopped")
	})
	bubble(t, "backoff", func(t *testing.T, st *stage) {
		st.refuses = errors.New("no")
		s := Supervise(st.settings())
		synctest.Wait()
		closes(t, s)
		st.wants(t, "verify starting backoff stopped")
	})
	bubble(t, "a command that hangs", func(t *testing.T, st *stage) {
		set := st.settings()
		free := make(chan struct{})
		set.Command = func() (Command, error) { <-free; return Command{}, nil }
		s := Supervise(set)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err == nil || !strings.Contains(err.Error(), "does not return") {
			t.Error(err)
		}
		close(free)
		closes(t, s)
		if st.started > 0 {
			t.Error("started after Close")
		}
	})
	bubble(t, "waiters", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Probe = func(ctx context.Context, _ *Process) error { <-ctx.Done(); return nil }
		s := Supervise(set)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Wait(short); !errors.Is(err, ErrDown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		failed := make(chan error, 1)
		go func() { _, err := s.Wait(context.Background()); failed <- err }()
		synctest.Wait()
		closes(t, s)
		if err := <-failed; !errors.Is(err, ErrDown) {
			t.Error(err)
		}
	})
}

// The clock can be handed in.
func TestClock(t *testing.T) {
	at := time.Unix(1e9, 0)
	due := make(chan chan time.Time, 10)
	st := &stage{refuses: errors.New("no")}
	set := st.settings()
	set.Now = func() time.Time { return at }
	set.After = func(d time.Duration) <-chan time.Time {
		c := make(chan time.Time, 1)
		if d == 200*time.Millisecond {
			due <- c
		}
		return c
	}
	s := Supervise(set)
	c := <-due
	until(t, "it waits", func() bool { return s.State().State == StateBackoff })
	if v := s.State(); !v.Next.Equal(at.Add(200*time.Millisecond)) || !v.Since.Equal(at) {
		t.Errorf("%+v", v)
	}
	c <- at
	until(t, "it fails again", func() bool { return s.State().Crashes == 2 })
	closes(t, s)
}

// next lists the legal steps.
var next = map[State][]State{
	StateVerify:      {StateStarting, StateBackoff, StateQuarantined, StateStopped},
	StateStarting:    {StateProbing, StateBackoff, StateQuarantined, StateStopped},
	StateProbing:     {StateReady, StateBackoff, StateQuarantined, StateStopped},
	StateReady:       {StateBackoff, StateQuarantined, StateDraining},
	StateBackoff:     {StateVerify, StateStopped},
	StateQuarantined: {StateVerify, StateStopped},
	StateDraining:    {StateStopped},
}

// Whatever happens, in whatever order: steps are legal, no two processes live at once, and quarantine comes with the
// fifth crash.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			st := &stage{}
			set := st.settings()
			set.Jitter = rand.New(rand.NewPCG(seed, 2)).Float64
			set.Probe = func(ctx context.Context, p *Process) error {
				select {
				case <-time.After(time.Duration(p.pid%13) * time.Second):
				case <-ctx.Done():
				}
				return nil
			}
			s := Supervise(set)
			for range 60 {
				synctest.Wait()
				p, err := s.Process()
				if state := s.State().State; (err == nil) != (state == StateReady) || (p == nil) != (err != nil) {
					t.Fatalf("seed %d: %v in state %s", seed, err, state)
				}
				switch r.IntN(8) {
				case 0, 1:
					st.mu.Lock()
					alive := slices.Clone(st.alive)
					st.mu.Unlock()
					for _, p := range alive {
						st.ends(p, Exit{Code: 1, Cause: CauseExited, Err: "crash"})
					}
				case 2:
					s.Restart(errors.New("late"))
				case 3:
					s.Fail(p, errors.New("garbage"))
				case 4:
					if r.IntN(4) == 0 {
						s.Resume()
					}
				case 5:
					passes(time.Duration(r.IntN(300)) * time.Second)
				default:
					passes(time.Duration(r.IntN(2000)) * time.Millisecond)
				}
			}
			closes(t, s)
			for i, c := range st.changes {
				if !slices.Contains(next[c.From], c.To) || i > 0 && st.changes[i-1].To != c.From {
					t.Errorf("seed %d: from %s to %s", seed, c.From, c.To)
				}
				if c.To == StateQuarantined && c.Crashes != 5 || c.To == StateBackoff && c.Crashes >= 5 ||
					(c.To == StateBackoff || c.To == StateQuarantined) && c.Err == nil {
					t.Errorf("seed %d: %+v", seed, c)
				}
			}
			if st.most > 1 || len(st.alive) > 0 {
				t.Errorf("seed %d: %d alive at once, %d left", seed, st.most, len(st.alive))
			}
		})
	}
}

// TestRenew: what was renewed starts again at once and has not crashed.
func TestRenew(t *testing.T) {
	bubble(t, "without a wait", func(t *testing.T, st *stage) {
		set := st.settings()
		set.Backoff.Crashes = 1
		s := Supervise(set)
		for i := range 4 {
			p, err := s.Wait(t.Context())
			if err != nil {
				t.Fatal(i, err)
			}
			passes(time.Second)
			s.Renew(p, errors.New("of a text"))
			synctest.Wait()
			if v := s.State(); v.State != StateReady || v.Crashes != 0 || v.Starts != uint64(i+2) {
				t.Errorf("%+v", v)
			}
		}
		closes(t, s)
	})
}
