package mcpd_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
)

// Notifications of a subscription reach the stream that asked for them, with its own id, and no other.
func TestSubscriptions(t *testing.T) {
	g := newLocalRig(t)
	var streams []*bufio.Reader
	ids := []string{`1`, `"1"`, `1`}
	for _, id := range ids {
		resp := g.open(http.MethodPost, `{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{"_meta":{`+
			`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
		defer resp.Body.Close()
		streams = append(streams, bufio.NewReader(resp.Body))
	}
	if _, _, got := g.send(newEra("1", "changes", "")); got != `{"jsonrpc":"2.0","id":1,"result":{"content":`+
		`[{"type":"text","text":"said"}]}}` {
		t.Errorf("a call beside them: %s", got)
	}
	for i, s := range streams {
		for range 2 { // at the start, and by the call
			if got := event(t, s); !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":`+ids[i]+`}`) {
				t.Errorf("stream %s: %s", ids[i], got)
			}
		}
	}
}

// What belongs to no request goes to the one client that can be meant. Among several nobody gets it.
func TestUnrelated(t *testing.T) {
	g := newLocalRig(t)
	if _, _, got := g.send(newEra("1", "unrelated", "")); !strings.Contains(got, "by the way") {
		t.Errorf("the only request: %s", got)
	}
	other := g.begin(newEra("2", "hold", ""))
	g.waitFor(2)
	if _, _, got := g.send(newEra("3", "unrelated", "")); strings.Contains(got, "by the way") ||
		!strings.Contains(got, "said") {
		t.Errorf("one of two: %s", got)
	}
	g.send(newEra("4", "release", ""))
	if got := event(t, bufio.NewReader(other.Body)); strings.Contains(got, "by the way") {
		t.Errorf("the other of two: %s", got)
	}
}

// A server's request in a session goes to its client on the stream of the call, and the answer to the process.
func TestServerAsks(t *testing.T) {
	g := newLocalRig(t)
	id, other := g.initialize(`{}`), g.initialize(`{}`)
	resp := g.open(http.MethodPost, call(1, "ask", `{}`), "Mcp-Session-Id", id)
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	if got := event(t, in); !strings.Contains(got, `"id":"srv-1","method":"elicitation/create"`) {
		t.Fatal(got)
	}
	const wrong = `{"jsonrpc":"2.0","id":"srv-1","result":{"action":"wrong"}}`
	g.send(wrong, "Mcp-Session-Id", other)
	const answer = `{"jsonrpc":"2.0","id":"srv-1","result":{"action":"accept","content":{"n":12345678901234567890}}}`
	if status, _, got := g.send(answer, "Mcp-Session-Id", id); status != 202 || got != "" {
		t.Errorf("%d %s", status, got)
	}
	if got := event(t, in); !strings.Contains(got, quoted(t, answer)) {
		t.Errorf("the server got %s", got)
	}
	if got := g.ask(other, 1, "log"); !strings.Contains(got, "wrong") {
		t.Errorf("the other session's process got %s", got)
	}
}

// What a session's server says beside all requests waits for the stream, of which there is one.
func TestTwoStreams(t *testing.T) {
	g := newLocalRig(t)
	id := g.initialize(`{}`)
	g.ask(id, 1, "later")
	first := g.open(http.MethodGet, "", "Mcp-Session-Id", id)
	in := bufio.NewReader(first.Body)
	if got := event(t, in); !strings.Contains(got, `"id":"srv-2","method":"ping"`) {
		t.Error(got)
	}
	if status, _, _ := g.do(http.MethodGet, "", "Mcp-Session-Id", id); status != 409 {
		t.Errorf("a second stream: %d", status)
	}
	first.Body.Close()
	if !eventually(func() bool {
		again := g.open(http.MethodGet, "", "Mcp-Session-Id", id)
		defer again.Body.Close()
		return again.StatusCode == 200
	}) {
		t.Error("no stream can be opened after the first was closed")
	}
}

// A server that asks where nobody can hear it is told so. If a request has come meanwhile, that one's client hears it.
func TestNobodyListens(t *testing.T) {
	g := newLocalRig(t)
	g.send(newEra("1", "later", ""))
	if !eventually(func() bool {
		_, _, got := g.send(newEra("2", "log", ""))
		return strings.Contains(got, `\"id\":\"srv-2\",\"error\"`) || strings.Contains(got, `"id":"srv-2","method"`)
	}) {
		t.Error("the server was not answered")
	}
}

// Giving a request up names it as the process knows it. An id that several clients use ends nobody's.
func TestCancelled(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%,"_meta":{` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	for _, c := range []struct {
		name, ids, cancel string
		ended             int // of which request the answer says so; -1: of none
	}{
		{"by a number", `7 8`, `7`, 0},
		{"written otherwise", `7 "8"`, `"\u0038"`, 1},
		{"a text is no number", `7 8`, `"7"`, -1},
		{"two have it", `7 7`, `7`, -1},
		{"an id of the gateway's own", `7 8`, `4503599627370497`, -1},
		{"unknown", `7 8`, `9`, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newLocalRig(t)
			var open []*http.Response
			for _, id := range strings.Fields(c.ids) {
				open = append(open, g.begin(newEra(id, "hold", "")))
			}
			g.waitFor(2)
			if status, _, got := g.send(strings.Replace(cancel, "%", c.cancel, 1)); status != 202 {
				t.Errorf("%d %s", status, got)
			}
			_, _, log := g.send(newEra("1000", "log", ""))
			if strings.Contains(log, "cancelled") != (c.ended >= 0) {
				t.Errorf("the server got %s", log)
			}
			if c.ended >= 0 && !strings.Contains(log, `\"requestId\":45035996273704`) {
				t.Errorf("not by the id that the process knows: %s", log)
			}
			g.send(newEra("1001", "release", ""))
			for i, o := range open {
				got := event(t, bufio.NewReader(o.Body))
				if strings.Contains(got, `-32603,"message":"the client has cancelled`) != (i == c.ended) || got == "" {
					t.Errorf("request %d: %s", i, got)
				}
			}
		})
	}
}

// In a session the client's own words reach the server, and the id can be used again without getting the old answer.
func TestCancelledInSession(t *testing.T) {
	g := newLocalRig(t)
	id := g.initialize(`{}`)
	held := g.begin(call(7, "hold", `{}`), "Mcp-Session-Id", id)
	if !eventually(func() bool { return len(g.bench.Calls()) == 1 }) {
		t.Fatal("the call did not arrive")
	}
	const word = `{"jsonrpc":"2.0", "method":"notifications/cancelled","params":{"requestId":7}}`
	if !eventually(func() bool {
		g.send(word, "Mcp-Session-Id", id)
		return strings.Contains(g.asks(id, "log"), quotedInner(t, word))
	}) {
		t.Error("the server was not told")
	}
	if got := event(t, bufio.NewReader(held.Body)); !strings.Contains(got, "cancelled this request") {
		t.Error(got)
	}
	list := g.begin(`{"jsonrpc":"2.0","id":7,"method":"resources/list"}`, "Mcp-Session-Id", id)
	if !eventually(func() bool { return strings.Contains(g.asks(id, "holds"), `"text":"2"`) }) {
		t.Fatal("the list is not asked for")
	}
	g.asks(id, "in order")
	if got := event(t, bufio.NewReader(list.Body)); !strings.Contains(got, "resources/list") {
		t.Errorf("the answer to the id's second request: %s", got)
	}
}

// asks calls a tool under an id that nothing else uses.
func (g *rig) asks(session, tool string) string {
	return g.ask(session, 1000+len(g.bench.Calls()), tool)
}

func quotedInner(t *testing.T, s string) string {
	q := quoted(t, s)
	return q[1 : len(q)-1]
}

// A client of the newer era gives a request up by closing its stream; one of the older era does not.
func TestClientGoes(t *testing.T) {
	for _, c := range []struct {
		name      string
		modern    bool
		cancelled bool
	}{{"newer", true, true}, {"older", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			g := newLocalRig(t)
			session := ""
			body := newEra("7", "hold", "")
			if !c.modern {
				session, body = g.initialize(`{}`), call(7, "hold", `{}`)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+g.key)
			r.Header.Set("Content-Type", "application/json")
			for name, value := range modernHeaders(body) {
				r.Header.Set(name, value)
			}
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := http.DefaultClient.Do(r)
				ended <- err
			}()
			log := func() string {
				if c.modern {
					_, _, got := g.send(newEra("1000", "log", ""))
					return got
				}
				return g.asks(session, "log")
			}
			count := func() string {
				if c.modern {
					_, _, got := g.send(newEra("1000", "count", ""))
					return got
				}
				return g.asks(session, "count")
			}
			if !eventually(func() bool { return len(g.bench.Calls()) > 0 && strings.Contains(count(), "call ") }) {
				t.Fatal("the server does not answer")
			}
			if c.modern {
				g.waitForHeld()
			}
			cancel()
			if <-ended == nil {
				t.Fatal("the request has an answer")
			}
			const word = `\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":45035996273704`
			if c.cancelled && !eventually(func() bool { return strings.Contains(log(), word) }) {
				t.Error("the server was not told")
			}
			if !c.cancelled && strings.Contains(log(), "cancelled") {
				t.Errorf("the server was told: %s", log())
			}
		})
	}
}

// waitForHeld waits until the shared process holds a call.
func (g *rig) waitForHeld() {
	g.t.Helper()
	if !eventually(func() bool {
		_, _, got := g.send(newEra("1002", "holds", ""))
		return strings.Contains(got, `"text":"1"`)
	}) {
		g.t.Fatal("the call did not arrive")
	}
}

// What a process does wrong ends in an answer to whoever waits, and harms nobody else.
func TestHarm(t *testing.T) {
	small := func(m *config.MCP) { m.MaxResult = 64 << 10 }
	for _, c := range []struct {
		tool, want string
		dies       bool
	}{
		{"garbage", `"text":"after it"`, false},
		{"long", `"id":5,"error":{"code":-32603`, true},
		{"die", `"id":5,"error":{"code":-32603`, true},
		{"cut", `"id":5,"error":{"code":-32603`, true},
	} {
		for _, modern := range []bool{false, true} {
			g := newLocalRig(t, small)
			id := g.initialize(`{}`)
			headers, body := []string{"Mcp-Session-Id", id}, call(5, c.tool, `{}`)
			if modern {
				headers, body = nil, newEra("5", c.tool, "")
			}
			_, _, got := g.send(body, headers...)
			if !strings.Contains(got, c.want) {
				t.Errorf("%s, modern %t: %.300s", c.tool, modern, got)
			}
			if c.tool == "die" && !strings.Contains(got, "last words") {
				t.Errorf("what it said before its end is lost: %s", got)
			}
			next := strings.NewReplacer(c.tool, "count", `"id":5`, `"id":6`).Replace(body)
			status, _, got := g.send(next, headers...)
			if want := map[bool]int{true: 404, false: 200}[c.dies && !modern]; status != want {
				t.Errorf("%s, modern %t: then %d %s, want %d", c.tool, modern, status, got, want)
			}
		}
	}
}

// A process that reads no more holds a request up until its time is over, and is ended then.
func TestDoesNotRead(t *testing.T) {
	g := newLocalRig(t, func(m *config.MCP) {
		s := m.Servers["up"]
		s.Timeout = config.Duration(2 * time.Second)
		m.Servers["up"] = s
	})
	id := g.initialize(`{}`)
	if got := g.ask(id, 1, "deaf"); !strings.Contains(got, "no more") {
		t.Fatal(got)
	}
	_, _, got := g.send(call(2, "count", `{"x":"`+strings.Repeat("x", 200<<10)+`"}`), "Mcp-Session-Id", id)
	if !strings.Contains(got, `"id":2,"error":{"code":-32603`) {
		t.Error(got)
	}
	if n := g.procs.running(0); n != 0 {
		t.Error("a process that stands in the middle of a line goes on")
	}
}

// A request without an answer ends with its time, and the process is told.
func TestTimeout(t *testing.T) {
	g := newLocalRig(t, func(m *config.MCP) {
		s := m.Servers["up"]
		s.Timeout = config.Duration(time.Second)
		m.Servers["up"] = s
	})
	id := g.initialize(`{}`)
	if got := g.ask(id, 7, "hold"); !strings.Contains(got, `"id":7,"error":{"code":-32603`) {
		t.Error(got)
	}
	if !eventually(func() bool {
		return strings.Contains(g.asks(id, "log"), `\"notifications/cancelled\",\"params\":{\"requestId\":7,`)
	}) {
		t.Error("the server was not told")
	}
}

// A process that floods stops at the bounds, ends with its session, and fills no log.
func TestFlood(t *testing.T) {
	g := newLocalRig(t)
	id := g.initialize(`{}`)
	resp := g.open(http.MethodPost, call(1, "flood", `{}`), "Mcp-Session-Id", id)
	in := bufio.NewReader(resp.Body)
	for range 100 {
		if got := event(t, in); !strings.Contains(got, "yyyy") {
			t.Fatal(got)
		}
	}
	resp.Body.Close()
	other := g.initialize(`{}`)
	if got := g.ask(other, 1, "count"); !strings.Contains(got, "call 1") {
		t.Errorf("beside it: %s", got)
	}
	if status, _, _ := g.do(http.MethodDelete, "", "Mcp-Session-Id", id); status != 200 {
		t.Errorf("DELETE: %d", status)
	}
	if n := g.procs.running(1); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// The same id twice at once in one session is refused, and the first keeps its answer.
func TestSameIDTwice(t *testing.T) {
	g := newLocalRig(t)
	id := g.initialize(`{}`)
	first := g.begin(call(7, "hold", `{}`), "Mcp-Session-Id", id)
	if !eventually(func() bool { return strings.Contains(g.asks(id, "holds"), `"text":"1"`) }) {
		t.Fatal("the call did not arrive")
	}
	_, _, got := g.send(`{"jsonrpc":"2.0","id":7,"method":"ping"}`, "Mcp-Session-Id", id)
	if !strings.Contains(got, `"id":7,"error":{"code":-32600`) || !strings.Contains(got, "use each id once") {
		t.Error(got)
	}
	g.asks(id, "release")
	if got := event(t, bufio.NewReader(first.Body)); !strings.Contains(got, "released") {
		t.Error(got)
	}
}
