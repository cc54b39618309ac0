package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// TestAnActionIsChargedOnce: its start is the call that was permitted, not another one. What an approval permits is
// charged when it is redeemed.
func TestAnActionIsChargedOnce(t *testing.T) {
	for _, first := range []sdk.Effect{sdk.Permit, sdk.Defer} {
		s := newStage(t)
		agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
		fn := func(*chain.Call) (sdk.Verdict, error) {
			return sdk.Verdict{Effect: first, Code: "TEST",
				Limits: []sdk.Limit{{Kind: sdk.LimitRate, Rule: "r", Per: "agent", Window: time.Hour, Amount: "1", Max: "2"}}}, nil
		}
		s.verdict.Store(&fn)
		for n := range 2 {
			a := s.action(submit(agent, "x", fmt.Sprintf(`{"n":%d}`, n)))
			if first == sdk.Defer {
				s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
			}
			if run := s.action(req{key: agent, op: "action_start", id: a.ID}); run.Status != "executing" {
				t.Errorf("%v: action %d was not started: %s %s", first, n, run.Status, run.Code)
			}
		}
		if a := s.action(submit(agent, "x", `{"n":3}`)); a.Code != sdk.ReasonRateExceeded {
			t.Errorf("%v: the third is %s %s", first, a.Status, a.Code)
		}
	}
}

// TestAStartIsHeldToTheLimits: what was allowed before is charged when it starts, in the window of the start and by the
// limits of then, however long it has waited; what its submission charged is given back.
func TestAStartIsHeldToTheLimits(t *testing.T) {
	for _, kind := range []sdk.LimitKind{sdk.LimitRate, sdk.LimitBudget} {
		s := newStage(t)
		agent := s.key("agent", "agent")
		limits := func(max string, window time.Duration) {
			s.says(sdk.Verdict{Effect: sdk.Permit, Code: "P",
				Limits: []sdk.Limit{{Kind: kind, Rule: "r", Per: "key", Window: window, Amount: "1", Max: max}}})
		}
		start := func(id string) string { return s.action(req{key: agent, op: "action_start", id: id}).Status }
		limits("2", time.Second)
		var ids []string
		for n := range 8 { // two a second: each within the limit
			if n%2 == 0 {
				s.advance(time.Second)
			}
			ids = append(ids, s.action(submit(agent, "t", fmt.Sprintf(`{"n":%d}`, n))).ID)
		}
		s.advance(time.Second)
		var got []string
		for _, id := range ids[:4] {
			got = append(got, start(id))
		}
		if fmt.Sprint(got) != "[executing executing denied denied]" {
			t.Errorf("limit %d, four starts in a window for two: %v", kind, got)
		}
		limits("1", 24*time.Hour)
		if got := start(ids[4]) + " " + start(ids[5]); got != "executing denied" {
			t.Errorf("limit %d, a limit that came after the submissions: %s", kind, got)
		}
		limits("3", time.Hour)
		a := s.action(submit(agent, "t", `{"n":"a"}`)) // charges one of three, and its start does not charge another
		if got := start(a.ID); got != "executing" {
			t.Errorf("limit %d: %s", kind, got)
		}
		for n := range 3 {
			want := []string{"allowed", "allowed", "denied"}[n]
			if a := s.action(submit(agent, "t", fmt.Sprintf(`{"n":"b%d"}`, n))); a.Status != want {
				t.Errorf("limit %d, submission %d after a start: %s, want %s", kind, n, a.Status, want)
			}
		}
	}
}

// TestAChargeIsGivenBackOnce: a start that has to be deferred is committed twice, the second time with what approvers
// are shown.
func TestAChargeIsGivenBackOnce(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	s.says(sdk.Verdict{Effect: sdk.Defer, Code: "P",
		Limits: []sdk.Limit{{Kind: sdk.LimitRate, Rule: "r", Per: "key", Window: time.Hour, Amount: "1", Max: "3"}}})
	grant := func() string {
		text, err := s.do(req{key: boss, op: "standing_grant_add",
			body: `{"agent_id":"a","tool_pattern":"**","ttl_seconds":600}`})
		if err != nil {
			t.Fatal(err)
		}
		return member(text, "id")
	}
	first := grant()
	var ids []string
	for n := range 2 { // two of three
		ids = append(ids, s.action(submit(agent, "t", fmt.Sprintf(`{"n":%d}`, n))).ID)
	}
	revoke := req{key: boss, op: "standing_grant_revoke", body: fmt.Sprintf(`{"grant_id":%q}`, first)}
	if _, err := s.do(revoke); err != nil {
		t.Fatal(err)
	}
	grant() // the view is made only when it turns out that this one is not spent instead
	if a := s.action(req{key: agent, op: "action_start", id: ids[0]}); a.Status != "pending_approval" {
		t.Fatalf("without its grant it is %s", a.Status)
	}
	// one of three is charged now
	for n := range 3 {
		want := []string{"allowed", "allowed", "denied"}[n]
		if a := s.action(submit(agent, "t", fmt.Sprintf(`{"n":"b%d"}`, n))); a.Status != want {
			t.Errorf("submission %d after it: %s, want %s", n, a.Status, want)
		}
	}
}

// TestARepeatedStartCounts: whoever sends a start again and again under one Idempotency-Key meets the limits on how
// often a call runs.
func TestARepeatedStartCounts(t *testing.T) {
	for _, kind := range []sdk.LimitKind{sdk.LimitRate, sdk.LimitLoop, sdk.LimitBudget} {
		s := newStage(t)
		agent := s.key("agent", "agent")
		s.says(sdk.Verdict{Effect: sdk.Permit, Code: "P",
			Limits: []sdk.Limit{{Kind: kind, Rule: "r", Per: "key", Window: time.Hour, Amount: "1", Max: "3"}}})
		a := s.action(submit(agent, "t", `{}`))
		again := req{key: agent, op: "action_start", id: a.ID, idem: "one"}
		for range 3 {
			if got := s.action(again); got.Status != "executing" {
				t.Fatalf("limit %d: %+v", kind, got)
			}
		}
		if kind == sdk.LimitBudget {
			s.action(again)
		} else {
			s.refused(again, sdk.CodeTooManyRequests)
		}
	}
}

// TestGateChargesAndSpendsNothingElse: clients act on its answer, so it is charged; it makes no defer and spends no
// grant.
func TestGateChargesAndSpendsNothingElse(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	effect := sdk.Permit
	fn := func(*chain.Call) (sdk.Verdict, error) {
		return sdk.Verdict{Effect: effect, Code: "TEST",
			Limits: []sdk.Limit{{Kind: sdk.LimitRate, Rule: "r", Per: "agent", Window: time.Hour, Amount: "1", Max: "1"}}}, nil
	}
	s.verdict.Store(&fn)
	ask := func() string {
		text, err := s.do(req{key: agent, op: "gate_decide", body: `{"agent_id":"a","tool":"x","operation":"y"}`})
		if err != nil {
			t.Fatal(err)
		}
		return member(text, "outcome") + " " + member(text, "reason_code")
	}
	for _, want := range []string{"EXECUTE TEST", "HALT RATE_EXCEEDED"} {
		if got := ask(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s.advance(time.Hour)
	effect = sdk.Defer
	if _, err := s.do(req{key: boss, op: "standing_grant_add",
		body: `{"agent_id":"a","tool_pattern":"**","ttl_seconds":60,"max_uses":1}`}); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "ABSTAIN TEST" {
		t.Errorf("got %s", got)
	}
	list, err := s.do(req{key: boss, op: "approvals_list", body: `{}`})
	if err != nil || !strings.Contains(list, `"total":0`) {
		t.Errorf("pending after the gate: %v %s", err, list)
	}
}
