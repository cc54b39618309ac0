package ops

import (
	"context"
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
