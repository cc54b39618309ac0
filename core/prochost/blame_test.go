package prochost

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
)

// One key whose calls fail does not close the plugin to the others, as long as theirs go well.
func TestOneKeysFailuresCloseNoPlugin(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, func(s *Spec) {
		s.Timeout, s.Breaker = 30*time.Second, Breaker{Calls: 4, Delay: time.Hour, Trials: 1}
	})
	fails := func(key string) {
		if _, err := p.Check(context.Background(), &chain.Call{ToolID: "set", CallID: `error: "no"`, KeyID: key}); err ==
			nil {
			t.Fatal("no error")
		}
	}
	goes := func(key string) error {
		_, err := p.Check(context.Background(), &chain.Call{ToolID: "permit", KeyID: key})
		return err
	}
	if err := goes("sound"); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		fails("broken")
	}
	if err := goes("sound"); err != nil {
		t.Errorf("the breaker is %s for a key whose calls go well: %v", p.Status().Breaker, err)
	}
	for range 40 { // now it fails everybody
		if p.Status().Breaker == "open" {
			return
		}
		fails("sound")
		fails("broken")
	}
	t.Error("the breaker never opens")
}

// A breaker that one key's calls opened, alone, refuses that key, and others only once their own calls fail.
func TestAnOpenBreakerLetsOthersPass(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, func(s *Spec) {
		s.Timeout, s.Breaker = 30*time.Second, Breaker{Calls: 4, Delay: time.Hour, Trials: 1}
	})
	ask := func(key, tool string) error {
		_, err := p.Check(context.Background(), &chain.Call{ToolID: tool, CallID: `error: "no"`, KeyID: key})
		return err
	}
	for range 8 {
		if ask("broken", "set") == nil {
			t.Fatal("no error")
		}
	}
	if s := p.Status().Breaker; s != "open" {
		t.Fatalf("the breaker is %s", s)
	}
	if err := ask("broken", "permit"); !errors.Is(err, errOpen) {
		t.Errorf("the key whose calls failed: %v", err)
	}
	for range 3 {
		if err := ask("sound", "permit"); err != nil {
			t.Errorf("another key: %v", err)
		}
	}
	if err := ask("new", "set"); err == nil || errors.Is(err, errOpen) {
		t.Errorf("a key without calls: %v", err)
	}
	if err := ask("new", "permit"); !errors.Is(err, errOpen) {
		t.Errorf("once its one call has failed: %v", err)
	}
	for range lastCalls {
		_ = ask("sound", "set")
	}
	if err := ask("sound", "permit"); !errors.Is(err, errOpen) {
		t.Errorf("a key whose calls fail by now: %v", err)
	}
}

// Where more keys fail than can be remembered, an open breaker refuses those that are forgotten too: else each call of
// theirs would be late beside a plugin that hangs.
func TestAnOpenBreakerRefusesKeysBeyondMemory(t *testing.T) {
	var b blame
	now := time.Unix(1, 0)
	for i := range blameKeys {
		if !b.clear(fmt.Sprint(i), now, true) {
			t.Fatalf("key %d of %d does not pass", i, blameKeys)
		}
		b.of(fmt.Sprint(i), wentWrong, now)
	}
	if b.clear("one more", now, true) || b.clear("0", now, true) {
		t.Error("a key passes that is not remembered, or whose call failed")
	}
	if now = now.Add(blameKept + time.Second); !b.clear("one more", now, true) {
		t.Error("a key does not pass although what is remembered is too old to say anything")
	}
	for i := range blameKeys {
		came := wentWell
		if i < blameKeys/2-1 {
			came = wentWrong
		}
		b.of(fmt.Sprint(i), came, now)
	}
	if !b.clear("one more", now, true) {
		t.Error("a forgotten key does not pass although most of the others fare well")
	}
}

// What is remembered of keys is bounded and grows old.
func TestBlameForgets(t *testing.T) {
	var b blame
	now := time.Unix(1, 0)
	for i := range 4 * blameKeys {
		now = now.Add(time.Millisecond)
		b.of(fmt.Sprint(i), wentWell, now)
	}
	if len(b.last) != blameKeys {
		t.Errorf("%d keys are remembered", len(b.last))
	}
	if got := b.of("new", wentWrong, now); got != wentUnknown {
		t.Errorf("beside sound keys: %v", got)
	}
	if got := b.of("new", wentWrong, now.Add(blameKept+time.Second)); got != wentWrong {
		t.Errorf("alone: %v", got)
	}
	if got := b.of("new", wentUnknown, now); got != wentUnknown {
		t.Errorf("unknown: %v", got)
	}
}

// A key that goes on failing keeps no other key from a plugin that is well again: each has trials of its own, and one
// that goes well frees it.
func TestEachKeyHasItsOwnTrials(t *testing.T) {
	b := blame{delay: 10 * time.Second}
	begin := time.Unix(1, 0)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	want := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	for range 2 * lastCalls { // an outage; calls that were under way fail late
		b.of("broken", wentWrong, at(0))
		b.of("sound", wentWrong, at(0))
	}
	want("before the delay is over", b.clear("sound", at(9), true), false)
	want("the first trial of one key", b.clear("broken", at(10), true), true)
	b.of("broken", wentWrong, at(10))
	want("its next one is not due", b.clear("broken", at(29), true), false)
	want("the trial of another key", b.clear("sound", at(11), false), true)
	want("a look takes none", b.clear("sound", at(11), true), true)
	want("the second while the first is under way", b.clear("sound", at(12), true), false)
	b.of("sound", wentWell, at(12))
	for s := range 3 {
		want("once it went well", b.clear("sound", at(12+s), true), true)
	}
	want("a key that goes on failing, after twice the delay", b.clear("broken", at(30), true), true)
	b.of("broken", wentUnknown, at(31)) // its caller left
	want("after a trial that told nothing", b.clear("broken", at(49), true), false)
	for s := 50; s < 1000; s += 60 {
		want("a pause has a most", b.clear("broken", at(s), true), true)
		b.of("broken", wentWrong, at(s))
	}
}
