package mcpd_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/mcpd"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// rig is a gateway before one fake server.
type rig struct {
	t     testing.TB
	bench *doortest.Bench
	url   string // of the server "up" at the gateway
	key   string // of an agent
	set   config.MCP
	gw    *mcpd.Gateway // the newest
	stop  func()        // ends it; may be called more than once
	// an answer of one event is given as the message that is in it
	unwrap bool
	procs  procs       // what it has started
	made   *ops.NewKey // of key

	broken atomic.Bool // no definition of a tool can be noted

	mu  sync.Mutex
	got []received
	say []string // the log
}

// received is one request as the server got it.
type received struct {
	method string
	header http.Header
	body   string
}

// answer is what the fake server does with a request.
type answer func(w http.ResponseWriter, r received)

// newRig starts both. change changes the configuration.
func newRig(t testing.TB, say answer, change ...func(*config.MCP)) *rig {
	t.Helper()
	g := &rig{t: t, bench: doortest.New(t)}
	g.made = g.bench.Key("agent", "agent")
	g.key = g.made.Value
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
	m := cfg.MCP
	m.Wait = config.Duration(0)
	m.Servers = map[string]config.MCPServer{"up": {URL: up.URL, Timeout: config.Duration(time.Minute)}}
	for _, f := range change {
		f(&m)
	}
	g.set = m
	g.url = g.serve(m) + "/mcp/up"
	return g
}

// another serves the same server under another name.
func (g *rig) another(name string) string {
	m := g.set
	m.Servers = map[string]config.MCPServer{name: g.set.Servers["up"]}
	return g.serve(m) + "/mcp/" + name
}

// serve starts a gateway on the rig's bench.
func (g *rig) serve(m config.MCP) string {
	t := g.t
	gw, err := mcpd.New(mcpd.Settings{Config: m, Limits: g.bench.Limits, Asker: g.bench.Asker,
		Secret: make([]byte, 32), Random: func(p []byte) { _, _ = rand.Read(p) },
		Now: g.bench.Now, May: g.bench.Service.May, Log: g.log,
		Console: func() string { return "https://console.example" }, Valid: config.FitsSchema, Start: g.procs.start,
		Pins: pins{g.bench.Store, m.Pin == config.MCPPinOperator, &g.broken},
		Decision: func(id string) ([]byte, error) {
			var out []byte
			return out, g.bench.Store.Records(1, func(_ uint64, rec []byte) error {
				if strings.Contains(string(rec), `"type":"decision"`) && strings.Contains(string(rec), id) {
					out = append(out[:0:0], rec...)
				}
				return nil
			})
		}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := front.New(front.Settings{Name: "mcp", Keys: g.bench.Service, Limits: g.bench.Limits, HostKey: "mcp.hosts",
		NewID: func() string { return "req_test" }, Log: t.Logf}, gw.Routes())
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ln) }()
	g.gw, g.stop = gw, sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(f.Close(ctx), <-ended); err != nil {
			t.Error(err)
		}
		gw.Close()
	})
	t.Cleanup(g.stop)
	return "http://" + ln.Addr().String()
}

func (g *rig) log(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.say = append(g.say, fmt.Sprintf(format, args...))
}

// logged is what the gateway has logged.
func (g *rig) logged() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.say, "\n")
}

// requests are what the server got since the last call.
func (g *rig) requests() []received {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.got
	g.got = nil
	return out
}

// send posts a message with headers given in pairs, and gives status, headers and body of the answer.
func (g *rig) send(body string, headers ...string) (int, http.Header, string) {
	g.t.Helper()
	return g.do(http.MethodPost, body, headers...)
}

func (g *rig) do(method, body string, headers ...string) (int, http.Header, string) {
	g.t.Helper()
	resp := g.open(method, body, headers...)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	text := string(out)
	if one, ok := strings.CutPrefix(text, "event: message\ndata: "); ok && g.unwrap && strings.Count(text, "\n") == 3 {
		text = strings.TrimSuffix(one, "\n\n")
	}
	return resp.StatusCode, resp.Header, text
}

// open sends a request and leaves its answer to be read.
func (g *rig) open(method, body string, headers ...string) *http.Response {
	g.t.Helper()
	r, err := http.NewRequest(method, g.url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range modernHeaders(body) {
		r.Header.Set(name, value)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp
}

// modernHeaders are those that a message of the newer era must have.
func modernHeaders(body string) map[string]string {
	var m struct {
		Method string
		Params struct {
			Name, URI string
			Meta      map[string]any `json:"_meta"`
		}
	}
	if json.Unmarshal([]byte(body), &m) != nil || m.Params.Meta["io.modelcontextprotocol/protocolVersion"] == nil {
		return nil
	}
	out := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": m.Method}
	if name := m.Params.Name + m.Params.URI; name != "" {
		out["Mcp-Name"] = name
	}
	return out
}

// call is a request to run a tool.
func call(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

// modern is a call of the newer era, whose client can show pages.
func modern(id int, tool, args, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,%s"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+
		`{"elicitation":{"url":{}}}}}}`, id, tool, args, more)
}

// plain answers every request with a result.
func plain(result string) answer {
	return func(w http.ResponseWriter, r received) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, idOf(r.body), result)
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
