package sockd

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
)

func TestSilentPeersKeepNobodyOut(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Connections, set.Limits.KeylessPer = 10, 5 })
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
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Bodies = 4 << 20 }) // 512 KiB for strangers
	key := r.key("agent", "authorize").Value
	text := strings.Repeat("x", 200<<10) // its buffer is 256 KiB: 192 KiB more than each connection has
	first, second := r.dial(), r.dial()
	for _, c := range []*client{first, second} {
		c.write(`{"type":"echo","x":"` + text)
	}
	until(t, "the first two lines are held", func() bool { return r.s.strange.Used() == 2*192<<10 })
	over := r.dial()
	over.write(`{"type":"echo","x":"` + text + "\"}\n")
	if got := over.line(); !strings.Contains(got, `"code":"overloaded"`) || !strings.Contains(got, "DENY") {
		t.Errorf("%.300s", got)
	}
	known := r.as(key)
	known.ask(`{"type":"echo","x":"` + strings.Repeat("x", 500<<10) + `"}`)
	first.Close()
	second.Close()
	until(t, "all is given back", func() bool { return r.s.strange.Used() == 0 })
	alone := r.dial()
	alone.write(`{"type":"echo","x":"` + text + "\"}\n")
	if got := alone.line(); strings.Contains(got, "overloaded") {
		t.Errorf("a line alone: %.300s", got)
	}
}

func TestMessagesInFlightAreBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Bodies, set.Limits.BodiesPerKey = 24<<20, 6<<20 })
	agent, other := r.key("agent", "authorize").Value, r.key("other", "authorize").Value
	long := strings.Repeat("x", 1010<<10)
	busy, c := r.as(agent), r.as(agent)
	used := 0
	for i := range 5 {
		line := fmt.Sprintf(`{"type":"hold","n":%d,"x":"%s"}`, i, long)
		if i%2 == 0 { // all of a line counts, whatever of it the operation gets
			line = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"hold","params":{"n":%d},"beside":"%s"}`, i, long)
		}
		busy.write(line + "\n")
		used += len(line)
	}
	held := r.holds(5)
	until(t, "what they hold is their length", func() bool { return r.s.bodies.Used() == int64(used) })
	if got := c.ask(`{"type":"echo","x":"` + long + `"}`); !strings.Contains(got, `"too_many_requests"`) ||
		!strings.Contains(got, "limits.bodies_per_key") {
		t.Errorf("one more than the key may hold: %.300s", got)
	}
	for _, fits := range []func() string{
		func() string { return c.ask(`{"type":"echo","say":1}`) },
		func() string { return r.as(other).ask(`{"type":"echo","say":1,"x":"` + long + `"}`) },
	} {
		if got := fits(); !strings.Contains(got, `"said":1`) {
			t.Errorf("beside what the key holds: %.300s", got)
		}
	}
	for _, h := range held {
		close(h.done)
	}
	for range held {
		busy.line()
	}
	until(t, "all is given back", func() bool { return r.s.bodies.Used() == 0 })
	for range 5 { // one after another they fit, each time
		if got := c.ask(`{"type":"echo","say":1,"x":"` + long + `"}`); !strings.Contains(got, `"said":1`) {
			t.Fatalf("%.300s", got)
		}
		until(t, "all is given back", func() bool { return r.s.bodies.Used() == 0 })
	}
}

// Many short values need far more memory than their text: that counts too. One message alone always fits.
func TestParsedMessagesInFlightAreBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Bodies, set.Limits.BodiesPerKey = 4<<20, 1<<20 })
	agent, other := r.key("agent", "authorize").Value, r.key("other", "authorize").Value
	values := func(n int) string { return "[0" + strings.Repeat(",0", n) + "]" }
	exponents := func(n int) string { return "[0" + strings.Repeat(",1e308", n) + "]" } // longer when they are written out
	busy, c := r.as(agent), r.as(agent)
	busy.write(`{"type":"hold","n":1,"x":` + values(40_000) + "}\n")
	held := r.holds(1)["1"]
	until(t, "the parsed form is held", func() bool { return r.s.bodies.Used() > 800_000 })
	if got := c.ask(`{"type":"echo","x":` + values(40_000) + "}"); !strings.Contains(got, `"too_many_requests"`) ||
		!strings.Contains(got, "limits.bodies_per_key") {
		t.Errorf("one more than the key may hold: %.300s", got)
	}
	if got := c.ask(`{"type":"echo","x":` + exponents(2000) + "}"); !strings.Contains(got, `"too_many_requests"`) {
		t.Errorf("numbers with exponents: %.300s", got)
	}
	if got := c.ask(`{"type":"echo","say":1,"x":` + values(400) + "}"); !strings.Contains(got, `"said":1`) {
		t.Errorf("a short one: %.300s", got)
	}
	if got := r.as(other).ask(`{"type":"echo","say":1,"x":` + values(40_000) + "}"); !strings.Contains(got, `"said":1`) {
		t.Errorf("of another key: %.300s", got)
	}
	close(held.done)
	busy.line()
	until(t, "all is given back", func() bool { return r.s.bodies.Used() == 0 })
	if got := c.ask(`{"type":"echo","say":1,"x":` + values(90_000) + "}"); !strings.Contains(got, `"said":1`) {
		t.Errorf("alone: %.300s", got)
	}
}

// Who asks for long lists and does not read them holds a share of what messages may hold, and no more.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Bodies, set.Limits.BodiesPerKey = 4<<20, 1<<20 })
	agent := r.key("agent", "authorize").Value
	unread, c := r.as(agent), r.as(agent)
	unread.write("{\"type\":\"list\"}\n")
	until(t, "the answer is held", func() bool { return r.s.bodies.Used() > 512<<10 })
	if got := c.ask(`{"type":"list"}`); !strings.Contains(got, `"too_many_requests"`) ||
		!strings.Contains(got, "limits.bodies_per_key") {
		t.Errorf("%.300s", got)
	}
	if got := unread.line(); !strings.HasPrefix(got, `{"rows":"x`) {
		t.Errorf("%.300s", got)
	}
	until(t, "it is given back", func() bool { return r.s.bodies.Used() == 0 })
	if got := c.ask(`{"type":"list"}`); !strings.HasPrefix(got, `{"rows":"x`) {
		t.Errorf("%.300s", got)
	}
}

// A message that is refused is let go at once, however long its answer waits to be written.
func TestRefusedMessagesAreLetGo(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	c.write("{\"type\":\"hold\",\"n\":1}\n")
	held := r.holds(1)["1"]
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const refused = 250 // behind the answer that is held
	for range refused {
		c.write(`{"type":"nope","x":"` + strings.Repeat("x", 60<<10) + "\"}\n")
	}
	until(t, "all are taken", func() bool {
		n := 0
		r.s.each(func(c *conn) {
			c.mu.Lock()
			n += c.n
			c.mu.Unlock()
		})
		return n == refused+1
	})
	if after := heap(); after > before+4<<20 {
		t.Errorf("%d bytes are held by %d refused messages", after-before, refused)
	}
	close(held.done)
	c.line()
	for range refused {
		c.line()
	}
}

func TestFirstMessageHasItsOwnLimit(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) {
		set.Limits.Idle, set.Limits.FirstByte = config.Duration(time.Hour), config.Duration(30*time.Millisecond)
	})
	kept := r.as(r.key("agent", "authorize").Value)
	r.dial().end()
	kept.ask(`{"type":"echo"}`)
}
