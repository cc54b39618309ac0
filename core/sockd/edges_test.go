package sockd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSilentPeersKeepNobodyOut(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Connections, set.Keyless = 10, 5 })
	key := r.key("agent", "authorize").Value
	kept := r.as(key)
	for i := range 40 {
		silent := r.dial()
		if i%2 == 0 {
			silent.write(`{"type":"echo"`)
		}
		if i%10 == 0 {
			r.as(key).ask(`{"type":"echo"}`)
		}
	}
	kept.ask(`{"type":"echo"}`)
}

// A line that nobody is known for is held up to a bound for all of them together, and then refused.
func TestLinesOfUnknownPeersAreBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Bodies = 4 << 20 }) // 512 KiB for strangers
	key := r.key("agent", "authorize").Value
	first := r.dial()
	first.write(`{"type":"echo","x":"` + strings.Repeat("x", 300<<10))
	until(t, "the first line is held", func() bool { return r.s.strange.Used() > 0 })
	over := r.dial()
	over.write(`{"type":"echo","x":"` + strings.Repeat("x", 500<<10) + "\"}\n")
	if got := over.line(); !strings.Contains(got, `"code":"overloaded"`) || !strings.Contains(got, "DENY") {
		t.Errorf("%.300s", got)
	}
	known := r.as(key)
	known.ask(`{"type":"echo","x":"` + strings.Repeat("x", 500<<10) + `"}`)
	first.Close()
	until(t, "all is given back", func() bool { return r.s.strange.Used() == 0 })
}

func TestMessagesInFlightAreBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Bodies, set.BodiesPerKey = 4<<20, 1<<20 })
	c := r.as(r.key("agent", "authorize").Value)
	long := strings.Repeat("x", 400<<10)
	for i := range 20 { // one after another they fit, each time
		if got := c.ask(fmt.Sprintf(`{"type":"echo","id":%d,"x":"%s"}`, i, long)); strings.Contains(got, `"code":`) {
			t.Fatalf("%.200s", got)
		}
	}
	if got := c.ask(`{"type":"echo","x":"` + long + long + long + `"}`); !strings.Contains(got, `"code":"too_many_requests"`) && !strings.Contains(got, `"code":"overloaded"`) && !strings.Contains(got, `"code":"too_large"`) {
		t.Errorf("a message of more than a key may hold: %.200s", got)
	}
	until(t, "all is given back", func() bool { return r.s.bodies.Used() < 1<<20 })
}

func TestFirstMessageHasItsOwnLimit(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Idle, set.FirstByte = time.Hour, 30*time.Millisecond })
	kept := r.as(r.key("agent", "authorize").Value)
	r.dial().end()
	kept.ask(`{"type":"echo"}`)
}
