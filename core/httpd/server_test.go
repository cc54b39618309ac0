package httpd

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit/limits"
	"github.com/yett-dev/yett/sdk"
)

// gate is a whole server on a real store, whose chain answers with what the tool is called.
type gate struct {
	t      testing.TB
	svc    *ops.Service
	server *Server
	addr   string
	reason atomic.Pointer[string]
	closed chan net.Addr // connections that the server has closed
	flight *counted
	served chan error
}

// counted is a Flight that counts.
type counted struct{ entered, left atomic.Int64 }

func (c *counted) Enter() uint32 { c.entered.Add(1); return uint32(c.entered.Load()) }
func (c *counted) Leave(uint32)  { c.left.Add(1) }

func (g *gate) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	name, _, _ := strings.Cut(c.ToolID, "/")
	effect, ok := sdk.ParseEffect(strings.ToUpper(name))
	if name == "backoff" {
		return sdk.Verdict{}, chain.Later(fmt.Errorf("%w: the plugin is not ready", chain.ErrUnavailable), 30*time.Second)
	}
	if !ok {
		return sdk.Verdict{}, fmt.Errorf("no such effect")
	}
	v := sdk.Verdict{Effect: effect, Code: "TEST"}
	if r := g.reason.Load(); r != nil {
		v.Reason = *r
	}
	return v, nil
}

func (g *gate) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) { return nil, nil }
func (g *gate) About() chain.About                                        { return chain.About{} }

type noObserver struct{}

func (noObserver) Operated(string, string, sdk.Code, time.Duration)  {}
func (noObserver) Asked(string, string, string, bool, time.Duration) {}
func (noObserver) Refused(string, sdk.Code)                          {}
func (noObserver) Kept(string, string, string)                       {}

// tellingListener says which connections were closed on this side.
type tellingListener struct {
	net.Listener
	closed chan net.Addr
	buffer int // of writes, 0 = the system's
}

type tellingConn struct {
	net.Conn
	once   sync.Once
	closed chan net.Addr
}

func (l *tellingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.buffer > 0 {
		err = c.(*net.TCPConn).SetWriteBuffer(l.buffer)
	}
	return &tellingConn{Conn: c, closed: l.closed}, err
}

func (c *tellingConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.closed <- c.RemoteAddr() })
	return err
}

// CloseWrite lets the guard end its side first.
func (c *tellingConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

func newGate(t testing.TB, change func(*Settings)) *gate {
	g := &gate{t: t, closed: make(chan net.Addr, 1000), flight: &counted{}, served: make(chan error, 1)}
	st, err := store.Open(store.Settings{Dir: t.TempDir(), Now: time.Now, NewID: func() string {
		return "sto_test"
	}, Secret: []byte("secret"), Log: t.Logf, OnFatal: func(err error) { t.Errorf("fatal: %v", err) }, Stall: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	gen := &ops.Generation{Policy: "p", Args: "digest",
		Scan: &chain.ScanChain{Budget: time.Minute, Now: time.Now,
			Steps: []chain.ScanStep{{Name: "s", OnError: sdk.Deny, Scanner: g}}},
		Authorize: &chain.Authorizer{Budget: time.Minute, Now: time.Now, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "t", Inline: true, OnError: sdk.Deny, Checker: g}}}}
	g.svc = ops.New(ops.Settings{Store: st, Generation: func() *ops.Generation {
		return gen
	}, Pepper: []byte("pepper"), Now: time.Now, Random: func(p []byte) { _, _ = rand.Read(p) },
		Limits: config.Limits{Name: 256, PendingPerKey: 100, LongPollsPerKey: 4, StreamsPerKey: 2},
		Defers: config.Defers{TTL: config.Duration(time.Minute), MaxTTL: config.Duration(time.Hour),
			ApprovedTTL: config.Duration(time.Minute)},
		Observer: noObserver{}, Log: st, Version: "1",
		Policy: func(string) (*chain.Authorizer, error) {
			return nil, &ops.PolicyError{Faults: []ops.PolicyFault{{Line: 2, Column: 3, Msg: "no"}}}
		}})
	set := Settings{Service: g.svc, Ready: func() []Part {
		return []Part{{Name: "store", OK: true}}
	}, Now: time.Now, NewID: func() string { return "req_made" }, Version: "1",
		Server: config.Server{DenyStatus: 200}, Limits: limits.Default(t), look: time.Hour, Timeout: time.Minute,
		Flight: g.flight, Log: t.Logf}
	set.Limits.Connections, set.Limits.InFlight = 100, 100
	if change != nil {
		change(&set)
	}
	g.server = New(set)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = ln.Addr().String()
	buffer := 0
	if set.unread > 0 {
		buffer = 4096
	}
	go func() { g.served <- g.server.Serve(&tellingListener{ln, g.closed, buffer}) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-g.served; err != nil {
			t.Error(err)
		}
		g.svc.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *gate) key(name string, scopes ...string) string {
	g.t.Helper()
	k, err := g.svc.CreateKey(context.Background(), ops.KeySpec{Name: name, Scopes: scopes},
		store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"})
	if err != nil {
		g.t.Fatal(err)
	}
	return k.Value
}

// answer is one HTTP answer, read whole.
type answerOf struct {
	*http.Response
	body string
	m    map[string]any // of an object
}

// send makes one request, with Content-Type on all of them as real clients do.
func (g *gate) send(key, method, path, body string, headers ...string) answerOf {
	g.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://"+g.addr+path, r)
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	out := answerOf{Response: resp, body: string(text)}
	if bytes.HasPrefix(text, []byte("{")) {
		if err := json.Unmarshal(text, &out.m); err != nil {
			g.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return out
}

// problem checks that an answer is a problem document with that status and code.
func (g *gate) problem(a answerOf, status int, code string) {
	g.t.Helper()
	_, text := a.m["detail"].(string)
	if a.StatusCode != status || a.m["code"] != code || a.m["error"] != code || !text || a.m["request_id"] == "" ||
		a.Header.Get("Content-Type") != "application/problem+json" || a.m["status"] != float64(status) {
		g.t.Errorf("%s %s: %d %s, want %d %s", a.Request.Method, a.Request.URL, a.StatusCode, a.body, status, code)
	}
}
