package mcpd_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/mcpd"
)

// newLocalRig is a rig whose server is a command.
func newLocalRig(t *testing.T, change ...func(*config.MCP)) *rig {
	t.Helper()
	g := newRig(t, plain(`{}`), append([]func(*config.MCP){func(m *config.MCP) {
		m.Servers = map[string]config.MCPServer{"up": {Command: []string{"/the/test"},
			Timeout: config.Duration(time.Minute)}}
	}}, change...)...)
	g.unwrap = true
	return g
}

// newEra is a call of the newer era, with what may stand in _meta besides.
func newEra(id, tool, meta string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` +
		`"_meta":{` + meta + `"io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
}

// ask sends a call in a session and gives the answer.
func (g *rig) ask(session string, id int, tool string) string {
	g.t.Helper()
	_, _, got := g.send(call(id, tool, `{}`), "Mcp-Session-Id", session)
	return got
}

func TestSessionsHaveTheirOwnProcess(t *testing.T) {
	g := newLocalRig(t)
	a, b := g.initialize(`{}`), g.initialize(`{}`)
	for i, c := range []struct{ session, want string }{{a, "call 1"}, {a, "call 2"}, {b, "call 1"}, {a, "call 3"}} {
		if got := g.ask(c.session, i, "count"); !strings.Contains(got, c.want) {
			t.Errorf("%d: got %s, want %s", i, got, c.want)
		}
	}
	if n := g.procs.running(2); n != 2 {
		t.Errorf("%d processes", n)
	}
	if status, _, _ := g.do(http.MethodDelete, "", "Mcp-Session-Id", a); status != 200 {
		t.Errorf("DELETE: %d", status)
	}
	if n := g.procs.running(1); n != 1 {
		t.Errorf("%d processes after DELETE", n)
	}
	if status, _, got := g.send(call(9, "count", `{}`), "Mcp-Session-Id", a); status != 404 {
		t.Errorf("a session that was ended: %d %s", status, got)
	}
	if got := g.ask(b, 9, "count"); !strings.Contains(got, "call 2") {
		t.Errorf("the other session: %s", got)
	}
}

// A session gives the bytes of its messages to its process as they came; only the ends of lines within are spaces.
func TestSessionBytes(t *testing.T) {
	g := newLocalRig(t)
	id := g.initialize(`{}`)
	body := "{\"jsonrpc\" : \"2.0\",\n \"id\": 1.0,\"method\":\"tools/call\",\r\n\"params\":{\"name\":" +
		`"echo","arguments":` +
		`{"n":12345678901234567890,"s":"\u0041\/"},"x":1e400,"_meta":{"progressToken":"p"}}}`
	_, _, got := g.send(body, "Mcp-Session-Id", id)
	sent := strings.NewReplacer("\n", " ", "\r", " ").Replace(body)
	want := `{"jsonrpc":"2.0","id":1.0,"result":{"content":[{"type":"text","text":` + quoted(t, sent) + `}]}}`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// The newer era shares one process per key, where clients may use the same ids and tokens.
func TestSharedProcess(t *testing.T) {
	g := newLocalRig(t)
	ids := []string{`7`, `"7"`, `7`, `7.0`, `"\u0061"`, `"a"`}
	tokens := []string{`1`, `1`, `"1"`, `"\u0031"`, `1.0`, `1`}
	var streams []*http.Response
	for i, id := range ids {
		streams = append(streams, g.begin(newEra(id, "hold", `"progressToken":`+tokens[i]+`,`)))
	}
	g.waitFor(len(ids))
	if _, _, got := g.send(newEra("7", "release", "")); !strings.Contains(got, `{"jsonrpc":"2.0","id":7,"result"`) {
		t.Errorf("release: %s", got)
	}
	for i, s := range streams {
		in := bufio.NewReader(s.Body)
		first, second := event(t, in), event(t, in)
		if want := `"params":{"progressToken":` + tokens[i] + `,"progress":0.10}}`; !strings.Contains(first, want) {
			t.Errorf("%s: progress %s, want %s", ids[i], first, want)
		}
		if want := `data: {"jsonrpc":"2.0","id":` + ids[i] + `,"result":`; !strings.Contains(second, want) {
			t.Errorf("got %s, want %s", second, want)
		}
		s.Body.Close()
	}
	if n := g.procs.running(1); n != 1 {
		t.Errorf("%d processes for one key", n)
	}
	g.key = g.bench.Key("other", "agent").Value
	if _, _, got := g.send(newEra("7", "count", "")); !strings.Contains(got, "call 1") {
		t.Errorf("another key: %s", got)
	}
	if n := g.procs.running(2); n != 2 {
		t.Errorf("%d processes for two keys", n)
	}
}

// begin sends a request whose answer comes later.
func (g *rig) begin(body string, headers ...string) *http.Response {
	g.t.Helper()
	got := make(chan *http.Response, 1)
	go func() { got <- g.open(http.MethodPost, body, headers...) }()
	lazy := &lazyBody{got: got}
	g.t.Cleanup(func() { lazy.Close() })
	return &http.Response{Body: lazy}
}

// waitFor waits until the shared process has got as many calls.
func (g *rig) waitFor(calls int) {
	g.t.Helper()
	i := 0
	if !eventually(func() bool {
		_, _, got := g.send(newEra(strconv.Itoa(100000+i), "count", ""))
		i++
		n, err := strconv.Atoi(strings.TrimSuffix(after(got, "call "), `"}]}}`))
		return err == nil && n-i == calls
	}) {
		g.t.Fatalf("the process did not get %d calls", calls)
	}
}

func after(s, mark string) string {
	_, rest, _ := strings.Cut(s, mark)
	return rest
}

// lazyBody is the body of an answer that is not there yet.
type lazyBody struct {
	got  chan *http.Response
	resp *http.Response
}

func (l *lazyBody) wait() *http.Response {
	if l.resp == nil {
		select {
		case l.resp = <-l.got:
		case <-time.After(20 * time.Second):
		}
	}
	return l.resp
}

func (l *lazyBody) Read(p []byte) (int, error) {
	if r := l.wait(); r != nil {
		return r.Body.Read(p)
	}
	return 0, fmt.Errorf("no answer has come")
}

func (l *lazyBody) Close() error {
	if r := l.wait(); r != nil {
		return r.Body.Close()
	}
	return nil
}

// Idle processes end, a session's stream keeps its own alive, and what comes next begins anew.
func TestIdle(t *testing.T) {
	g := newLocalRig(t)
	idle, listens := g.initialize(`{}`), g.initialize(`{}`)
	stream := g.open(http.MethodGet, "", "Mcp-Session-Id", listens)
	defer stream.Body.Close()
	g.send(newEra("1", "count", ""))
	g.gw.EndIdle("up")
	if n := g.procs.running(3); n != 3 {
		t.Fatalf("%d processes", n)
	}
	g.bench.Advance(mcpd.ChildIdle + time.Second)
	g.gw.EndIdle("up")
	if n := g.procs.running(1); n != 1 {
		t.Errorf("%d processes after a long time", n)
	}
	if status, _, _ := g.send(call(1, "count", `{}`), "Mcp-Session-Id", idle); status != 404 {
		t.Errorf("the idle session: %d", status)
	}
	if got := g.ask(listens, 1, "count"); !strings.Contains(got, "call 1") {
		t.Errorf("the session with a stream: %s", got)
	}
	if _, _, got := g.send(newEra("1", "count", "")); !strings.Contains(got, "call 1") {
		t.Errorf("the newer era: %s", got)
	}
}

// A key has so many processes at once: the one that was idle longest makes room, and if none is, nobody's ends.
func TestLimitPerKey(t *testing.T) {
	g := newLocalRig(t)
	var all []string
	for range mcpd.MostPerKey {
		g.bench.Advance(time.Second)
		all = append(all, g.initialize(`{}`))
	}
	g.bench.Advance(time.Second)
	g.ask(all[0], 1, "count")
	g.bench.Advance(time.Second)
	newest := g.initialize(`{}`)
	for i, want := range map[int]int{0: 200, 1: 404, 2: 200} {
		if status, _, got := g.send(call(5, "count", `{}`), "Mcp-Session-Id", all[i]); status != want {
			t.Errorf("session %d: %d %s, want %d", i, status, got, want)
		}
	}
	all[1] = newest
	for _, id := range all {
		stream := g.open(http.MethodGet, "", "Mcp-Session-Id", id)
		defer stream.Body.Close()
	}
	_, h, got := g.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	if h.Get("Mcp-Session-Id") != "" || !strings.Contains(got, "-32603") || !strings.Contains(got, "no process is left") {
		t.Errorf("one more than all busy ones: %s", got)
	}
	if n := g.procs.running(mcpd.MostPerKey); n != mcpd.MostPerKey {
		t.Errorf("%d processes", n)
	}
	g.key = g.bench.Key("other", "agent").Value
	g.initialize(`{}`)
}

// Another gateway does not know the sessions of the one before: the client is told to begin anew.
func TestRestart(t *testing.T) {
	g := newLocalRig(t)
	id := g.initialize(`{}`)
	g.stop()
	if n := g.procs.running(0); n != 0 {
		t.Fatalf("%d processes outlive the gateway", n)
	}
	g.url = g.serve(g.set) + "/mcp/up"
	for _, try := range []string{call(1, "count", `{}`), `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		if status, _, got := g.send(try, "Mcp-Session-Id", id); status != 404 || !strings.Contains(got, "initialize again") {
			t.Errorf("%d %s", status, got)
		}
	}
	if status, _, _ := g.do(http.MethodGet, "", "Mcp-Session-Id", id); status != 404 {
		t.Errorf("stream: %d", status)
	}
	if got := g.ask(g.initialize(`{}`), 1, "count"); !strings.Contains(got, "call 1") {
		t.Error(got)
	}
}

// What belongs to one client alone is not to be had without its session: not another client's stream, not the end of
// the process that a key's clients share.
func TestWithoutSession(t *testing.T) {
	g := newLocalRig(t)
	g.send(newEra("1", "count", ""))
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			if status, _, _ := g.do(method, "", "Mcp-Protocol-Version", version); status != 405 {
				t.Errorf("%s %s: %d", method, version, status)
			}
		}
	}
	if _, _, got := g.send(newEra("1", "count", "")); !strings.Contains(got, "call 2") {
		t.Errorf("the shared process ended: %s", got)
	}
}

// A program that cannot be started is said in the log, and the client is not left to wait.
func TestCannotStart(t *testing.T) {
	g := newLocalRig(t, func(m *config.MCP) { m.Servers["up"] = config.MCPServer{Command: []string{"fails"}, Timeout: 1} })
	_, h, got := g.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	if h.Get("Mcp-Session-Id") != "" || !strings.Contains(got, `"error":{"code":-32603`) {
		t.Error(got)
	}
	if _, _, got := g.send(newEra("1", "count", "")); !strings.Contains(got, `"id":1,"error":{"code":-32603`) {
		t.Error(got)
	}
}
