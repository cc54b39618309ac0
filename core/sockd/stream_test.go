package sockd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
)

const subscribed = `{"subscribed":true,"from_seq":1}`

// records makes lines with these numbers, each so long.
func records(from, to, length int) []byte {
	var b strings.Builder
	for seq := from; seq <= to; seq++ {
		line := fmt.Sprintf(`{"seq":%d,"type":"decision","pad":""}`, seq)
		b.WriteString(line[:len(line)-2] + strings.Repeat("p", max(0, length-len(line)-1)) + "\"}\n")
	}
	return []byte(b.String())
}

func seqOf(t *testing.T, line string) int {
	t.Helper()
	seq, ok := lastSeq([]byte(line + "\n"))
	if !ok {
		t.Fatalf("no seq: %.100s", line)
	}
	return int(seq)
}

func TestStream(t *testing.T) {
	r := newRig(t, nil)
	k := r.key("auditor", "audit", "authorize")
	c := r.as(k.Value)
	if got := c.ask(`{"type":"lines","id":"s"}`); got != `{"id":"s",`+subscribed[1:] {
		t.Fatal(got)
	}
	f := next(t, r.feeds)
	f.text <- records(1, 3, 0)
	for seq := 1; seq <= 3; seq++ {
		if got := c.line(); seqOf(t, got) != seq {
			t.Errorf("%s", got)
		}
	}
	// Requests go on beside it, and a second stream does not begin.
	if got := c.ask(`{"jsonrpc":"2.0","id":1,"method":"echo"}`); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Error(got)
	}
	if got := c.ask(`{"type":"lines"}`); got !=
		`{"ok":false,"error":"this connection has a stream already, which is the limit for a connection; open another one","code":"conflict"}` {
		t.Error(got)
	}
	f.text <- records(4, 4, 0)
	if got := c.line(); seqOf(t, got) != 4 {
		t.Error(got)
	}
	close(f.text)
	if got := c.line(); got != `{"type":"over"}` {
		t.Error(got)
	}
	c.end()
	next(t, f.ended)
	if got := r.dial().ask(`{"type":"lines"}`); !strings.Contains(got, "unauthenticated") {
		t.Errorf("without a key: %s", got)
	}
	c = r.dial()
	if got := c.ask(`{"jsonrpc":"2.0","id":5,"method":"lines","params":{"api_key":"` + k.Value + `"}}`); got !=
		`{"jsonrpc":"2.0","id":5,"result":`+subscribed+`}` {
		t.Error(got)
	}
	f = next(t, r.feeds)
	c.Close()
	next(t, f.ended) // the peer is gone
}

// TestStreamToAHalfClosedPeer: a peer that only listens gets lines until it is gone.
func TestStreamToAHalfClosedPeer(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("auditor", "audit").Value)
	c.ask(`{"type":"lines"}`)
	f := next(t, r.feeds)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	f.text <- records(1, 1, 0)
	if got := c.line(); seqOf(t, got) != 1 {
		t.Error(got)
	}
	c.Close()
	next(t, f.ended)
}

func TestStreamOfARevokedKeyEnds(t *testing.T) {
	r := newRig(t, nil)
	k := r.key("auditor", "audit")
	c := r.as(k.Value)
	c.ask(`{"type":"lines"}`)
	f := next(t, r.feeds)
	f.text <- records(1, 2, 0)
	c.line()
	c.line()
	if err := r.revoke(k.Key.ID); err != nil {
		t.Fatal(err)
	}
	f.text <- records(3, 4, 0)
	if got := c.line(); got != `{"type":"closing","last_seq":2}` {
		t.Errorf("a revoked key gets %s", got)
	}
	c.end()
	next(t, f.ended)
}

func TestDrainEndsStreams(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("auditor", "audit").Value)
	c.ask(`{"type":"lines"}`)
	f := next(t, r.feeds)
	r.s.Drain()
	if got := c.line(); got != `{"type":"draining"}` {
		t.Error(got)
	}
	c.end()
	next(t, f.ended)
}

// TestStuckReaders: a subscriber that does not read gets whole lines, then where it is, then the end, whatever the
// length of its lines; it holds up nobody.
func TestStuckReaders(t *testing.T) {
	for _, length := range []int{100, 1000, 20_000, 60_000, 250_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			r := newRig(t, func(_ *rig, set *Settings) { set.Stuck = 150 * time.Millisecond })
			key := r.key("auditor", "audit", "authorize").Value
			c := r.as(key)
			c.ask(`{"type":"lines"}`)
			f := next(t, r.feeds)
			most := 4 << 20 / length
			f.text <- records(1, most, length)
			r.as(key).ask(`{"type":"echo"}`)
			next(t, f.ended) // it is cut off
			last := 0
			for {
				line := c.line()
				if strings.Contains(line, `"closing"`) {
					if want := fmt.Sprintf(`{"type":"closing","reason":"not_read","last_seq":%d}`, last); line != want {
						t.Errorf("got %s, want %s", line, want)
					}
					break
				}
				if seq := seqOf(t, line); seq != last+1 {
					t.Fatalf("%d behind %d", seq, last)
				}
				last++
			}
			c.end()
			if last == 0 || last == most {
				t.Errorf("%d of %d lines were written", last, most)
			}
		})
	}
}

// TestSlowReadersAreNotStuck: as long as a subscriber reads something now and then, it gets everything.
func TestSlowReadersAreNotStuck(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Stuck = 2 * time.Second })
	c := r.as(r.key("auditor", "audit").Value)
	c.ask(`{"type":"lines"}`)
	f := next(t, r.feeds)
	const most, length = 2000, 2000
	f.text <- records(1, most, length)
	close(f.text)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for seq := 1; seq <= most; seq++ {
		if seq%64 == 0 {
			<-tick.C
		}
		if got := c.line(); seqOf(t, got) != seq {
			t.Fatalf("%d: %.100s", seq, got)
		}
	}
	if got := c.line(); got != `{"type":"over"}` {
		t.Error(got)
	}
	c.end()
}

// TestNoLongLineIsCut: behind short lines that are not read, a line that may not fit is not begun.
func TestNoLongLineIsCut(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Stuck = 100 * time.Millisecond })
	c := r.as(r.key("auditor", "audit").Value)
	c.ask(`{"type":"lines"}`)
	f := next(t, r.feeds)
	f.text <- append(records(1, 8, 15_000), records(9, 9, 380_000)...)
	next(t, f.ended)
	for seq := 1; seq <= 8; seq++ {
		if got := c.line(); seqOf(t, got) != seq {
			t.Fatalf("%.100s", got)
		}
	}
	if got := c.line(); got != `{"type":"closing","reason":"not_read","last_seq":8}` {
		t.Errorf("%.100s", got)
	}
	c.end()
}

// TestProgressIsNotStuck: a subscriber that takes longer than Stuck for what it was sent, but goes on reading, is no
// less served.
func TestProgressIsNotStuck(t *testing.T) {
	testkit.Long(t, "a reader that takes six seconds")
	r := newRig(t, func(_ *rig, set *Settings) { set.Stuck = 5 * time.Second })
	c := r.as(r.key("auditor", "audit").Value)
	c.ask(`{"type":"lines"}`)
	f := next(t, r.feeds)
	// the kernel takes the first one whole, and gives room back in a few steps
	const length = 160_000
	f.text <- records(1, 2, length)                // the second one waits until the first one is read
	tick := time.NewTicker(170 * time.Millisecond) // the steps are much shorter than Stuck, and all of them are longer
	defer tick.Stop()
	buf, read := make([]byte, 4<<10), 0
	for read < length-len(buf) {
		<-tick.C
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		read += n
	}
	if _, err := c.r.ReadString('\n'); err != nil { // what is left of the first one
		t.Fatal(err)
	}
	if got := c.line(); seqOf(t, got) != 2 {
		t.Errorf("%.100s", got)
	}
}

// TestLongStreamLines: a line that is longer than the kernel's buffer still comes whole to who reads.
func TestLongStreamLines(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("auditor", "audit").Value)
	c.ask(`{"type":"lines"}`)
	f := next(t, r.feeds)
	f.text <- append(append(records(1, 1, 1<<20), records(2, 2, 0)...), records(3, 3, 3<<20)...)
	for seq := 1; seq <= 3; seq++ {
		if got := c.line(); seqOf(t, got) != seq {
			t.Fatalf("%.100s", got)
		}
	}
}

// TestAnswersToStuckReaders: who asks and reads no answers is cut off, and its requests end.
func TestAnswersToStuckReaders(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Stuck = 100 * time.Millisecond })
	c := r.as(r.key("agent", "authorize").Value)
	line := `{"type":"echo","say":"` + strings.Repeat("x", 100<<10) + `"}` + "\n"
	var err error
	for range 1000 {
		if _, err = c.Write([]byte(line)); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("it is served for ever")
	}
	until(t, "the connection is gone", func() bool {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		return len(r.s.conns) == 0
	})
	if n := r.s.inFlight.Size(); n != 0 {
		t.Errorf("%d requests are still counted", n)
	}
}

func TestPieceEnd(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want int
	}{{"ab\ncd\n", 10, 6}, {"ab\ncd\n", 6, 6}, {"ab\ncd\n", 5, 3}, {"ab\ncd\n", 3, 3}, {"ab\ncd\n", 2, 3},
		{"ab\ncd\n", 1, 3}, {"abcd", 2, 4}} {
		if got := pieceEnd([]byte(c.text), c.n); got != c.want {
			t.Errorf("%q in %d: %d, want %d", c.text, c.n, got, c.want)
		}
	}
}

func TestLastSeq(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
	}{{`{"seq":1}` + "\n" + `{"seq":2}` + "\n", 2}, {`{"seq":7}` + "\n" + `{"type":"heartbeat"}` + "\n", 7},
		{`{"seq":"7"}`, 0}, {`{"seq":-1}`, 0}, {"", 0}, {"\n\n", 0}, {"x\n", 0}} {
		if got, ok := lastSeq([]byte(c.text)); got != c.want || ok != (c.want > 0) {
			t.Errorf("%q: %d %v", c.text, got, ok)
		}
	}
}

// TestLinesAfterAReset: a peer that resets the connection is no fault of the server's.
func TestLinesAfterAReset(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	c.write(`{"type":"echo","say":1}` + "\n")
	c.Close() // with an answer unread
	until(t, "the connection is gone", func() bool {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		return len(r.s.conns) == 0
	})
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the client's side is not closed: %v", err)
	}
}
