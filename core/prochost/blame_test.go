package prochost

import (
	"context"
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
		if _, err := p.Check(context.Background(), &chain.Call{ToolID: "set", CallID: `error: "no"`, KeyID: key}); err == nil {
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
