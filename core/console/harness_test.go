package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// cheap makes tests fast; TestStandardCost looks at the real one.
var cheap = cost{passes: 1, memory: 8, threads: 1}

const (
	here     = "127.0.0.1:8422"
	password = "correct horse battery"
)

// desk is a console on a real store, with a clock that the test moves.
type desk struct {
	t     *testing.T
	dir   string
	store *store.Store
	ops   *ops.Service
	state *faulty
	c     *Console
	rack  rack
	gen   *ops.Generation

	mu   sync.Mutex
	now  time.Time
	logs strings.Builder
}

// faulty is the store's state, which a test can break.
type faulty struct {
	State
	start, end error
}

func (f *faulty) StartSession(ctx context.Context, sess store.Session, replaces *[32]byte, by store.Who) error {
	if f.start != nil {
		return f.start
	}
	return f.State.StartSession(ctx, sess, replaces, by)
}

func (f *faulty) EndSession(ctx context.Context, id [32]byte, why string, by store.Who) error {
	return errors.Join(f.State.EndSession(ctx, id, why, by), f.end)
}

func newDesk(t *testing.T, change ...func(*Settings)) *desk {
	d := &desk{t: t, dir: t.TempDir(), now: time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)}
	d.open(change...)
	t.Cleanup(d.close)
	return d
}

// rack are the plugins that a desk shows.
type rack struct {
	plugins []status.Plugin
	config  Config
	resumed []string
	err     error
}

func (r *rack) Plugins() []status.Plugin { return r.plugins }
func (r *rack) Config() Config           { return r.config }

func (r *rack) ResumePlugin(_ context.Context, by store.Who, name string, skip bool) error {
	r.resumed = append(r.resumed, fmt.Sprint(name, " ", skip, " ", by.Principal))
	return r.err
}

type silent struct{}

func (silent) Operated(string, string, sdk.Code, time.Duration)  {}
func (silent) Asked(string, string, string, bool, time.Duration) {}
func (silent) Refused(string, sdk.Code)                          {}
func (silent) Kept(string, string, string)                       {}

// verdict is what the desk's chain says to every call.
type verdict struct{ sdk.Verdict }

func (v verdict) Check(context.Context, *chain.Call) (sdk.Verdict, error) { return v.Verdict, nil }

// mask is a scanner that finds one word.
type mask struct{}

const masked = "hush-hush"

// unmaskable is what the scanner fails at.
const unmaskable = "jam-jam"

func (mask) About() chain.About { return chain.About{} }

func (mask) Scan(_ context.Context, in *chain.Input) (out []sdk.Finding, err error) {
	if strings.Contains(in.Text, unmaskable) {
		return nil, errors.New("jammed")
	}
	if i := strings.Index(in.Text, masked); i >= 0 {
		out = append(out, sdk.Finding{Kind: "SECRET_TEST", Start: i, End: i + len(masked), Confidence: 1, Severity: sdk.High})
	}
	return out, nil
}

// rule makes the chain of the desk say that.
func (d *desk) rule(v sdk.Verdict) {
	d.gen = &ops.Generation{Policy: "p", Args: "redacted",
		Authorize: &chain.Authorizer{Budget: time.Minute, Now: time.Now, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "rule", Inline: true, OnError: sdk.Deny, Checker: verdict{v}}}},
		Scan: &chain.ScanChain{Budget: time.Minute, Now: time.Now,
			Steps:   []chain.ScanStep{{Name: "mask", OnError: sdk.Deny, Scanner: mask{}}},
			Actions: []chain.ActionRule{{Action: sdk.Redact, Replacement: "[SECRET_TEST]"}}}}
}

// waits is a rule that defers.
var waits = sdk.Verdict{Effect: sdk.Defer, Code: "RULE_DEFER", Reason: "money moves", RuleID: "money"}

// run runs an operation of the API with a key.
func (d *desk) run(k *store.Key, op, body string) (map[string]any, error) {
	d.t.Helper()
	var doc exact.Doc
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		d.t.Fatal(err)
	}
	i := slices.IndexFunc(ops.Table, func(o ops.Op) bool { return o.Name == op })
	resp, err := d.ops.Run(&ops.Table[i], &ops.Request{Ctx: context.Background(), Key: k,
		Who: store.Who{Principal: k.ID, Method: "api_key", Surface: "http"}, Start: d.clock(), Body: doc.Root(), Raw: body})
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := json.Unmarshal(resp.AppendJSON(nil), &out); err != nil {
		d.t.Fatal(err)
	}
	return out, nil
}

// key makes an API key.
func (d *desk) key(name, preset string, agents ...string) *store.Key {
	d.t.Helper()
	k, err := d.ops.CreateKey(context.Background(), ops.KeySpec{Name: name, Preset: preset, Agents: agents},
		store.Who{Principal: "admin:0"})
	if err != nil {
		d.t.Fatal(err)
	}
	return k.Key
}

// asks lets a key ask for a call that is deferred, and gives the id of the decision and the token.
func (d *desk) asks(k *store.Key, rest string) (decision, token string) {
	d.t.Helper()
	a, err := d.run(k, "authorize", `{"agent_id":"bot","session_id":"s-1","tool_id":"payments/refund"`+rest+`}`)
	if err != nil || a["effect"] != "DEFER" {
		d.t.Fatalf("not deferred: %v %v", a, err)
	}
	return a["decision_id"].(string), a["defer_token"].(string)
}

func (d *desk) open(change ...func(*Settings)) {
	d.t.Helper()
	random := func(b []byte) { _, _ = rand.Read(b) }
	var err error
	d.store, err = store.Open(store.Settings{Dir: d.dir, Now: d.clock, NewID: func() string {
		return "sto_test"
	}, Secret: []byte("secret"), Log: d.log, Stall: time.Hour})
	if err != nil {
		d.t.Fatal(err)
	}
	people, err := store.LoadOperators(context.Background(), d.store)
	if err != nil {
		d.t.Fatal(err)
	}
	d.state = &faulty{State: people}
	d.ops = ops.New(ops.Settings{Store: d.store, Generation: func() *ops.Generation {
		return d.gen
	}, Pepper: []byte("pepper"), Now: d.clock, Random: random, Observer: silent{},
		Limits: config.Limits{Name: 256, PendingPerKey: 1000, Grants: 10},
		Defers: config.Defers{TTL: config.Duration(5 * time.Minute), MaxTTL: config.Duration(time.Hour),
			ApprovedTTL: config.Duration(5 * time.Minute)}})
	set := Settings{Keys: d.ops, Approvals: d.ops, Plugins: &d.rack, State: d.state, Now: d.clock, Random: random,
		Log: d.log, Version: "test"}
	for _, fn := range change {
		fn(&set)
	}
	d.rule(waits)
	d.c = New(set)
	d.c.vault = newVault(cheap, random)
}

func (d *desk) close() {
	d.t.Helper()
	if err := errors.Join(d.c.Close(context.Background()), d.store.Close()); err != nil {
		d.t.Error(err)
	}
}

func (d *desk) restart() { d.t.Helper(); d.close(); d.open() }

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *desk) log(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(&d.logs, format+"\n", args...)
}

func (d *desk) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logs.String()
}

// add makes an operator behind the console's back.
func (d *desk) add(name, role string) {
	d.t.Helper()
	phc, err := d.c.vault.hash(context.Background(), password)
	if err != nil {
		d.t.Fatal(err)
	}
	people := d.state.State.(*store.Operators)
	op := store.Operator{Name: name, Role: role, Hash: phc, CreatedAt: d.clock(), CreatedBy: "console:" + name}
	if err := d.store.Commit(context.Background(),
		&store.PutOperator{In: people, Operator: op, By: store.Who{Principal: "system"}}); err != nil {
		d.t.Fatal(err)
	}
}

// audit is all records of that type, "" for all.
func (d *desk) audit(typ string) (out []map[string]any) {
	d.t.Helper()
	err := d.store.Records(1, func(_ uint64, rec []byte) error {
		var m map[string]any
		err := json.Unmarshal(rec, &m)
		if err == nil && (typ == "" || m["type"] == typ) {
			out = append(out, m)
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// browser sends requests as a browser on one of the console's pages would.
type browser struct {
	d       *desk
	cookie  string
	device  string // the device cookie
	address string
	host    string
	local   net.IP
	header  http.Header
	seen    []*answer
}

func (d *desk) browser() *browser {
	return &browser{d: d, address: "127.0.0.1:50000", host: here, local: net.IPv4(127, 0, 0, 1), header: http.Header{}}
}

// as is a browser in which that operator has just signed in.
func (d *desk) as(name, role string) *browser {
	d.t.Helper()
	if _, ok := d.state.Operator(name); !ok {
		d.add(name, role)
	}
	b := d.browser()
	if a := b.signIn(name, password); a.status != http.StatusSeeOther {
		d.t.Fatalf("sign in as %s: %d %s", name, a.status, a.body)
	}
	return b
}

func (b *browser) signIn(name, pw string) *answer {
	return b.post("/signin", "name", name, "password", pw)
}

// answer is what came back.
type answer struct {
	method, path string
	status       int
	header       http.Header
	body         string
}

func (b *browser) get(path string) *answer { return b.send("GET", path, "", "") }

func (b *browser) post(path string, fields ...string) *answer {
	f := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		f.Add(fields[i], fields[i+1])
	}
	return b.send("POST", path, "application/x-www-form-urlencoded", f.Encode())
}

func (b *browser) send(method, path, kind, body string) *answer {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
		net.Addr(&net.TCPAddr{IP: b.local, Port: 8422})))
	r.Host, r.RemoteAddr = b.host, b.address
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if b.cookie != "" {
		r.Header.Set("Cookie", cookieName+"="+b.cookie)
	}
	if b.device != "" {
		r.AddCookie(&http.Cookie{Name: deviceCookie, Value: b.device})
	}
	for name, values := range b.header {
		r.Header.Del(name)
		for _, v := range values {
			if v != "" {
				r.Header.Add(name, v)
			}
		}
	}
	w := httptest.NewRecorder()
	b.d.c.ServeHTTP(w, r)
	res := w.Result()
	for _, c := range res.Cookies() {
		if c.Name == cookieName {
			b.cookie = c.Value
		}
		if c.Name == deviceCookie {
			b.device = c.Value
		}
	}
	a := &answer{method, path, res.StatusCode, res.Header, w.Body.String()}
	b.seen = append(b.seen, a)
	return a
}

// is checks status and that the body holds all of the texts.
func (a *answer) is(t *testing.T, status int, texts ...string) *answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s %s: status %d, want %d\n%s", a.method, a.path, a.status, status, a.body)
	}
	for _, s := range texts {
		if !strings.Contains(a.body, s) {
			t.Errorf("%s %s: the page does not say %q\n%s", a.method, a.path, s, a.body)
		}
	}
	return a
}

// to checks for a redirect.
func (a *answer) to(t *testing.T, place string) {
	t.Helper()
	if a.status != http.StatusSeeOther || a.header.Get("Location") != place {
		t.Fatalf("%s %s: %d to %q, want 303 to %q\n%s", a.method, a.path, a.status, a.header.Get("Location"), place, a.body)
	}
}

// lacks checks that the body holds none of the texts.
func (a *answer) lacks(t *testing.T, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if strings.Contains(a.body, s) {
			t.Errorf("%s %s: the page says %q\n%s", a.method, a.path, s, a.body)
		}
	}
}

// valueOf is the key's value on the page that shows it.
func (a *answer) valueOf(t *testing.T) string {
	t.Helper()
	_, rest, ok := strings.Cut(a.body, `<textarea id="value"`)
	_, rest, _ = strings.Cut(rest, ">")
	value, _, ok2 := strings.Cut(rest, "<")
	if !ok || !ok2 || !strings.HasPrefix(value, "yett_") {
		t.Fatalf("%s %s: no value on the page\n%s", a.method, a.path, a.body)
	}
	return value
}

// keyNamed is the id of the live key with that name.
func (d *desk) keyNamed(name string) *store.Key {
	d.t.Helper()
	for _, k := range d.ops.Keys() {
		if k.Name == name && k.Revocation() == nil {
			return k
		}
	}
	d.t.Fatalf("there is no live key %q", name)
	return nil
}
