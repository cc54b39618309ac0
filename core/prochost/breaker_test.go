//go:build linux

package prochost

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// TestBreakerTrialGivenUp: a trial whose caller left says nothing of the plugin. It neither closes the breaker nor
// opens it, and somebody else's takes its place.
func TestBreakerTrialGivenUp(t *testing.T) {
	const trials = 2
	p := loaded(t, guestSpec("stock"), Options{}, func(s *Spec) {
		s.Timeout, s.Breaker = 30*time.Second, Breaker{Calls: 1, Delay: time.Millisecond, Trials: trials}
	})
	_, err := p.Check(context.Background(), &chain.Call{ToolID: "set", CallID: `error: "no"`})
	if err == nil || p.Status().Breaker != "open" {
		t.Fatalf("%v, the breaker is %s", err, p.Status().Breaker)
	}
	for n := range 3 * trials {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		until(t, "its delay has passed", func() bool { return p.able(Authorizer, whose{}) == nil })
		go func() { _, err := p.Check(ctx, tool("silent")); done <- err }()
		until(t, "a trial is on its way", func() bool { return p.Status().Breaker == "half-open" && p.places.InUse() == 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if s := p.Status().Breaker; s != "half-open" {
			t.Fatalf("after %d trials that were given up the breaker is %s", n+1, s)
		}
	}
	for range trials {
		if v, err := check(p, "permit"); err != nil || v.Effect != sdk.Permit {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if s := p.Status().Breaker; s != "closed" {
		t.Errorf("after as many good ones as it wants the breaker is %s", s)
	}
	if n := p.Stats().BreakerOpen; n != 1 {
		t.Errorf("it opened %d times", n)
	}
}

// TestBreakerStates: a call that was begun in an earlier state neither closes nor opens the breaker, and makes no room
// for more trials.
func TestBreakerStates(t *testing.T) {
	b := newBreaker(Breaker{Failures: 1, Calls: 1, Window: time.Hour, Delay: time.Nanosecond, Trials: 1},
		func(string, string) {})
	ask := func() permit {
		t.Helper()
		var p permit
		until(t, "leave", func() (ok bool) { p, ok = b.permit(); return ok })
		return p
	}
	none := func(about string) {
		t.Helper()
		if _, ok := b.permit(); ok {
			t.Errorf("%s: there is leave for another call", about)
		}
	}
	is := func(want, about string) {
		t.Helper()
		if got := b.state(); got != want {
			t.Errorf("%s: it is %s, not %s", about, got, want)
		}
	}
	late, well := ask(), ask()
	ask().tell(wentWrong)
	is("open", "a failure")
	trial := ask()
	none("a trial is on its way")
	late.tell(wentWrong)
	is("half-open", "a failure from before")
	well.tell(wentWell)
	is("half-open", "a success from before")
	none("calls from before have ended")
	trial.tell(wentUnknown)
	is("half-open", "a trial that was given up")
	trial = ask()
	none("its place is taken")
	trial.tell(wentWrong)
	is("open", "a trial that failed")
	trial = ask()
	b.closeCircuit()
	trial.tell(wentWrong)
	is("closed", "a trial from before an operator closed it")
}

// TestBreakerNeverStuck: however calls go and overlap, it closes once they go well.
func TestBreakerNeverStuck(t *testing.T) {
	b := newBreaker(Breaker{Failures: 0.5, Calls: 4, Window: time.Hour, Delay: time.Nanosecond, Trials: 3},
		func(string, string) {})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var held []permit
			for range 5000 {
				if p, ok := b.permit(); ok {
					held = append(held, p)
				}
				if n := len(held); n > 0 && (n > 4 || rand.IntN(2) == 0) {
					i := rand.IntN(n)
					held[i].tell(outcome(rand.IntN(3)))
					held[i], held = held[n-1], held[:n-1]
				}
			}
			for _, p := range held {
				p.tell(wentUnknown)
			}
		})
	}
	all.Wait()
	until(t, "it closes", func() bool {
		if p, ok := b.permit(); ok {
			p.tell(wentWell)
		}
		return b.state() == "closed"
	})
}

// TestMaskingPassesNoOpenBreaker: a plugin that hangs costs decisions no time for masking once its breaker is open.
func TestMaskingPassesNoOpenBreaker(t *testing.T) {
	b := newBreaker(Breaker{Failures: 1, Calls: 1, Window: time.Hour, Delay: time.Hour, Trials: 1},
		func(string, string) {})
	p := &Plugin{o: Options{Now: time.Now}, breaker: b}
	leave, err := p.permit(whose{key: "broken"})
	if err != nil {
		t.Fatal(err)
	}
	leave.tell(p.blame.of("broken", wentWrong, time.Now()))
	for who, passes := range map[whose]bool{{"broken", false}: false, {"broken", true}: false, {"other", false}: true,
		{"other", true}: false} {
		if _, err := p.permit(who); (err == nil) != passes {
			t.Errorf("%+v: %v", who, err)
		}
	}
}

// TestJudge: what the breaker learns of a call.
func TestJudge(t *testing.T) {
	p := &Plugin{spec: Spec{Timeout: time.Hour}}
	gone, leave := context.WithCancel(context.Background())
	leave()
	now := time.Now()
	for _, c := range []struct {
		about           string
		ctx             context.Context
		err             error
		begun, deadline time.Time
		want            outcome
	}{
		{"an answer", gone, nil, now, now, wentWell},
		{"the caller left", gone, context.Canceled, now, now.Add(time.Hour), wentUnknown},
		{"cancelled, and not by the caller", t.Context(), context.Canceled, now, now.Add(time.Hour), wentWrong},
		{"the plugin's time was up", t.Context(), errLate, now.Add(-time.Hour), now, wentWrong},
		{"the caller's time was up, and it was a fair share", t.Context(), errLate, now.Add(-16 * time.Minute), now, wentWrong},
		{"the caller's time was up, and it was little", t.Context(), errLate, now.Add(-14 * time.Minute), now, wentUnknown},
		{"the plugin says that its time is up, and it is not", t.Context(), errLate, now, now.Add(time.Hour), wentWrong},
		{"no answer", gone, ErrAnswer, now, now, wentWrong},
		{"the plugin ended", gone, ErrLost, now, now, wentWrong},
	} {
		if got := p.judge(c.ctx, whose{}, c.err, c.begun, c.deadline); got != c.want {
			t.Errorf("%s: %d, not %d", c.about, got, c.want)
		}
	}
}
