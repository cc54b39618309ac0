package httpd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// listen opens the stream as a client does that reads it.
func (g *gate) listen(key string, headers ...string) (*http.Response, *bufio.Reader) {
	g.t.Helper()
	req, err := http.NewRequest("GET", "http://"+g.addr+"/v1/events", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	return resp, bufio.NewReader(resp.Body)
}

// block reads up to the next empty line.
func block(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	var out strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return "EOF"
		}
		if err != nil {
			t.Fatal(err)
		}
		if line == "\n" {
			return out.String()
		}
		out.WriteString(line)
	}
}

func TestEventsOverHTTP(t *testing.T) {
	g := newGate(t, nil)
	agent := g.key("agent", "authorize")
	resp, r := g.listen(agent)
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store",
		"X-Accel-Buffering": "no"} {
		if got := resp.Header.Get(name); resp.StatusCode != 200 || got != want {
			t.Errorf("%d, %s: %q, want %q", resp.StatusCode, name, got, want)
		}
	}
	if got := block(t, r); got != ": open\n" { // at once, before anything has happened
		t.Fatalf("the stream begins with %q", got)
	}
	a := g.send(agent, "POST", "/v1/actions", `{"agent_id":"a","tool":"permit"}`)
	got := block(t, r)
	id, data, _ := strings.Cut(got, "\n")
	if !strings.HasPrefix(id, "id: ") || !strings.HasPrefix(data,
		`data: {"event_type":"action_created","type":"action.created","action_id":"`+a.m["id"].(string)) ||
		strings.Count(got, "\n") != 2 {
		t.Errorf("an event is %q", got)
	}
	b := g.send(agent, "POST", "/v1/actions", `{"agent_id":"a","tool":"deny"}`)
	_, again := g.listen(agent, "Last-Event-ID", strings.TrimPrefix(id, "id: "))
	block(t, again)
	if got := block(t, again); !strings.Contains(got, b.m["id"].(string)) {
		t.Errorf("resumed with %q", got)
	}
	g.problem(g.send(agent, "GET", "/v1/events", ""), 429, "too_many_requests")
	g.problem(g.send(g.key("x", "authorize"), "GET", "/v1/events?last_event_id=no", ""), 422, "invalid_field")
	g.problem(g.send(g.key("y", "scan"), "GET", "/v1/events", ""), 403, "missing_scope")
	g.problem(g.send("", "GET", "/v1/events", ""), 401, "unauthenticated")
}

func TestStreamsEndOnShutdown(t *testing.T) {
	g := newGate(t, nil)
	_, r := g.listen(g.key("agent", "authorize"))
	block(t, r)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if got := block(t, r); got != ": closing draining\n" {
		t.Errorf("the last of the stream is %q", got)
	}
	if got := block(t, r); got != "EOF" {
		t.Errorf("after the last there is %q", got)
	}
}

// TestAClientThatDoesNotReadIsCut leaves a stream unread until the server closes it. What others ask is answered
// meanwhile.
func TestAClientThatDoesNotReadIsCut(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.unread = 300 * time.Millisecond })
	agent := g.key("agent", "authorize")
	reason := strings.Repeat("long ", 12_000)
	g.reason.Store(&reason)
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", agent); err !=
		nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		a := g.send(agent, "POST", "/v1/actions", fmt.Sprintf(`{"agent_id":"a","tool":"permit","params":{"n":%d}}`, i))
		if a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		select {
		case who := <-g.closed:
			if who.String() != c.LocalAddr().String() {
				t.Fatalf("the connection of %s was closed", who)
			}
			if i < 1 { // the buffers between hold one at least
				t.Errorf("it was closed after %d events", i)
			}
			for range 2 { // its place is free again, a moment after the connection is closed
				until(t, "a place for a stream", func() bool {
					resp, _ := g.listen(agent)
					return resp.StatusCode == 200
				})
			}
			return
		default:
		}
	}
}

// TestAStreamHasADeadlineForEachWrite: the one that the server sets before an answer would end a stream that is read
// well.
func TestAStreamHasADeadlineForEachWrite(t *testing.T) {
	under := &deadlines{}
	c := newStrictConn(under, StrictLimits{Unread: time.Minute}.withDefaults())
	c.streaming.Store(true)
	for range 3 {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if under.set != 3 {
		t.Errorf("%d write deadlines for 3 writes", under.set)
	}
}

type deadlines struct {
	net.Conn
	set int
}

func (d *deadlines) SetWriteDeadline(time.Time) error { d.set++; return nil }
func (d *deadlines) Write(b []byte) (int, error)      { return len(b), nil }

func TestFlightsAreCounted(t *testing.T) {
	g := newGate(t, nil)
	agent := g.key("agent", "authorize")
	for _, c := range []struct {
		key, method, path, body string
		counts                  bool
	}{
		{agent, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"permit"}`, true},
		{"wrong", "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"permit"}`, false}, // nobody permits it anything
		{agent, "POST", "/v1/authorize", `{`, false},
		{agent, "POST", "/v1/gate/decide", `{"agent_id":"a","tool":"permit"}`, true},
		{agent, "POST", "/v1/actions", `{"agent_id":"a","tool":"permit"}`, true},
		{agent, "GET", "/v1/actions", "", false},
		{agent, "POST", "/v1/scan_output", `{"tool_id":"t","output":"x"}`, false},
		{agent, "GET", "/healthz", "", false},
	} {
		before := g.flight.entered.Load()
		g.send(c.key, c.method, c.path, c.body)
		if got := g.flight.entered.Load() - before; (got == 1) != c.counts {
			t.Errorf("%s %s was counted in %d times", c.method, c.path, got)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	<-g.closed // the server has closed the connection, and counted out before it said so or right after
	g.settled()
}

// settled waits until as many requests were counted out as in.
func (g *gate) settled() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for g.flight.entered.Load() != g.flight.left.Load() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			g.t.Fatalf("%d were counted in and %d out", g.flight.entered.Load(), g.flight.left.Load())
		}
	}
}

// TestAFlightLastsUntilItsAnswerIsWritten holds the write of an answer back.
func TestAFlightLastsUntilItsAnswerIsWritten(t *testing.T) {
	for _, how := range []string{"read", "close"} {
		under := &held{release: make(chan struct{}), writing: make(chan struct{})}
		c := newStrictConn(under, StrictLimits{}.withDefaults())
		f := &counted{}
		c.of(f).TakeOff()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
			if how == "read" {
				_, _ = c.Read(make([]byte, 1))
			} else {
				_ = c.Close()
			}
		}()
		<-under.writing
		if f.left.Load() != 0 {
			t.Errorf("%s: counted out before the answer was written", how)
		}
		close(under.release)
		<-done
		if f.entered.Load() != 1 || f.left.Load() != 1 {
			t.Errorf("%s: counted in %d times and out %d times", how, f.entered.Load(), f.left.Load())
		}
		_ = c.Close()
		if f.left.Load() != 1 {
			t.Errorf("%s: counted out twice", how)
		}
	}
}

type held struct {
	net.Conn
	release, writing chan struct{}
}

func (h *held) Write(b []byte) (int, error)     { close(h.writing); <-h.release; return len(b), nil }
func (h *held) Read([]byte) (int, error)        { return 0, io.EOF }
func (h *held) SetReadDeadline(time.Time) error { return nil }
func (h *held) Close() error                    { return nil }

func TestFlightsCostNoAllocation(t *testing.T) {
	c := newStrictConn(&held{}, StrictLimits{}.withDefaults())
	f := &counted{}
	if n := testing.AllocsPerRun(100, func() { c.of(f).TakeOff(); c.land() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
