package ops

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// TestListTurns: a key reads one list at a time, rests, and holds up no other.
func TestListTurns(t *testing.T) {
	turns := newListTurns()
	var rest time.Duration
	var over func()
	turns.after = func(d time.Duration, fn func()) { rest, over = d, fn }
	over1, cancel := context.WithCancel(t.Context())
	cancel()
	leave, err := turns.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turns.enter(over1, "a"); err == nil {
		t.Error("the key reads two at once")
	}
	other, err := turns.enter(over1, "b")
	if err != nil && other == nil { // a select may see that the context is over first
		if other, err = turns.enter(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
	other(time.Millisecond)
	over()
	leave(time.Millisecond)
	if rest != restTimes*time.Millisecond {
		t.Errorf("it rests for %v", rest)
	}
	if _, err := turns.enter(over1, "a"); err == nil {
		t.Error("the key reads in its rest")
	}
	over()
	if len(turns.of) != 0 {
		t.Errorf("%d keys are left", len(turns.of))
	}
	if leave, err = turns.enter(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if leave(time.Hour); rest != mostRest {
		t.Errorf("it rests for %v", rest)
	}
	over()
}

// TestListTurnsAreFew: only so many of a key wait.
func TestListTurnsAreFew(t *testing.T) {
	turns := newListTurns()
	turns.after = func(_ time.Duration, fn func()) { fn() }
	leave, err := turns.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	leaves := make(chan func(time.Duration), mostUsers)
	for range mostUsers - 1 {
		go func() {
			leave, err := turns.enter(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			leaves <- leave
		}()
	}
	for users := 0; users < mostUsers; runtime.Gosched() { // only a defect lets this wait for ever
		turns.mu.Lock()
		users = turns.of["a"].users
		turns.mu.Unlock()
	}
	if _, err := turns.enter(t.Context(), "a"); err == nil {
		t.Error("one too many waits")
	}
	leave(0)
	for range mostUsers - 1 {
		(<-leaves)(0)
	}
	if len(turns.of) != 0 {
		t.Errorf("%d keys are left", len(turns.of))
	}
}

// TestAListThatGaveUp: who goes while others read leaves the key's turn.
func TestAListThatGaveUp(t *testing.T) {
	p := newPages([]byte("pepper"), time.Now)
	p.turns.after = func(_ time.Duration, fn func()) { fn() }
	for range pagesAtOnce {
		if err := p.takePlace(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a turn that is free and a caller who has gone are picked from by chance
		if _, err := p.enter(&Request{Ctx: gone}); err == nil {
			t.Fatal("it reads although there is no room")
		}
	}
	p.leave()
	leave, err := p.enter(&Request{Ctx: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	if leave(); len(p.turns.of) != 0 {
		t.Errorf("%d keys are left", len(p.turns.of))
	}
}
