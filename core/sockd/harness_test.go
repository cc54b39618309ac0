package sockd

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/limits"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

func TestMain(m *testing.M) {
	testkit.Prepare(testkit.InMemory())
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; a hang fails the test instead of stopping it.
const patience = 20 * time.Second

// toolName is a chain that answers with what the tool is called.
type toolName struct{}

func (toolName) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	effect, ok := sdk.ParseEffect(strings.ToUpper(c.ToolID))
	if !ok {
		return sdk.Verdict{}, errors.New("no such effect")
	}
	return sdk.Verdict{Effect: effect, Code: "TEST"}, nil
}

// finds is a scanner that finds nothing.
type finds struct{}

func (finds) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) { return nil, nil }
func (finds) About() chain.About                                        { return chain.About{} }

type silent struct{}

func (silent) Operated(string, string, sdk.Code, time.Duration)  {}
func (silent) Asked(string, string, string, bool, time.Duration) {}
func (silent) Refused(string, sdk.Code)                          {}
func (silent) Kept(string, string, string)                       {}

// gated refuses to record while broken is set, as a store on a full disk does.
type gated struct {
	ops.Store
	broken atomic.Bool
}

func (g *gated) Commit(ctx context.Context, cmd store.Command) error {
	if _, decides := cmd.(*store.Decide); decides && g.broken.Load() {
		return sdk.Errf(sdk.CodeAuditUnavailable, "nothing can be recorded, so nothing is permitted")
	}
	return g.Store.Commit(ctx, cmd)
}

// reply is an answer of a made-up operation.
type reply string

func (r reply) AppendJSON(dst []byte) []byte { return append(dst, r...) }

// rig is a socket in front of a real service on a real store, with made-up operations beside the real ones:
// echo answers at once with its member say, hold waits until the test lets it go, wait until it need not wait any more,
// list gives a long answer, lines is a subscription that the test feeds.
type rig struct {
	t      testing.TB
	store  *store.Store
	gate   *gated
	svc    *ops.Service
	s      *Server
	set    Settings
	logged syncText
	held   chan hold     // one for each hold or wait that runs
	giveUp chan struct{} // closed at the end: nothing is held any more
	feeds  chan *feed
	begun  atomic.Int64 // holds that were begun
	served chan error
}

type syncText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncText) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.WriteString(line + "\n")
}

func (s *syncText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "yk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func newService(t testing.TB, wrap func(ops.Store) ops.Store) (*store.Store, *ops.Service) {
	st, err := store.Open(store.Settings{Dir: t.TempDir(), Now: time.Now, NewID: func() string {
		return "sto_test"
	}, Secret: []byte("secret"), Log: t.Logf, OnFatal: func(err error) { t.Errorf("fatal: %v", err) }, Stall: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	gen := &ops.Generation{Policy: "p", Args: "digest",
		Scan: &chain.ScanChain{Budget: time.Minute, Now: time.Now,
			Steps: []chain.ScanStep{{Name: "none", Scanner: finds{}}}},
		Authorize: &chain.Authorizer{Budget: time.Minute, Now: time.Now, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "tool", Inline: true, OnError: sdk.Deny, Checker: toolName{}}}}}
	return st, ops.New(ops.Settings{Store: wrap(st), Generation: func() *ops.Generation {
		return gen
	}, Pepper: []byte("pepper"), Now: time.Now, Random: func(p []byte) { _, _ = rand.Read(p) },
		Limits: config.Limits{Name: 256, PendingPerKey: 100_000, LongPollsPerKey: 64},
		Defers: config.Defers{TTL: config.Duration(time.Minute), MaxTTL: config.Duration(time.Hour),
			ApprovedTTL: config.Duration(time.Hour)}, Observer: silent{}})
}

// newRig starts a server; change may change its settings first.
func newRig(t testing.TB, change func(r *rig, set *Settings)) *rig {
	r := &rig{t: t, held: make(chan hold, 4096), giveUp: make(chan struct{}), feeds: make(chan *feed, 16),
		served: make(chan error, 1)}
	r.store, r.svc = newService(t, func(s ops.Store) ops.Store {
		r.gate = &gated{Store: s}
		return r.gate
	})
	r.set = Settings{Service: r.svc, Table: r.table(), Path: filepath.Join(shortDir(t), "s"), Limits: limits.Default(t),
		look: time.Hour, Timeout: time.Minute, Now: time.Now, NewID: func() string {
			return "soc_1"
		}, Version: "1.2.3", Features: []string{"govern-half-close"},
		Log: func(format string, args ...any) { r.logged.add(fmt.Sprintf(format, args...)) }}
	r.set.Limits.Connections = 64
	if change != nil {
		change(r, &r.set)
	}
	r.start()
	t.Cleanup(func() {
		close(r.giveUp)
		r.stop()
	})
	return r
}

// hold is one hold or wait that runs.
type hold struct {
	n    string // of the message, or "wait"
	done chan struct{}
}

// holds waits for n holds and waits, and gives them by number.
func (r *rig) holds(n int) map[string]hold {
	r.t.Helper()
	out := map[string]hold{}
	for range n {
		h := next(r.t, r.held)
		out[h.n] = h
	}
	return out
}

func (r *rig) start() {
	var err error
	if r.s, err = Listen(r.set); err != nil {
		r.t.Fatal(err)
	}
	s := r.s
	go func() { r.served <- s.Serve() }()
}

// stop closes the server as its gateway would and checks that it went well. Again does nothing.
func (r *rig) stop() {
	if r.s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.s.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
	if ctx.Err() != nil {
		r.t.Error("the server had to cut connections off")
	}
	if err := <-r.served; err != nil {
		r.t.Errorf("serve: %v", err)
	}
	if _, err := os.Lstat(r.set.Path); !errors.Is(err, os.ErrNotExist) {
		r.t.Errorf("the socket's file is still there: %v", err)
	}
	r.s = nil
}

// table is the real one and the made-up operations.
func (r *rig) table() []ops.Op {
	run := func(fn func(*ops.Request) (ops.Response, error)) ops.Runner {
		return ops.Runner{Call: func(_ *ops.Service, q *ops.Request) (ops.Response, error) { return fn(q) }}
	}
	made := []ops.Op{
		{Name: "echo", Socket: true, Needs: sdk.ScopeAuthorize, Body: ops.ScanBody, Run: run(func(q *ops.Request) (ops.Response, error) {
			say := q.Body.Get("say")
			o := wire.Object(nil)
			if say.Exists() {
				o.Raw("said", []byte(say.Raw()))
			}
			return reply(o.Close()), nil
		})},
		{Name: "who", Socket: true, Needs: sdk.ScopeAuthorize, Run: run(func(q *ops.Request) (ops.Response, error) {
			o := wire.Object(nil)
			o.Str("key", q.Key.Name)
			o.Str("method", q.Who.Method)
			o.Str("surface", q.Who.Surface)
			o.Str("principal", q.Who.Principal)
			o.Str("peer", q.Who.Peer)
			o.Str("request_id", q.Who.RequestID)
			return reply(o.Close()), nil
		})},
		{Name: "hold", Socket: true, Needs: sdk.ScopeAuthorize, Run: run(func(q *ops.Request) (ops.Response, error) {
			h := hold{q.Body.Get("n").Raw(), make(chan struct{})}
			r.begun.Add(1)
			r.held <- h
			select {
			case <-h.done:
			case <-r.giveUp:
			}
			return reply(`{"held":` + h.n + `}`), nil
		})},
		{Name: "list", Socket: true, Method: "GET", Needs: sdk.ScopeAuthorize, Run: run(func(*ops.Request) (ops.Response, error) {
			return reply(`{"rows":"` + strings.Repeat("x", 600<<10) + `"}`), nil
		})},
		{Name: "wait", Socket: true, Needs: sdk.ScopeAuthorize, Run: run(func(q *ops.Request) (ops.Response, error) {
			r.held <- hold{n: "wait"}
			select {
			case <-q.Stopping:
				return reply(`{"waited":"stopping"}`), nil
			case <-q.Ctx.Done():
				return reply(`{"waited":"deadline"}`), nil
			}
		})},
		{Name: "broken", Socket: true, Decides: true, Needs: sdk.ScopeAuthorize, Run: run(func(*ops.Request) (ops.Response, error) { return nil, errors.New("a secret path") })},
		{Name: "nothing", Socket: true, Decides: true, Needs: sdk.ScopeAuthorize, Run: run(func(*ops.Request) (ops.Response, error) { return nil, nil })},
		{Name: "lines", Socket: true, Needs: sdk.ScopeAudit, Stream: ops.Opener{Open: func(_ *ops.Service, q *ops.Request) (ops.Stream, error) {
			f := &feed{text: make(chan []byte, 1), ended: make(chan struct{}), stopping: q.Stopping}
			r.feeds <- f
			return f, nil
		}}},
	}
	return append(made, ops.Table...)
}

// feed is a stream whose lines the test makes.
type feed struct {
	text     chan []byte
	stopping <-chan struct{}
	once     sync.Once
	ended    chan struct{}
}

func (f *feed) First() ops.Response { return &wire.SubscribeResponse{Subscribed: true, FromSeq: 1} }
func (f *feed) Closing() []byte     { return []byte("{\"type\":\"closing\",\"last_seq\":77}\n") }
func (f *feed) Close()              { f.once.Do(func() { close(f.ended) }) }

func (f *feed) Next(ctx context.Context) ([]byte, error) {
	select {
	case text, ok := <-f.text:
		if !ok {
			return []byte("{\"type\":\"over\"}\n"), io.EOF
		}
		return text, nil
	case <-f.stopping:
		return []byte("{\"type\":\"draining\"}\n"), io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *rig) key(name string, scopes ...string) *ops.NewKey {
	r.t.Helper()
	k, err := r.svc.CreateKey(context.Background(), ops.KeySpec{Name: name, Scopes: scopes}, adminWho)
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// client is one connection.
type client struct {
	t testing.TB
	*net.UnixConn
	r *bufio.Reader
}

func (r *rig) dial() *client {
	r.t.Helper()
	nc, err := net.Dial("unix", r.set.Path)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &client{r.t, nc.(*net.UnixConn), bufio.NewReaderSize(nc, 64<<10)}
	r.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// as dials and gives a key.
func (r *rig) as(value string) *client {
	r.t.Helper()
	c := r.dial()
	if got := c.ask(`{"type":"auth","api_key":"` + value + `"}`); !strings.HasPrefix(got, `{"ok":true,`) {
		r.t.Fatalf("auth: %s", got)
	}
	return c
}

// write sends text as it is.
func (c *client) write(text string) {
	c.t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// line reads one line, without its end.
func (c *client) line() string {
	c.t.Helper()
	text, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatalf("read: %v after %q", err, text)
	}
	if !json.Valid([]byte(text)) {
		c.t.Fatalf("no JSON: %q", text)
	}
	return strings.TrimSuffix(text, "\n")
}

// ask sends a line and reads the answer.
func (c *client) ask(line string) string {
	c.t.Helper()
	c.write(line + "\n")
	return c.line()
}

// end wants the end of what the server sends.
func (c *client) end() {
	c.t.Helper()
	if text, err := c.r.ReadString('\n'); err == nil || text != "" || !errors.Is(err, io.EOF) {
		c.t.Fatalf("want the end, got %q, %v", text, err)
	}
}

func (r *rig) revoke(id string) error {
	return r.svc.RevokeKey(context.Background(), id, adminWho)
}

// quoted is s as a JSON string.
func quoted(s string) string { return string(exact.AppendString(nil, s)) }

// tableNames are the names of the real operations on the socket, as hello lists them.
func (r *rig) tableNames() string {
	var names []string
	for _, op := range ops.Table {
		if op.Socket {
			names = append(names, quoted(op.Name))
		}
	}
	return strings.Join(names, ",")
}

var adminWho = store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}
