package ops_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// stage is a service whose chain and scanner a test changes as it goes, on a store that can be opened again.
type stage struct {
	t        testing.TB
	dir      string
	store    *store.Store
	svc      *ops.Service
	now      atomic.Int64
	verdict  atomic.Pointer[func(c *chain.Call) (sdk.Verdict, error)]
	scan     atomic.Pointer[error] // what the scanner fails with
	stumbles atomic.Pointer[stumble]
	during   atomic.Pointer[func()] // runs once in the next scan
	asked    atomic.Int64
	policy   func(string) (*chain.Authorizer, error)
	args     string // the audit policy; "" is digest
	outside  bool   // the step is not ours: what it says is masked
}

// stumble is a text on which the scanner fails, and how.
type stumble struct {
	on  string
	err error
}

// secret is what the stage's scanner finds; it has no form of a real one.
const secret = "SESAME-77"

// Check answers as the test says; else with what the tool is called.
func (s *stage) Check(ctx context.Context, c *chain.Call) (sdk.Verdict, error) {
	s.asked.Add(1)
	if fn := s.verdict.Load(); fn != nil {
		return (*fn)(c)
	}
	v, err := toolName{}.Check(ctx, c)
	v.RuleID, v.Reason = "rule-"+c.ToolID, "the tool is called so"
	return v, err
}

func (s *stage) says(v sdk.Verdict) {
	fn := func(*chain.Call) (sdk.Verdict, error) { return v, nil }
	s.verdict.Store(&fn)
}

func (s *stage) About() chain.About { return chain.About{} }

func (s *stage) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	if fn := s.during.Swap(nil); fn != nil {
		(*fn)()
	}
	if err := s.scan.Load(); err != nil && *err != nil {
		return nil, *err
	}
	if at := s.stumbles.Load(); at != nil && strings.Contains(in.Text, at.on) {
		return nil, at.err
	}
	var out []sdk.Finding
	for at := 0; ; {
		i := strings.Index(in.Text[at:], secret)
		if i < 0 {
			return out, nil
		}
		at += i
		out = append(out, sdk.Finding{Kind: "SECRET_TEST", Scanner: "stage", Start: at, End: at + len(secret), Confidence: 1,
			Severity: sdk.High})
		at += len(secret)
	}
}

func newStage(t testing.TB) *stage {
	s := &stage{t: t, dir: t.TempDir()}
	s.now.Store(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	s.open()
	t.Cleanup(s.close)
	return s
}

func (s *stage) clock() time.Time        { return time.Unix(0, s.now.Load()).UTC() }
func (s *stage) advance(d time.Duration) { s.now.Add(int64(d)) }

func (s *stage) open() {
	var err error
	s.store, err = store.Open(store.Settings{Dir: s.dir, Now: s.clock, NewID: func() string {
		return "sto_test"
	}, Secret: []byte("secret"), Log: s.t.Logf, OnFatal: func(err error) {
		s.t.Errorf("fatal: %v", err)
	}, Stall: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	gen := &ops.Generation{Policy: "policy-1", Args: cmp.Or(s.args, "digest"),
		Scan: &chain.ScanChain{Keys: ops.KeysIn, Budget: time.Minute, Now: s.clock,
			Steps:   []chain.ScanStep{{Name: "stage", OnError: sdk.Deny, Scanner: s}},
			Actions: []chain.ActionRule{{Tools: []string{"deny-result"}, Action: sdk.Drop}}},
		Authorize: &chain.Authorizer{Budget: time.Minute, Now: s.clock, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "stage", Inline: !s.outside, OnError: sdk.Deny, Checker: s}}}}
	gen.Authorize.Said = gen.Scan
	s.svc = ops.New(ops.Settings{Store: s.store, Generation: func() *ops.Generation {
		return gen
	}, Pepper: []byte("pepper"), Now: s.clock, Random: func(p []byte) { _, _ = rand.Read(p) },
		Limits: config.Limits{Name: 256, PendingPerKey: 1000, LongPollsPerKey: 64, Grants: 100, StreamsPerKey: 4,
			ScanStreams: 4, ScanStream: 64, ScanStreamsAll: 1 << 20, ScanIdle: config.Duration(time.Minute)},
		ScanShare: 1 << 20,
		Defers: config.Defers{TTL: config.Duration(5 * time.Minute), MaxTTL: config.Duration(time.Hour),
			ApprovedTTL: config.Duration(5 * time.Minute)},
		Observer: silent{}, Version: "9.9", Log: s.store, Policy: func(text string) (*chain.Authorizer, error) {
			return s.policy(text)
		}})
}

func (s *stage) close() {
	s.svc.Close()
	replay(s.t, s.store, nil)
	if err := s.store.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *stage) restart() {
	s.close()
	s.open()
}

// key makes a key and gives its id.
func (s *stage) key(name, preset string, agents ...string) string {
	s.t.Helper()
	k, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: name, Preset: preset, Agents: agents}, admin)
	if err != nil {
		s.t.Fatal(err)
	}
	return k.Key.ID
}

// req is one request.
type req struct {
	key, op, id, body, idem string
	query                   [][2]string
}

func opNamed(t testing.TB, name string) *ops.Op {
	for i := range ops.Table {
		if ops.Table[i].Name == name {
			return &ops.Table[i]
		}
	}
	t.Fatalf("no operation %s", name)
	return nil
}

func (s *stage) request(q req) *ops.Request {
	s.t.Helper()
	key, err := s.svc.KeyByID(q.key)
	if err != nil {
		s.t.Fatal(err)
	}
	if q.body == "" {
		q.body = "{}"
	}
	var doc exact.Doc
	if err := doc.Parse(q.body, exact.DefaultLimits); err != nil {
		s.t.Fatal(err)
	}
	r := &ops.Request{Ctx: context.Background(), Key: key,
		Who: store.Who{Principal: key.ID, Method: "api_key", Surface: "http"}, Start: s.clock(), Body: doc.Root(),
		Raw: q.body, Idempotency: q.idem}
	if q.id != "" {
		r.Params = append(r.Params, wire.Param{Name: "id", Value: q.id, InPath: true})
	}
	for _, p := range q.query {
		r.Params = append(r.Params, wire.Param{Name: p[0], Value: p[1]})
	}
	return r
}

func (s *stage) do(q req) (string, error) {
	s.t.Helper()
	resp, err := s.svc.Run(opNamed(s.t, q.op), s.request(q))
	var replay *ops.Replay
	if errors.As(err, &replay) {
		return string(replay.Answer), nil
	}
	if err != nil {
		return "", err
	}
	return string(resp.AppendJSON(nil)), nil
}

// act is an action as a client reads it.
type act struct {
	ID, Status, Decision, Outcome, Reason, Tool, Operation string
	Digest                                                 string
	Modified                                               bool
	Risk                                                   string          `json:"risk_level"`
	Code                                                   string          `json:"reason_code"`
	Token                                                  string          `json:"approval_token"`
	Params, Context                                        json.RawMessage `json:",omitempty"`
	RequestHash                                            string          `json:"request_hash"`
	Provenance                                             string          `json:"provenance_id"`
	Version                                                string          `json:"runtime_version"`
	Policy                                                 string          `json:"policy_hash"`
	Result                                                 *struct {
		Success                        bool
		Error, Outcome, Withheld, Code string
		Value                          json.RawMessage
	}
}

func (s *stage) action(q req) act {
	s.t.Helper()
	text, err := s.do(q)
	if err != nil {
		s.t.Fatalf("%s: %v", q.op, err)
	}
	return readAct(s.t, text)
}

func readAct(t testing.TB, text string) (a act) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

func (s *stage) refused(q req, want sdk.Code) string {
	s.t.Helper()
	text, err := s.do(q)
	if code(err) != string(want) {
		s.t.Fatalf("%s: got %q %s, want %s", q.op, code(err), text, want)
	}
	return err.Error()
}

func body(tool, params string) string {
	return fmt.Sprintf(`{"agent_id":"a","tool":%q,"operation":"","params":%s,"context":{}}`, tool, params)
}

func submit(key, tool, params string) req {
	return req{key: key, op: "action_submit", body: body(tool, params)}
}
