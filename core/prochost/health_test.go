package prochost

import (
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/supervise"
)

// TestHealthAllowance: five a second for ever, and three hundred more.
func TestHealthAllowance(t *testing.T) {
	now := time.Unix(1, 0)
	a := allowance{left: healthBurst, at: now}
	for i := range 10_000 {
		now = now.Add(200 * time.Millisecond)
		if !a.countMessage(now) {
			t.Fatalf("message %d at five a second is one too many", i)
		}
	}
	for i := range 299 { // one went with the last second
		if !a.countMessage(now) {
			t.Fatalf("message %d of a burst is one too many", i)
		}
	}
	if a.countMessage(now) {
		t.Error("a burst has no end")
	}
	if now = now.Add(time.Hour); !a.countMessage(now) || a.left > healthBurst {
		t.Errorf("%v are left behind an hour of silence", a.left)
	}
}

// TestHealthFlood: a plugin that says without end whether it serves is ended, and until then not each of its words is
// told.
func TestHealthFlood(t *testing.T) {
	changes := make(chan Change, 1<<16)
	p := loaded(t, guestSpec("stock"), Options{Notify: func(c Change) { changes <- c }}, generous)
	check(p, "flood") // it may be gone before it has answered
	told := 0
	for limit := time.After(patience); ; told++ {
		select {
		case c := <-changes:
			if c.To != supervise.StateBackoff {
				continue
			}
			if !strings.Contains(c.Reason, "floods its health stream") {
				t.Error(c.Reason)
			}
			if told > int(healthBurst)+100 {
				t.Errorf("%d changes were told", told)
			}
			return
		case <-limit:
			t.Fatalf("it goes on: %+v", p.Status())
		}
	}
}
