package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/sdk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; a hang fails the test.
const patience = 20 * time.Second

func waitCtx(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// pauses replaces waiting: it is over at once, and what was waited for is kept.
type pauses struct {
	mu   sync.Mutex
	list []time.Duration
}

func (p *pauses) pause(ctx context.Context, d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, d)
	return ctx.Err() == nil
}

func (p *pauses) all() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Duration(nil), p.list...)
}

func newClient(t testing.TB, opts Options) (*Client, *pauses) {
	t.Helper()
	if opts.Key == "" {
		opts.Key = "key"
	}
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	p := &pauses{}
	c.pause = p.pause
	t.Cleanup(func() { c.Close() })
	return c, p
}

// seen is one request that the fake HTTP server got.
type seen struct {
	Method, Path, Query, Body string
	Header                    http.Header
}

func (s seen) str(name string) string {
	var m map[string]any
	if json.Unmarshal([]byte(s.Body), &m) != nil {
		return ""
	}
	v, _ := m[name].(string)
	return v
}

// fakeHTTP answers the n-th request with fn(n, request).
type fakeHTTP struct {
	*httptest.Server
	mu   sync.Mutex
	seen []seen
}

func (f *fakeHTTP) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.seen...)
}

func newFakeHTTP(t testing.TB, fn func(n int, w http.ResponseWriter, r seen)) *fakeHTTP {
	f := &fakeHTTP{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		if _, err := bufio.NewReader(r.Body).WriteTo(body); err != nil {
			t.Errorf("the request's body: %v", err)
		}
		f.mu.Lock()
		n := len(f.seen)
		s := seen{r.Method, r.URL.Path, r.URL.RawQuery, body.String(), r.Header.Clone()}
		f.seen = append(f.seen, s)
		f.mu.Unlock()
		fn(n, w, s)
	}))
	t.Cleanup(f.Close)
	return f
}

// answer writes one answer.
func answer(w http.ResponseWriter, status int, kind, body string, headers ...string) {
	w.Header().Set("Content-Type", kind)
	for i := 0; i+1 < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func ok(w http.ResponseWriter, body string) { answer(w, 200, "application/json", body) }

func problem(w http.ResponseWriter, status int, code string, headers ...string) {
	answer(w, status, "application/problem+json",
		fmt.Sprintf(`{"type":"x","title":"t","status":%d,"detail":"why","code":%q,"error":%q,"request_id":"req_1","field":"f"}`, status, code, code), headers...)
}

// cut ends the connection without an answer.
func cut(t testing.TB, w http.ResponseWriter) {
	nc, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Errorf("hijack: %v", err)
		return
	}
	nc.Close()
}

// decisionText is a whole decision.
func decisionText(effect, callID string, more ...string) string {
	d := wire.AuthorizeResponse{Effect: effect, ReasonCode: "RULE_" + effect, DecisionID: "dec_1", CallID: callID,
		PolicyVersion: "p1"}
	if effect == "DEFER" {
		d.DeferToken = "dfr_1"
	}
	s := string(d.AppendJSON(nil))
	if len(more) > 0 {
		s = s[:len(s)-1] + "," + strings.Join(more, ",") + "}"
	}
	return s
}

// fakeSocket is a Unix socket server; serve runs once for each connection, with its number.
type fakeSocket struct {
	path string
	ln   net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
	n    int
}

// peer is one connection as the fake server sees it.
type peer struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
	n  int // which connection it is, from 0
}

func newFakeSocket(t testing.TB, serve func(p *peer)) *fakeSocket {
	t.Helper()
	dir, err := os.MkdirTemp("", "yc") // t.TempDir can be longer than a socket's path may be
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSocket{path: filepath.Join(dir, "s"), open: map[net.Conn]bool{}}
	if f.ln, err = net.Listen("unix", f.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.ln.Close()
		f.mu.Lock()
		for c := range f.open {
			c.Close()
		}
		f.mu.Unlock()
		f.wg.Wait()
		os.RemoveAll(dir)
	})
	f.wg.Go(func() {
		for {
			nc, err := f.ln.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.open[nc] = true
			p := &peer{Conn: nc, t: t, in: bufio.NewReader(nc), n: f.n}
			f.n++
			f.mu.Unlock()
			f.wg.Go(func() {
				defer func() {
					nc.Close()
					f.mu.Lock()
					delete(f.open, nc)
					f.mu.Unlock()
				}()
				if p.greeted() {
					serve(p)
				}
			})
		}
	})
	return f
}

// greeted answers auth and hello.
func (p *peer) greeted() bool {
	for range 2 {
		m := p.read()
		if m == nil {
			return false
		}
		if m["type"] == "auth" && m["api_key"] != "key" {
			p.write(`{"ok":false,"error":"no","code":"unauthenticated","id":"auth"}`)
			return false
		}
		p.write(fmt.Sprintf(`{"ok":true,"protocol":1,"id":%q}`, m["id"]))
	}
	return true
}

// read is the next message, or nil at the end.
func (p *peer) read() map[string]any {
	line, err := p.in.ReadString('\n')
	if err != nil {
		return nil
	}
	var m map[string]any
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		p.t.Errorf("the client sent no JSON: %v: %.200q", err, line)
		return nil
	}
	return m
}

func (p *peer) write(line string) { p.Write([]byte(line + "\n")) } //nolint:errcheck // the client may be gone

// reply answers m with an object, adding its id.
func (p *peer) reply(m map[string]any, object string) {
	id, _ := json.Marshal(m["id"])
	p.write(fmt.Sprintf(`{"id":%s,%s`, id, strings.TrimPrefix(object, "{")))
}
