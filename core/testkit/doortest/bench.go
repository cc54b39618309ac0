// Package doortest gives tests of doors a small gateway in their own process: a real store, the real operations, one
// rule that goes by the name of the tool, and one scanner that goes by words in the text. Only tests import it. It must
// never answer in the place of the operations.
package doortest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit/limits"
	"github.com/yett-dev/yett/sdk"
)

// The words that the rule finds in a tool's full name: such a call is denied, deferred, or cannot be decided. Any other
// is permitted.
const (
	Denied   = "deny"
	Deferred = "defer"
	Fails    = "fails"
	Never    = "never" // every call is denied, and the rule says so without one
)

// The words that the scanner finds in a text.
const (
	Secret    = "S3CR3T" // is redacted to Mask
	Forbidden = "F0RB1D" // the text is denied
	Flagged   = "FL4GG3D"
	Late      = "L4T3" // the scanner does not end in time
	Mask      = "[hidden]"
)

// Bench is a service on a real store.
type Bench struct {
	Service *ops.Service
	Store   *store.Store
	Asker   *ask.Asker
	Limits  config.Limits

	t      testing.TB
	offset atomic.Int64
	broken atomic.Bool
	mu     sync.Mutex
	calls  []string
}

// Now is the bench's clock.
func (b *Bench) Now() time.Time { return time.Now().Add(time.Duration(b.offset.Load())) }

// Advance sets the clock ahead.
func (b *Bench) Advance(d time.Duration) { b.offset.Add(int64(d)) }

// BreakStore lets no record be written from here on, or again, as a disk that fails.
func (b *Bench) BreakStore(broken bool) { b.broken.Store(broken) }

// Calls are the calls that the rule has seen since the start: tool, a space, and the args in canonical form.
func (b *Bench) Calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.calls...)
}

// Operator is who made the keys.
var Operator = store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}

// New opens a store in a new directory.
func New(t testing.TB) *Bench {
	t.Helper()
	return WithRule(t, nil)
}

// WithRule is New with a rule in place of the one that goes by the name of the tool; nil keeps that one.
func WithRule(t testing.TB, rule chain.Checker) *Bench {
	t.Helper()
	b := &Bench{t: t, Limits: limits.Default(t)}
	var err error
	b.Store, err = store.Open(store.Settings{Dir: t.TempDir(), Now: b.Now, NewID: func() string { return "sto_test" },
		Secret: []byte("secret"), Log: t.Logf, OnFatal: func(err error) { t.Errorf("fatal: %v", err) }, Stall: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	if rule == nil {
		rule = names{b}
	}
	gen := &ops.Generation{Policy: "p", Args: "digest",
		Scan: &chain.ScanChain{Keys: ops.KeysIn, Budget: 300 * time.Millisecond, Now: b.Now,
			Actions: []chain.ActionRule{{Kinds: []string{"SECRET"}, Action: sdk.Redact, Replacement: Mask},
				{Kinds: []string{"FORBIDDEN"}, Action: sdk.Drop}, {Kinds: []string{"FLAGGED"}, Action: sdk.Flag}},
			Steps: []chain.ScanStep{{Name: "words", OnError: sdk.Deny, Scanner: words{}}}},
		Authorize: &chain.Authorizer{Budget: time.Hour, Now: b.Now, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "names", Inline: true, OnError: sdk.Deny, Checker: rule}}}}
	b.Service = ops.New(ops.Settings{Store: breakable{b.Store, b}, Generation: func() *ops.Generation { return gen },
		Pepper: []byte("pepper"), Now: b.Now, Random: func(p []byte) { _, _ = rand.Read(p) }, Limits: b.Limits,
		Defers: config.Defers{TTL: config.Duration(5 * time.Minute), MaxTTL: config.Duration(time.Hour),
			ApprovedTTL: config.Duration(5 * time.Minute)},
		Match:    func(string) (ops.Matcher, error) { return nil, errors.New("the bench has no conditions") },
		Policy:   func(string) (*chain.Authorizer, error) { return gen.Authorize, nil },
		Observer: silent{}, Log: b.Store})
	t.Cleanup(b.Service.Close)
	b.Asker = ask.New(ask.Settings{Operations: b.Service, Limits: b.Limits, Now: b.Now, Timeout: 75 * time.Second})
	return b
}

// Key makes a key with a preset (agent, approver, operator, auditor) and gives its value.
func (b *Bench) Key(name, preset string) *ops.NewKey {
	b.t.Helper()
	k, err := b.Service.CreateKey(context.Background(), ops.KeySpec{Name: name, Preset: preset}, Operator)
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

// Revoke ends a key.
func (b *Bench) Revoke(k *ops.NewKey) {
	b.t.Helper()
	if err := b.Service.RevokeKey(context.Background(), k.Key.ID, Operator); err != nil {
		b.t.Fatal(err)
	}
}

// AnswerPending approves or denies every call that waits, as an operator does, and says how many there were.
func (b *Bench) AnswerPending(approve bool) int {
	b.t.Helper()
	ctx, op := context.Background(), store.Operator{Name: "ada", Role: store.RoleAdmin}
	waiting, _, err := b.Service.Waiting(ctx, op, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range waiting {
		shown, err := b.Service.Deferral(ctx, waiting[i].DecisionID)
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.Service.AnswerAs(ctx, op, Operator, ops.Answer{Decision: waiting[i].DecisionID, Approved: approve,
			Digest: shown.Digest}); err != nil {
			b.t.Fatal(err)
		}
	}
	return len(waiting)
}

// names decides by the tool's name.
type names struct{ b *Bench }

// Check implements chain.Checker.
func (n names) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	n.b.mu.Lock()
	n.b.calls = append(n.b.calls, c.ToolID+" "+string(c.Args.AppendCanonical(nil)))
	n.b.mu.Unlock()
	v := sdk.Verdict{Effect: sdk.Permit, Code: "NAME", Reason: "by the name of the tool"}
	switch {
	case strings.Contains(c.ToolID, Fails):
		return v, errors.New("the rule cannot decide")
	case strings.Contains(c.ToolID, Denied), strings.Contains(c.ToolID, Never):
		v.Effect = sdk.Deny
	case strings.Contains(c.ToolID, Deferred):
		v.Effect = sdk.Defer
	}
	return v, nil
}

var kinds = [...]struct{ word, kind string }{{Secret, "SECRET"}, {Forbidden, "FORBIDDEN"}, {Flagged, "FLAGGED"}}

// Foresee implements chain.Foreseer.
func (names) Foresee(_, tool string) (may, silent bool) { return !strings.Contains(tool, Never), false }

// words finds the bench's words.
type words struct{}

// About implements chain.Scanner.
func (words) About() chain.About { return chain.About{} }

// Scan implements chain.Scanner.
func (words) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	if strings.Contains(in.Text, Late) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var out []sdk.Finding
	for _, w := range kinds {
		for at := 0; ; {
			i := strings.Index(in.Text[at:], w.word)
			if i < 0 {
				break
			}
			at += i + len(w.word)
			out = append(out, sdk.Finding{Kind: w.kind, Scanner: "words", Start: at - len(w.word), End: at, Confidence: 1,
				Severity: sdk.High})
		}
	}
	return out, nil
}

// breakable is a store that can be broken.
type breakable struct {
	ops.Store

	b *Bench
}

// Commit implements ops.Store.
func (s breakable) Commit(ctx context.Context, cmd store.Command) error {
	if s.b.broken.Load() {
		return sdk.Errf(sdk.CodeAuditUnavailable, "the disk of the test is broken")
	}
	return s.Store.Commit(ctx, cmd)
}

// silent observes nothing.
type silent struct{}

func (silent) Operated(string, string, sdk.Code, time.Duration)  {}
func (silent) Asked(string, string, string, bool, time.Duration) {}
func (silent) Refused(string, sdk.Code)                          {}
func (silent) Kept(string, string, string)                       {}
