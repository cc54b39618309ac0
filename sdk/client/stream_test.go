package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/wire"
)

func record(seq int) string {
	return fmt.Sprintf(`{"seq":%d,"store_id":"s1","type":"decision","timestamp":"t","agent_id":"a%d"}`, seq, seq)
}

// subscribed answers a subscription and says from where it wants to read.
func subscribed(p *peer, head int) (m map[string]any, from int) {
	if m = p.read(); m == nil {
		return nil, 0
	}
	fmt.Sscan(fmt.Sprint(m["from_seq"]), &from)
	if from == 0 {
		from = head + 1
	}
	p.reply(m, fmt.Sprintf(`{"subscribed":true,"from_seq":%d}`, from))
	return m, from
}

func seqs(t *testing.T, s *Stream[Record], n int) (got []uint64) {
	t.Helper()
	ctx := waitCtx(t)
	for range n {
		r, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		got = append(got, r.Seq)
	}
	return got
}

// TestAuditOnceAndInOrder: however the connections are cut (in a line, behind one, with a closing or gap line, and
// although the server sends some records again) what arrives is the log.
func TestAuditOnceAndInOrder(t *testing.T) {
	const total = 400
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	s := newFakeSocket(t, func(p *peer) {
		m, from := subscribed(p, 0)
		if m == nil {
			return
		}
		mu.Lock()
		burst, end, again := 1+rnd.IntN(20), rnd.IntN(5), rnd.IntN(4)
		mu.Unlock()
		for seq := max(from-again, 1); seq <= total && burst > 0; seq++ {
			if seq%7 == 0 {
				p.write(fmt.Sprintf(`{"type":"heartbeat","seq":%d,"timestamp":"t"}`, total))
			}
			p.write(record(seq))
			burst--
		}
		switch end {
		case 0:
			p.Write([]byte(`{"seq":1,"type":"deci`))
		case 1:
			p.write(`{"type":"closing","reason":"draining","last_seq":1}`)
		case 2:
			p.write(fmt.Sprintf(`{"type":"gap","last_seq":%d}`, from-1))
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	st, err := c.Audit(waitCtx(t), wire.AuditSubscribeRequest{FromSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i, seq := range seqs(t, st, total) {
		if seq != uint64(i+1) {
			t.Fatalf("record %d is number %d", seq, i+1)
		}
	}
}

// TestAuditFromNow: a connection that was lost before the first record resumes where it began, not where the log is
// then.
func TestAuditFromNow(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	s := newFakeSocket(t, func(p *peer) {
		m, from := subscribed(p, 40+10*p.n)
		if m == nil {
			return
		}
		mu.Lock()
		asked = append(asked, fmt.Sprint(m["from_seq"], m["agent_id"], m["heartbeat_seconds"], m["types"]))
		mu.Unlock()
		if p.n > 0 {
			p.write(record(from))
			p.read()
		}
	})
	lost := make(chan error, 100)
	c, _ := newClient(t, Options{Socket: s.path, OnLost: func(err error) { lost <- err }})
	st, err := c.Audit(waitCtx(t), wire.AuditSubscribeRequest{AgentID: "x", Types: []string{"kill"}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	r, err := st.Next(waitCtx(t))
	if err != nil || r.Seq != 41 || r.Type != "decision" || r.Text("agent_id") != "a41" || r.Text("seq") != "" ||
		string(r.Raw) != record(41) {
		t.Errorf("%+v, %v", r, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 2 || asked[0] != "<nil>x15[kill]" || asked[1] != "41x15[kill]" || len(lost) != 1 {
		t.Errorf("asked for %q, lost %d times", asked, len(lost))
	}
}

// TestGaps: a gap line cuts off who reads slowly, and what was missed comes after resuming; only what the server no
// longer has is a GapError, and the stream goes on behind it.
func TestGaps(t *testing.T) {
	s := newFakeSocket(t, func(p *peer) {
		switch p.n {
		case 0:
			subscribed(p, 0)
			p.write(record(1))
			p.write(`{"type":"gap","last_seq":9}`)
		case 1:
			subscribed(p, 0) // from 2
			p.write(record(2))
			p.write(`{"type":"gap","last_seq":9}`)
		case 2:
			subscribed(p, 0)
			p.write(`{"type":"gap","last_seq":9}`) // the same again: 3 to 9 are gone
			p.write(record(10))
		case 3: // and the other way to say so: the server begins later than asked
			m := p.read()
			p.reply(m, `{"subscribed":true,"from_seq":20}`)
			p.write(record(20))
			p.read()
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	st, err := c.Audit(waitCtx(t), wire.AuditSubscribeRequest{FromSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var got []string
	for r, err := range st.All(waitCtx(t)) {
		var gap *GapError
		if errors.As(err, &gap) {
			got = append(got, fmt.Sprintf("gap %d-%d", gap.From, gap.To))
		} else if err != nil {
			t.Fatal(err)
		} else if got = append(got, fmt.Sprint(r.Seq)); r.Seq == 20 {
			break
		}
	}
	if want := "1 2 gap 3-9 10 gap 11-19 20"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
}

// TestStreamEnds: what cannot be helped by connecting again ends the stream, and says so each time.
func TestStreamEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(p *peer)
		want error
	}{
		{"the key was revoked", func(p *peer) {
			if p.n == 0 {
				subscribed(p, 0)
				p.write(`{"type":"closing","reason":"key_revoked","last_seq":0}`)
				return
			}
			p.reply(p.read(), `{"ok":false,"error":"revoked","code":"key_revoked"}`)
		}, ErrUnauthenticated},
		{"another log", func(p *peer) {
			subscribed(p, 0)
			p.write(record(1))
			p.write(strings.Replace(record(2), `"s1"`, `"s2"`, 1))
		}, ErrMalformed},
		{"a line that is no record", func(p *peer) { subscribed(p, 0); p.write(record(1)); p.write(`{"hello":1}`) }, ErrMalformed},
		{"a line that is no JSON", func(p *peer) { subscribed(p, 0); p.write(`{"seq":1,"seq":2}`) }, ErrMalformed},
		{"a log that is shorter than what was read", func(p *peer) {
			if p.n == 0 {
				subscribed(p, 0)
				p.write(record(1))
				return
			}
			p.reply(p.read(), `{"ok":false,"error":"from_seq 2 is beyond 1","code":"invalid_field","field":"from_seq"}`)
		}, ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFakeSocket(t, c.then)
			cl, _ := newClient(t, Options{Socket: s.path})
			st, err := cl.Audit(waitCtx(t), wire.AuditSubscribeRequest{FromSeq: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			for err == nil {
				_, err = st.Next(waitCtx(t))
			}
			_, again := st.Next(waitCtx(t))
			if !errors.Is(err, c.want) || !errors.Is(again, c.want) {
				t.Errorf("%v, then %v", err, again)
			}
		})
	}
}

func TestSubscribeRefused(t *testing.T) {
	s := newFakeSocket(t, func(p *peer) {
		p.reply(p.read(), `{"ok":false,"error":"scope audit is missing","code":"missing_scope"}`)
	})
	c, _ := newClient(t, Options{Socket: s.path})
	if _, err := c.Audit(waitCtx(t), wire.AuditSubscribeRequest{}); !errors.Is(err, ErrForbidden) {
		t.Error(err)
	}
	if _, err := c.Audit(waitCtx(t), wire.AuditSubscribeRequest{FromSeq: -1}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	none, p := newClient(t, Options{Socket: "no-such-socket", Retries: 2})
	if _, err := none.Audit(waitCtx(t), wire.AuditSubscribeRequest{}); !errors.Is(err, ErrUnavailable) ||
		len(p.all()) != 2 {
		t.Errorf("%v after %d pauses", err, len(p.all()))
	}
}

// TestNextLosesNothing: a Next that was given up leaves its record for the following one; Close ends a Next that waits.
func TestNextLosesNothing(t *testing.T) {
	send := make(chan int)
	s := newFakeSocket(t, func(p *peer) {
		subscribed(p, 0)
		for seq := range send {
			p.write(record(seq))
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	st, err := c.Callbacks(waitCtx(t), wire.CallbackSubscribeRequest{Events: []string{"kill"}})
	if err != nil {
		t.Fatal(err)
	}
	defer close(send)
	for seq := 1; seq < 20; seq++ {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := st.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		send <- seq
		if got := seqs(t, st, 1); got[0] != uint64(seq) {
			t.Fatalf("%v, want %d", got, seq)
		}
	}
	ended := make(chan error)
	go func() {
		_, err := st.Next(context.Background())
		ended <- err
	}()
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	for range st.All(context.Background()) {
		t.Error("a record of a closed stream")
	}
}

func TestSilentConnectionIsLost(t *testing.T) {
	s := newFakeSocket(t, func(p *peer) {
		subscribed(p, 0)
		if p.n > 0 {
			p.write(record(1))
		}
		p.read() // and not a word more
	})
	c, _ := newClient(t, Options{Socket: s.path})
	sub := &subscription{op: "audit_subscribe", quiet: 20 * time.Millisecond, body: func(uint64) ([]byte, error) {
		return []byte("{}"), nil
	}, link: c.socket}
	st, err := stream(waitCtx(t), c, sub.open)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	seqs(t, st, 1)
}

func event(n int) string {
	return fmt.Sprintf("id: %d\n"+`data: {"event_type":"action_created","type":"action.created","action_id":"act_%d","data":{},"timestamp":"t"}`+
		"\n\n", n, n)
}

// TestEvents: the backlog comes again with each connection, and each event arrives once.
func TestEvents(t *testing.T) {
	const total = 60
	hold := make(chan struct{})
	f := newFakeHTTP(t, func(n int, w http.ResponseWriter, r seen) {
		if n%3 == 2 {
			problem(w, 503, "draining")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		last := 0
		fmt.Sscan(r.Header.Get("Last-Event-ID"), &last)
		for i := max(last-5, 1); i <= min(last+7, total); i++ {
			fmt.Fprint(w, ": ping\r\n\r\n"+event(i))
		}
		fmt.Fprint(w, "id: 999\ndata: {\"cut")
		if last+7 >= total {
			w.(http.Flusher).Flush()
			<-hold
		}
	})
	defer close(hold)
	c, _ := newClient(t, Options{URL: f.URL})
	st, err := c.Events(waitCtx(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i := 1; i <= total; i++ {
		e, err := st.Next(waitCtx(t))
		if err != nil || e.ActionID != fmt.Sprintf("act_%d", i) || e.ID != fmt.Sprint(i) {
			t.Fatalf("event %d is %+v, %v", i, e, err)
		}
	}
}

func TestEventsRefused(t *testing.T) {
	for _, c := range []struct {
		status     int
		kind, body string
		want       error
	}{
		{401, "application/problem+json", `{"code":"key_revoked","detail":"no"}`, ErrUnauthenticated},
		{200, "application/json", `{}`, ErrMalformed},
		{404, "text/html", `no`, ErrMalformed},
		{204, "text/event-stream", ``, ErrMalformed},
		{200, "text/event-stream", "data: {\"a\":1,\"a\":2}\n\n", ErrMalformed},
		{200, "text/event-stream", "data: {\"type\":\"x\"}\n\n", ErrMalformed},
	} {
		f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { answer(w, c.status, c.kind, c.body) })
		cl, _ := newClient(t, Options{URL: f.URL})
		st, err := cl.Events(waitCtx(t))
		if err == nil {
			_, err = st.Next(waitCtx(t))
			st.Close()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%d %s: %v", c.status, c.kind, err)
		}
	}
}
