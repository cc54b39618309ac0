package mcpbridge

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/mcpd"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// rig is a real gateway before a fake server, and a bridge to it whose ends the test holds.
type rig struct {
	t     *testing.T
	bench *doortest.Bench
	addr  string // of the gateway
	set   config.MCP
	key   string
	stop  func() // ends the gateway

	mu  sync.Mutex
	got []received

	in     *os.File // what the bridge reads
	out    *bufio.Reader
	errs   *buffer
	ended  chan error
	cancel context.CancelFunc
}

// received is one request as the server got it.
type received struct {
	method string
	header http.Header
	body   string
}

// buffer takes what the bridge says while the test may read it.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newRig(t *testing.T, say func(w http.ResponseWriter, r received)) *rig {
	t.Helper()
	g := &rig{t: t, bench: doortest.New(t)}
	g.key = g.bench.Key("agent", "agent").Value
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway has gone
		}
		one := received{r.Method, r.Header.Clone(), string(body)}
		g.mu.Lock()
		g.got = append(g.got, one)
		g.mu.Unlock()
		say(w, one)
	}))
	t.Cleanup(up.Close)
	cfg, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	g.set = cfg.MCP
	g.set.Wait = 0
	g.set.Servers = map[string]config.MCPServer{"up": {URL: up.URL, Timeout: config.Duration(time.Minute)}}
	g.serve("127.0.0.1:0")
	g.connect()
	return g
}

// serve starts a gateway at an address.
func (g *rig) serve(addr string) {
	g.t.Helper()
	gw, err := mcpd.New(mcpd.Settings{Config: g.set, Limits: g.bench.Limits, Asker: g.bench.Asker,
		Secret: make([]byte, 32), Random: func(p []byte) { _, _ = rand.Read(p) }, Now: g.bench.Now,
		May: g.bench.Service.May, Log: g.t.Logf, Console: func() string { return "" }, Valid: config.FitsSchema})
	if err != nil {
		g.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.addr = ln.Addr().String()
	f := front.New(front.Settings{Name: "mcp", Keys: g.bench.Service, Limits: g.bench.Limits, HostKey: "mcp.hosts",
		NewID: func() string { return "req_test" }, Log: g.t.Logf}, gw.Routes())
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ln) }()
	g.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(f.Close(ctx), <-ended); err != nil {
			g.t.Error(err)
		}
		gw.Close()
	})
	g.t.Cleanup(g.stop)
}

// connect starts a bridge.
func (g *rig) connect() {
	g.t.Helper()
	b, err := newBridge("http://"+g.addr, "up", g.key, nil, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		g.t.Fatal(err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		g.t.Fatal(err)
	}
	g.in, g.out, g.errs, g.ended = in, bufio.NewReaderSize(out, 1<<20), &buffer{}, make(chan error, 1)
	b.Stdin, b.Stdout, b.Stderr = stdin, stdout, g.errs
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	done := make(chan struct{})
	go func() {
		g.ended <- b.Run(ctx)
		stdout.Close()
		close(done)
	}()
	g.t.Cleanup(func() {
		cancel()
		in.Close()
		<-done
		out.Close()
		stdin.Close()
		b.Client.CloseIdleConnections()
	})
}

// say gives the bridge a line.
func (g *rig) say(line string) {
	g.t.Helper()
	if _, err := io.WriteString(g.in, line+"\n"); err != nil {
		g.t.Fatal(err)
	}
}

// hear is the next line on stdout.
func (g *rig) hear() string {
	g.t.Helper()
	got := make(chan string, 1)
	go func() {
		line, err := g.out.ReadString('\n')
		if err != nil {
			line += "<" + err.Error() + ">"
		}
		got <- line
	}()
	select {
	case line := <-got:
		return strings.TrimSuffix(line, "\n")
	case <-time.After(20 * time.Second):
		g.t.Fatalf("no line came; stderr: %s", g.errs)
		return ""
	}
}

// requests are what the server got since the last call.
func (g *rig) requests() []received {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.got
	g.got = nil
	return out
}

// end waits for the end of the bridge.
func (g *rig) end() error {
	g.t.Helper()
	select {
	case err := <-g.ended:
		return err
	case <-time.After(20 * time.Second):
		g.t.Fatal("the bridge does not end")
		return nil
	}
}

// idOf is the id of a message as sent.
func idOf(body string) string {
	_, rest, _ := strings.Cut(body, `"id":`)
	end := strings.IndexAny(rest, ",}")
	if end < 0 {
		return "null"
	}
	return rest[:end]
}

// answer answers with a result.
func answer(w http.ResponseWriter, r received, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, idOf(r.body), result)
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"tester","version":"1"}}}`

const opened = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"x":1.0}}`

func call(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

// older is a server with sessions. Calls of "slow" wait until ended is closed.
func older(slow <-chan struct{}) func(w http.ResponseWriter, r received) {
	return func(w http.ResponseWriter, r received) {
		switch {
		case strings.Contains(r.body, `"initialize"`):
			w.Header().Set("Mcp-Session-Id", "s-1")
			answer(w, r, `{"protocolVersion":"2025-11-25","capabilities":{},"x":1.0}`)
		case r.header.Get("Mcp-Session-Id") != "s-1":
			w.WriteHeader(http.StatusNotFound)
		case r.method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\ndata:  \"method\":\"ping\", \"n\":1.0}\n\n")
			w.(http.Flusher).Flush()
			<-slow
		case strings.Contains(r.body, `"slow"`):
			<-slow
			answer(w, r, `{"content":[]}`)
		case strings.Contains(r.body, `"id":`) && strings.Contains(r.body, `"method"`):
			answer(w, r, `{"content":[], "n":12345678901234567890,"m":0.10,"s":"\u0041"}`)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

// The older era: session, stream, answers of the client, end. Every message keeps its bytes.
func TestOlderEra(t *testing.T) {
	slow := make(chan struct{})
	end := sync.OnceFunc(func() { close(slow) })
	defer end()
	g := newRig(t, older(slow))
	g.say(initialize)
	if got := g.hear(); got != opened {
		t.Fatalf("%s\n%s", got, g.errs)
	}
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	g.say(initialized)
	if got := g.hear(); got != `{"jsonrpc":"2.0","id":"q",  "method":"ping", "n":1.0}` {
		t.Errorf("the stream: %s", got)
	}
	const pong = `{"jsonrpc":"2.0","id":"q","result":{"x":1e400}}`
	g.say(pong)
	body := `{"jsonrpc":"2.0", "id":7,"method":"tools/call","params":{"name":"read","arguments":{"n":12345678901234567890,` +
		`"m":0.10,"s":"\u0041"},"x-unknown":1e400}}`
	g.say("  " + body + "  ")
	if got := g.hear(); got != `{"jsonrpc":"2.0","id":7,"result":{"content":[], "n":12345678901234567890,"m":0.10,`+
		`"s":"\u0041"}}` {
		t.Error(got)
	}
	end()
	g.in.Close()
	if err := g.end(); err != nil {
		t.Error(err)
	}
	var bodies []string
	deleted := false
	for _, r := range g.requests() {
		if r.method == http.MethodPost {
			bodies = append(bodies, r.body)
		}
		deleted = deleted || r.method == http.MethodDelete && r.header.Get("Mcp-Session-Id") == "s-1"
		if !strings.Contains(r.body, "initialize\"") && r.header.Get("Mcp-Protocol-Version") != "2025-11-25" {
			t.Errorf("%s %s has the version %q", r.method, r.body, r.header.Get("Mcp-Protocol-Version"))
		}
	}
	want := strings.Join([]string{initialize, initialized, pong, body}, "\n")
	if got := strings.Join(bodies, "\n"); got != want {
		t.Errorf("the server got\n%s\nwant\n%s", got, want)
	}
	if !deleted {
		t.Error("the session was not ended")
	}
}

// The newer era: headers are made of the body, and a name that no header can hold is written in base64.
func TestNewerEra(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r received) { answer(w, r, `{"resultType":"complete","content":[]}`) })
	for _, c := range []struct{ method, param, name, header string }{
		{"tools/call", "name", "read", "read"},
		{"tools/call", "name", "les\u00e9", "=?base64?bGVzw6k=?="},
		{"tools/call", "name", " read", "=?base64?IHJlYWQ=?="},
		{"tools/call", "name", "=?base64?cmVhZA==?=", "=?base64?PT9iYXNlNjQ/Y21WaFpBPT0/PQ==?="},
		{"resources/read", "uri", "file:///a%20b", "file:///a%20b"},
		{"tools/list", "name", "read", ""},
	} {
		g.say(`{"jsonrpc":"2.0","id":"a","method":"` + c.method + `","params":{"` + c.param + `":"` + c.name +
			`","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
		if got := g.hear(); !strings.Contains(got, `"id":"a","result"`) {
			t.Errorf("%s %q: %s", c.method, c.name, got)
		}
		sent := g.requests()
		if len(sent) != 1 || sent[0].header.Get("Mcp-Method") != c.method || sent[0].header.Get("Mcp-Name") != c.header ||
			sent[0].header.Get("Mcp-Protocol-Version") != "2026-07-28" {
			t.Errorf("%s %q: the server got %+v", c.method, c.name, sent)
		}
	}
}

// Many requests at once get their own answers, and a quick one does not wait for a slow one.
func TestManyAtOnce(t *testing.T) {
	slow := make(chan struct{})
	g := newRig(t, older(slow))
	g.say(initialize)
	g.hear()
	const n = 100
	for i := range n {
		g.say(call(fmt.Sprintf("%d.0", i), "slow", `{}`))
	}
	g.say(call(`"quick"`, "read", `{}`))
	if got := g.hear(); !strings.Contains(got, `"id":"quick","result"`) {
		t.Error(got)
	}
	close(slow)
	seen := map[string]bool{}
	for range n {
		if got := g.hear(); strings.Contains(got, `"result"`) {
			seen[idOf(got)] = true
		}
	}
	if len(seen) < n {
		t.Errorf("%d of %d requests have an answer", len(seen), n)
	}
}

// Whatever fails, a request gets an answer with its id, and stdout nothing else.
func TestAlwaysAnAnswer(t *testing.T) {
	var mode atomic.Value
	mode.Store("")
	g := newRig(t, func(w http.ResponseWriter, r received) {
		switch mode.Load() {
		case "cut":
			panic(http.ErrAbortHandler)
		case "empty":
			w.WriteHeader(http.StatusOK)
		case "other":
			fmt.Fprint(w, "<html>")
		default:
			answer(w, r, `{"content":[]}`)
		}
	})
	for _, m := range []string{"cut", "empty", "other"} {
		mode.Store(m)
		g.say(call("1.0", "read", `{}`))
		if got := g.hear(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1.0,"error":{"code":-32603`) {
			t.Errorf("%s: %s", m, got)
		}
	}
	for line, want := range map[string]string{
		`{`:                                 `"id":null,"error":{"code":-32700`,
		`[` + call("1", "read", `{}`) + `]`: `"id":null,"error":{"code":-32700`,
		`{"jsonrpc":"2.0","id":[],"method":"ping"}`:                   `"id":null,"error":{"code":-32700`,
		`{"jsonrpc":"1.0","id":"x","method":"ping"}`:                  `"id":"x","error":{"code":-32600`,
		`{"jsonrpc":"2.0","id":"x","method":"tools/run"}`:             `"id":"x","error":{"code":-32601`,
		call(`"x"`, "read", `{"x":"`+strings.Repeat("y", 2<<20)+`"}`): `"id":"x","error":{"code":-32600`,
	} {
		g.say(line)
		if got := g.hear(); !strings.Contains(got, want) {
			t.Errorf("%.60s: %s, want %s", line, got, want)
		}
	}
	g.say("\n \n")
	g.stop()
	g.say(call("2", "read", `{}`))
	if got := g.hear(); !strings.Contains(got, `"id":2,"error":{"code":-32603,"message":"the gateway at http://`) {
		t.Errorf("without a gateway: %s", got)
	}
	g.serve(g.addr)
	mode.Store("")
	g.say(call("3", "read", `{}`))
	if got := g.hear(); got != `{"jsonrpc":"2.0","id":3,"result":{"content":[]}}` {
		t.Errorf("after a restart: %s", got)
	}
	g.key = "wrong-key"
	g.in.Close()
	if err := g.end(); err != nil {
		t.Error(err)
	}
	g.connect()
	g.say(call("4", "read", `{}`))
	if got := g.hear(); !strings.Contains(got, `"id":4,"error":{"code":-32001`) {
		t.Errorf("a wrong key: %s", got)
	}
}

// A session that the gateway does not know any more ends in an error for each request, until the client begins anew.
func TestSessionIsOver(t *testing.T) {
	slow := make(chan struct{})
	defer close(slow)
	g := newRig(t, older(slow))
	g.say(initialize)
	g.hear()
	g.stop()
	g.set.Servers = map[string]config.MCPServer{"other": g.set.Servers["up"], "up": g.set.Servers["up"]}
	lost := g.set.Servers["up"]
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"initialize"`) {
			w.Header().Set("Mcp-Session-Id", "s-2")
			answer(w, received{body: string(body)}, `{"protocolVersion":"2025-11-25"}`)
			return
		}
		if r.Header.Get("Mcp-Session-Id") != "s-2" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(w, received{body: string(body)}, `{}`)
	}))
	t.Cleanup(up.Close)
	lost.URL = up.URL
	g.set.Servers["up"] = lost
	g.serve(g.addr)
	for _, id := range []string{"1", "2"} {
		g.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		got := g.hear()
		if !strings.Contains(got, `"id":`+id+`,"error":{"code":-32001`) || !strings.Contains(got, "initialize again") {
			t.Error(got)
		}
	}
	g.say(initialize)
	if got := g.hear(); !strings.Contains(got, `"result"`) {
		t.Error(got)
	}
	g.say(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if got := g.hear(); got != `{"jsonrpc":"2.0","id":3,"result":{}}` {
		t.Error(got)
	}
}

// At the end of stdin what is in flight gets its answer; a signal does not wait.
func TestEnds(t *testing.T) {
	slow := make(chan struct{})
	g := newRig(t, older(slow))
	g.say(initialize)
	g.hear()
	g.say(call("1", "slow", `{}`))
	for !strings.Contains(fmt.Sprint(g.bench.Calls()), "slow") {
		if g.errs.String() != "" {
			t.Fatal(g.errs)
		}
	}
	g.in.Close()
	select {
	case err := <-g.ended:
		t.Fatalf("it has ended before the answer: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(slow)
	if got := g.hear(); !strings.Contains(got, `"id":1,"result"`) {
		t.Error(got)
	}
	if err := g.end(); err != nil {
		t.Error(err)
	}
	if got := g.hear(); got != "<EOF>" {
		t.Errorf("then came %q", got)
	}

	never := make(chan struct{})
	defer close(never)
	g = newRig(t, older(never))
	g.say(initialize)
	g.hear()
	g.say(call("1", "slow", `{}`))
	g.cancel()
	if err := g.end(); err != nil {
		t.Error(err)
	}
}

// A request that the client gives up has no answer, and its id can be used again.
func TestGivenUp(t *testing.T) {
	slow := make(chan struct{})
	defer close(slow)
	g := newRig(t, func(w http.ResponseWriter, r received) {
		if strings.Contains(r.body, `"slow"`) {
			<-slow
		}
		answer(w, r, `{}`)
	})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	g.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow",` + meta)
	g.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,` + meta)
	deadline := time.Now().Add(10 * time.Second)
	for {
		g.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read",` + meta)
		if got := g.hear(); got == `{"jsonrpc":"2.0","id":1,"result":{}}` {
			return
		} else if !strings.Contains(got, "use each id once") || time.Now().After(deadline) {
			t.Fatal(got)
		}
	}
}

// A line that is longer than a message may be is answered, and the next one is read.
func TestLongLine(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r received) { answer(w, r, `{}`) })
	go func() {
		part := strings.Repeat("x", 1<<20)
		for range MaxMessage>>20 + 1 {
			if _, err := io.WriteString(g.in, part); err != nil {
				return
			}
		}
		_, _ = io.WriteString(g.in, "\n"+`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n") // in vain: the test has failed
	}()
	if got := g.hear(); !strings.Contains(got, `"id":null,"error":{"code":-32600`) {
		t.Errorf("%.200s", got)
	}
	if got := g.hear(); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("%.200s", got)
	}
}

// The key goes to nobody but the user who must listen.
func TestOwner(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r received) { answer(w, r, `{}`) })
	for _, c := range []struct {
		uid  uint32
		want string
	}{{uint32(os.Getuid()), `"result"`}, {uint32(os.Getuid()) + 1, "the key is not sent there"}} {
		b, err := newBridge("http://"+g.addr, "up", g.key, nil, &c.uid)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		b.Stdin, b.Stdout, b.Stderr = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), &out, g.errs
		if err := b.Run(context.Background()); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("as user %d: %v %s", c.uid, err, out.String())
		}
		b.Client.CloseIdleConnections()
	}
}
