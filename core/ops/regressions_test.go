package ops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// TestStartAsksTheRulesOfToday: a start was taken for a repeat of the submission, so only a denial of today counted.
func TestStartAsksTheRulesOfToday(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	says := func(e sdk.Effect) {
		fn := func(*chain.Call) (sdk.Verdict, error) { return sdk.Verdict{Effect: e, Code: "TEST"}, nil }
		s.verdict.Store(&fn)
	}
	says(sdk.Permit)
	a := s.action(submit(agent, "x", `{"n":1}`))
	says(sdk.Defer)
	if got := s.action(req{key: agent, op: "action_start", id: a.ID}); got.Status != "pending_approval" ||
		got.Token == "" {
		t.Fatalf("rules defer it today: %+v", got)
	}
	got := s.action(req{key: agent, op: "action_get", id: a.ID})
	s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, got.Token)})
	if got := s.action(req{key: agent, op: "action_start", id: a.ID}); got.Status != "executing" {
		t.Errorf("approved and started: %+v", got)
	}

	grant := func(n int) string {
		text, err := s.do(req{key: boss, op: "standing_grant_add",
			body: fmt.Sprintf(`{"agent_id":"a","tool_pattern":"**","ttl_seconds":60,"max_uses":%d}`, n)})
		if err != nil {
			t.Fatal(err)
		}
		return member(text, "id")
	}
	grant(1)
	b := s.action(submit(agent, "x", `{"n":2}`))
	if got := s.action(req{key: agent, op: "action_start", id: b.ID}); b.Status != "allowed" || got.Status != "executing" {
		t.Errorf("its grant was spent when it was submitted, and not again: %s, then %+v", b.Status, got)
	}
	id := grant(5)
	c := s.action(submit(agent, "x", `{"n":3}`))
	if _, err := s.do(req{key: boss, op: "standing_grant_revoke", body: fmt.Sprintf(`{"grant_id":%q}`, id)}); err != nil {
		t.Fatal(err)
	}
	if got := s.action(req{key: agent, op: "action_start", id: c.ID}); c.Status != "allowed" ||
		got.Status != "pending_approval" {
		t.Errorf("its grant was revoked before it was started: %s, then %+v", c.Status, got)
	}
}

// TestKeyValuesAreKeptNowhere: a raw key came into the log by operation, into what approvers see by args, and into a
// key's own row.
func TestKeyValuesAreKeptNowhere(t *testing.T) {
	b := newBench(t, nil)
	k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve")
	b.fails(k.Value, "authorize", fmt.Sprintf(`{"agent_id":"bot","tool_id":"permit/x","operation":%q}`, k.Value),
		"invalid_field")
	for _, args := range []string{`{"a":"x %s y"}`, `{"%s":1}`, `{"a":["%s"]}`} {
		b.deferred(k.Value, `,"args":`+fmt.Sprintf(args, k.Value)+`,"context":`+fmt.Sprintf(args, k.Value))
	}
	if list := b.must(boss.Value, "approvals_list", `{}`); strings.Contains(list, k.Value) ||
		strings.Count(list, `[YETT_API_KEY: 67 characters`) != 6 {
		t.Errorf("what approvers see: %s", list)
	}
	for _, spec := range []ops.KeySpec{{Name: k.Value}, {Name: "n", Note: "was " + k.Value},
		{Name: "n", Environment: k.Value}, {Name: "n", Agents: []string{k.Value}}} {
		if _, err := b.svc.CreateKey(context.Background(), spec, admin); code(err) != "invalid_field" {
			t.Errorf("a key made with the value of another: %v", err)
		}
	}
	err := b.store.Records(1, func(_ uint64, record []byte) error {
		if strings.Contains(string(record), k.Value) {
			t.Errorf("in the log: %s", record)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestGrantOfAnApprovalIsForItsOperation: an approver who saw "read" opened every operation of the tool.
func TestGrantOfAnApprovalIsForItsOperation(t *testing.T) {
	b := newBench(t, nil)
	k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve", "grants")
	ask := func(operation string) string {
		return b.must(k.Value, "authorize", fmt.Sprintf(`{"agent_id":"bot","tool_id":"defer/x","operation":%q}`, operation))
	}
	b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"grant":{"ttl_seconds":60}}`,
		member(ask("read"), "defer_token")))
	if got := ask("write"); member(got, "effect") != "DEFER" {
		t.Errorf("another operation: %s", got)
	}
	if got := ask("read"); member(got, "reason_code") != "STANDING_APPROVAL_CONSUMED" {
		t.Errorf("the same operation: %s", got)
	}
}

// TestTwoSpellingsOfATool are one call: who joins by one can redeem by the other.
func TestTwoSpellingsOfATool(t *testing.T) {
	b := newBench(t, nil)
	k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve", "kill")
	long := `{"agent_id":"bot","tool_id":"defer/x"%s}`
	short := `{"agent_id":"bot","tool_id":"defer","operation":"x"%s}`
	token := member(b.must(k.Value, "authorize", fmt.Sprintf(long, "")), "defer_token")
	if got := member(b.must(k.Value, "authorize", fmt.Sprintf(short, "")), "defer_token"); got != token {
		t.Errorf("two spellings wait apart: %s %s", token, got)
	}
	b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true}`, token))
	if got := b.must(k.Value, "authorize", fmt.Sprintf(short, fmt.Sprintf(`,"defer_token":%q`, token))); member(got,
		"reason_code") != "APPROVAL_CONSUMED" {
		t.Errorf("redeemed by the other spelling: %s", got)
	}
	b.must(boss.Value, "kill", `{"scope":"tool","target":"defer"}`)
	if got := b.must(k.Value, "authorize", fmt.Sprintf(short, "")); member(got, "reason_code") != "KILL_SWITCH_ACTIVE" {
		t.Errorf("a kill of the tool that operators see: %s", got)
	}
	if got := b.must(k.Value, "authorize", `{"agent_id":"bot","tool_id":"deferred"}`); member(got, "reason_code") ==
		"KILL_SWITCH_ACTIVE" {
		t.Errorf("another tool that begins alike: %s", got)
	}
}

// TestRollingAKeyChangesNoCount: loop forgot what was counted, because the digest names the key.
func TestRollingAKeyChangesNoCount(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	fn := func(*chain.Call) (sdk.Verdict, error) {
		return sdk.Verdict{Effect: sdk.Permit, Code: "TEST",
			Limits: []sdk.Limit{{Kind: sdk.LimitLoop, Rule: "r", Window: time.Hour, Amount: "1", Max: "1"}}}, nil
	}
	s.verdict.Store(&fn)
	ask := func(key, want string) {
		t.Helper()
		text, err := s.do(req{key: key, op: "authorize", body: `{"agent_id":"a","tool_id":"x"}`})
		if err != nil || member(text, "reason_code") != want {
			t.Errorf("got %v %s, want %s", err, text, want)
		}
	}
	ask(agent, "TEST")
	ask(agent, "LOOP_DETECTED")
	n, err := s.svc.RollKey(context.Background(), agent, 0, admin)
	if err != nil {
		t.Fatal(err)
	}
	ask(n.Key.ID, "LOOP_DETECTED")
}

// TestPendingCallsEndWithTheKeyThatAsked, also when it ends by itself: a rolled key's grace, an expiry.
func TestPendingCallsEndWithTheKeyThatAsked(t *testing.T) {
	s := newStage(t)
	rolled, boss := s.key("rolled", "agent"), s.key("boss", "approver")
	brief, err := s.svc.CreateKey(context.Background(),
		ops.KeySpec{Name: "brief", Preset: "agent", ExpiresAt: s.clock().Add(30 * time.Second)}, admin)
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.action(submit(rolled, "defer", `{"n":1}`)), s.action(submit(brief.Key.ID, "defer", `{"n":2}`))
	if _, err := s.svc.RollKey(context.Background(), rolled, 20*time.Second, admin); err != nil {
		t.Fatal(err)
	}
	s.advance(31 * time.Second)
	for _, x := range []act{a, b} {
		if got := s.action(req{key: boss, op: "action_get", id: x.ID}); got.Status != "denied" {
			t.Errorf("its key has ended: %+v", got)
		}
	}
}

// TestKeyExpiryIsBounded: a year of five digits could not be written, and ended the store.
func TestKeyExpiryIsBounded(t *testing.T) {
	b := newBench(t, nil)
	for _, at := range []time.Time{time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -12*3600)), time.Now().AddDate(101, 0, 0)} {
		if _, err := b.svc.CreateKey(context.Background(), ops.KeySpec{Name: "n", ExpiresAt: at}, admin); code(err) !=
			"invalid_field" {
			t.Errorf("%v: %v", at, err)
		}
	}
	if err := b.store.Healthy(); err != nil {
		t.Error(err)
	}
}

// TestLongPollOfACallerThatWentAway gives its place back: 64 of them would lock a key out for a minute.
func TestLongPollOfACallerThatWentAway(t *testing.T) {
	b := newBench(t, nil)
	k := b.keyWith("asks", nil, "authorize")
	token := b.deferred(k.Value, "")
	var doc exact.Doc
	body := fmt.Sprintf(`{"defer_token":%q,"wait_seconds":60}`, token)
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	r := &ops.Request{Ctx: context.Background(), Key: k.Key, Start: b.now(), Body: doc.Root(), Raw: body,
		Gone: func() bool { return true }}
	for i := range ops.Table {
		if op := &ops.Table[i]; op.Name == "defer_status" {
			resp, err := b.svc.Run(op, r) // would take the test's whole time
			if err != nil || !strings.Contains(string(resp.AppendJSON(nil)), `"pending"`) {
				t.Errorf("%v %v", resp, err)
			}
		}
	}
}

// unsynced is a store whose disk does not answer those who have only read.
type unsynced struct{ ops.Store }

func (u unsynced) Commit(ctx context.Context, cmd store.Command) error {
	if _, ok := cmd.(store.Barrier); ok {
		return &sdk.Error{Code: sdk.CodeAuditUnavailable}
	}
	return u.Store.Commit(ctx, cmd)
}

// TestListsWaitForTheDisk: what is read beside the sequencer may not be on disk yet, so a list answers only when it is.
func TestListsWaitForTheDisk(t *testing.T) {
	for _, c := range []struct {
		wrap func(ops.Store) ops.Store
		want string
	}{{nil, ""}, {func(s ops.Store) ops.Store { return unsynced{s} }, "audit_unavailable"}} {
		b := newBench(t, c.wrap)
		k := b.keyWith("all", nil, "authorize", "grants", "kill")
		for _, op := range []string{"action_list", "standing_grant_list", "kill_list"} {
			if answer, err := b.run(k.Value, op, `{}`); code(err) != c.want {
				t.Errorf("%s: %q %s, want %q", op, code(err), answer, c.want)
			}
		}
	}
}
