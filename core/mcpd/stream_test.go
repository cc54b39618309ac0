package mcpd_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// open begins a session of the older era and gives its id.
func (g *rig) initialize(capabilities string) string {
	g.t.Helper()
	_, h, got := g.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":` + capabilities + `,"clientInfo":{"name":"tester","version":"1"}}}`)
	id := h.Get("Mcp-Session-Id")
	if id == "" {
		g.t.Fatalf("no session: %s", got)
	}
	return id
}

// withSessions is a server of the older era: session "s-1", and events for calls.
func withSessions(events string) answer {
	return func(w http.ResponseWriter, r received) {
		switch {
		case strings.Contains(r.body, `"initialize"`):
			w.Header().Set("Mcp-Session-Id", "s-1")
			plain(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"fake"}}`)(w, r)
		case r.header.Get("Mcp-Session-Id") != "s-1":
			w.WriteHeader(http.StatusNotFound)
		case r.method == http.MethodGet || strings.Contains(r.body, `"tools/call"`):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, events)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

func TestSessions(t *testing.T) {
	g := newRig(t, withSessions("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n"))
	id := g.initialize(`{}`)
	if strings.Contains(id, "s-1") {
		t.Errorf("the client sees the server's own session: %s", id)
	}
	if _, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id); !strings.Contains(got, `"content":[]`) {
		t.Error(got)
	}
	if _, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id); !strings.Contains(got, "not run a second") {
		t.Errorf("the same request ran twice: %s", got)
	}
	if sent := g.requests(); len(sent) != 2 || sent[1].header.Get("Mcp-Session-Id") != "s-1" {
		t.Errorf("the server got %+v", sent)
	}
	other := g.bench.Key("other", "agent").Value
	for name, try := range map[string][2]string{"another key": {other, id}, "the server's id": {g.key, "s-1"},
		"forged": {g.key, id[:len(id)-3] + "AAA"}, "a state as session": {g.key, "yett1.AAAA"}} {
		g.key = try[0]
		if status, _, got := g.send(call(2, "read", `{}`), "Mcp-Session-Id", try[1]); status != 404 {
			t.Errorf("%s: %d %s", name, status, got)
		}
		if status, _, got := g.do(http.MethodGet, "", "Mcp-Session-Id", try[1]); status != 404 {
			t.Errorf("%s, stream: %d %s", name, status, got)
		}
	}
	if sent := g.requests(); len(sent) != 0 {
		t.Errorf("the server got %+v", sent)
	}
}

// Data that are not changed keep their bytes. Comments become empty, and fields that are none are left out.
func TestEvents(t *testing.T) {
	const before = ": hello\n\nid: 7\nretry: 10\nevent: message\n" +
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":" +
		"{\"progressToken\":1,\"progress\":0.10}}\r\n\r\n"
	const last = "id: 9\ndata:{\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"content\":[],\"n\":1.0}}\n\n"
	g := newRig(t, withSessions(before+
		"id: 8\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"S3CR3T\"}}\nx: y\n\n"+
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"F0RB1D\"}}\n\n"+
		"data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\n"+last))
	id := g.initialize(`{}`)
	_, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id)
	want := strings.Replace(before, ": hello", ":", 1) + "id: 8\ndata: {\"jsonrpc\":\"2.0\"," +
		"\"method\":\"notifications/message\",\"params\":{\"data\":\"[hidden]\"}}\n\n" + last
	if got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// A server that ends its stream early is told of, and a client of the older era is not left to wait.
func TestStreamEndsEarly(t *testing.T) {
	for _, events := range []string{"", ": nothing\n\n", "data: {\"jsonrpc\":\"2.0\",\"id\":1,", "data: x\n\n",
		"data: [1]\n\n",
		"data: " + strings.Repeat("x", 9<<20) + "\n\n", "data: a\rdata: b\n\n"} {
		g := newRig(t, withSessions(events))
		id := g.initialize(`{}`)
		_, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id)
		if !strings.Contains(got, `"id":1,"error":{"code":-32603`) {
			t.Errorf("%.20q: %s", events, got)
		}
	}
}

// What cannot be read is answered once, and the answer that comes behind it is dropped: a client takes one.
func TestOneAnswerBehindABrokenOne(t *testing.T) {
	g := newRig(t, withSessions("data: {\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n"))
	id := g.initialize(`{}`)
	_, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id)
	if strings.Count(got, `"id":1`) != 1 || !strings.Contains(got, `"code":-32603`) {
		t.Error(got)
	}
}

// What a server asks of the client is asked about first, and the server is told if it may not.
func TestServerRequests(t *testing.T) {
	ask := func(method, params string) string {
		return `data: {"jsonrpc":"2.0","id":"q","method":"` + method + `","params":` + params + "}\n\n"
	}
	const end = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n"
	for _, c := range []struct {
		name, server, events string
		passed               bool
	}{
		{"permitted", "up", ask("elicitation/create", `{"mode":"form","message":"who?"}`), true},
		{"denied", "deny-up", ask("elicitation/create", `{"mode":"url","url":"https://evil.example"}`), false},
		{"deferred", "defer-up", ask("sampling/createMessage", `{}`), false},
		{"unknown", "up", ask("files/read", `{}`), false},
		{"withheld", "up", ask("elicitation/create", `{"message":"F0RB1D"}`), false},
		{"ping", "deny-up", ask("ping", `{}`), true},
		{"our own id", "up", strings.Replace(ask("ping", `{}`), `"q"`, `"yett-page-1"`, 1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, withSessions(c.events+end))
			if c.server != "up" {
				g.url = g.another(c.server)
			}
			id := g.initialize(`{}`)
			g.requests()
			_, _, got := g.do(http.MethodGet, "", "Mcp-Session-Id", id)
			if strings.Contains(got, `"method":"`) != c.passed {
				t.Errorf("got %s", got)
			}
			var told bool
			for _, r := range g.requests() {
				told = told || strings.Contains(r.body, `"error"`)
			}
			if told == c.passed {
				t.Errorf("told the server: %t", told)
			}
		})
	}
}

// A client of the older era that can show pages gets one on the stream of its call, which goes on once it is approved.
func TestPageOnTheStream(t *testing.T) {
	g := newRig(t, withSessions("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n"))
	id := g.initialize(`{"elicitation":{"form":{},"url":{}}}`)
	resp := g.open(http.MethodPost, call(1, "defer", `{}`), "Mcp-Session-Id", id)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	page := event(t, lines)
	if !strings.Contains(page, `"method":"elicitation/create"`) || !strings.Contains(page, "https://console.example/approvals/dec_") {
		t.Fatal(page)
	}
	answer := `{"jsonrpc":"2.0","id":"` + member(page, "id") + `","result":{"action":"accept"}}`
	other := g.initialize(`{}`)
	if status, _, got := g.send(answer, "Mcp-Session-Id", other); status != 400 {
		t.Errorf("another session answered: %d %s", status, got)
	}
	if status, _, got := g.send(answer, "Mcp-Session-Id", id); status != 202 {
		t.Errorf("%d %s", status, got)
	}
	g.requests()
	if n := g.bench.AnswerPending(true); n != 1 {
		t.Fatalf("%d calls wait", n)
	}
	if got := event(t, lines); !strings.Contains(got, `"result":{"content":[]}`) {
		t.Error(got)
	}
	if sent := g.requests(); len(sent) != 1 || !strings.Contains(sent[0].body, `"tools/call"`) {
		t.Errorf("the server got %+v", sent)
	}
}

// Whoever does not want to open the page is not left waiting.
func TestPageRefused(t *testing.T) {
	g := newRig(t, withSessions(""))
	id := g.initialize(`{"elicitation":{"url":{}}}`)
	resp := g.open(http.MethodPost, call(1, "defer", `{}`), "Mcp-Session-Id", id)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	page := event(t, lines)
	g.send(`{"jsonrpc":"2.0","id":"`+member(page, "id")+`","result":{"action":"decline"}}`, "Mcp-Session-Id", id)
	if got := event(t, lines); !strings.Contains(got, `"isError":true`) {
		t.Error(got)
	}
	if n := g.bench.AnswerPending(false); n != 1 {
		t.Errorf("%d calls wait", n)
	}
}

// event reads one event.
func event(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	var out string
	for {
		line, err := lines.ReadString('\n')
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if strings.TrimSpace(line) == "" {
			return out
		}
		if out += line; err != nil { // no event: a body without a line's end
			return out
		}
	}
}

func TestHeadersAndBody(t *testing.T) {
	g := newRig(t, plain(`{"resultType":"complete","content":[]}`))
	body := modern(1, "read", `{}`, "")
	for _, c := range []struct {
		name    string
		headers []string
		ok      bool
	}{
		{"agree", []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "read"}, true},
		{"base64", []string{"Mcp-Method", "tools/call", "Mcp-Name", "=?base64?cmVhZA==?="}, true},
		{"another method", []string{"Mcp-Method", "ping"}, false},
		{"another tool", []string{"Mcp-Method", "tools/call", "Mcp-Name", "deny"}, false},
		{"another version", []string{"Mcp-Protocol-Version", "2025-11-25"}, false},
	} {
		status, _, got := g.send(body, c.headers...)
		if (status == 200) != c.ok || !c.ok && !strings.Contains(got, `"code":-32020`) {
			t.Errorf("%s: %d %s", c.name, status, got)
		}
	}
	if sent := g.requests(); len(sent) != 2 {
		t.Errorf("the server got %+v", sent)
	}
}
