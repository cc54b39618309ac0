package ops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
)

// bySize defers small calls under one rule and large ones under another, which wants two approvals, and permits what
// is free.
type bySize struct{}

func (bySize) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	switch n, _ := c.Args.Get("n").Decimal().Int64(); {
	case n == 0:
		return sdk.Verdict{Effect: sdk.Permit, Code: "FREE", RuleID: "free", Reason: "nothing"}, nil
	case n > 100:
		return sdk.Verdict{Effect: sdk.Defer, Code: "BIG", RuleID: "big", Reason: "much", Priority: sdk.PriorityHigh,
			Approvals: 2}, nil
	}
	return sdk.Verdict{Effect: sdk.Defer, Code: "SMALL", RuleID: "small", Reason: "little", Expires: time.Hour}, nil
}

// A call whose arguments approvers changed stands under the rule that decides it as it is now, whatever it was before:
// approvers are shown that rule, an action shows it, and the PERMIT names it.
func TestChangedCallIsUnderItsRule(t *testing.T) {
	b := newBench(t, func(s ops.Store) ops.Store { return s })
	agent, boss, second := b.newKey("agent", "agent"), b.newKey("boss", "approver"), b.newKey("second", "approver")
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny,
		Steps: []chain.Step{{Name: "size", Inline: true, OnError: sdk.Deny, Checker: bySize{}}}})
	asked := b.decides(agent.Value, `,"args":{"n":1}`, "DEFER SMALL")
	action := b.must(agent.Value, "action_submit",
		`{"agent_id":"bot","tool":"act","operation":"","params":{"n":1},"context":{}}`)
	token := ""
	shown := func(when, rule, code, reason, priority string) {
		t.Helper()
		view := b.must(second.Value, "approval_get", fmt.Sprintf(`{"defer_token":%q}`, token))
		if member(view, "rule_id") != rule || member(view, "reason_code") != code || member(view, "reason") != reason ||
			member(view, "priority") != priority {
			t.Errorf("%s, to approvers: %s", when, view)
		}
	}
	approve := func(key *ops.NewKey, more string) {
		t.Helper()
		digest := member(b.must(key.Value, "approval_get", fmt.Sprintf(`{"defer_token":%q}`, token)), "digest")
		b.must(key.Value, "approve_defer",
			fmt.Sprintf(`{"defer_token":%q,"approved":true,"digest":%q%s}`, token, digest, more))
	}
	for _, token = range []string{member(asked, "defer_token"), member(action, "approval_token")} {
		shown("as asked", "small", "SMALL", "little", "")
		approve(boss, `,"modified_args":{"n":500}`)
		shown("made large", "big", "BIG", "much", "high")
		approve(boss, `,"modified_args":{"n":0}`)
		shown("made free", "free", "RULE_DEFER", "nothing", "")
		approve(boss, `,"modified_args":{"n":700}`)
		shown("made large again", "big", "BIG", "much", "high")
	}
	as := b.must(agent.Value, "action_list", `{"agent_id":"bot"}`)
	if !strings.Contains(as, `"reason_code":"BIG"`) || !strings.Contains(as, `"rule_id":"big"`) ||
		!strings.Contains(as, `"risk_level":"high"`) {
		t.Errorf("the action: %s", as)
	}
	token = member(asked, "defer_token")
	approve(second, "")
	permit := b.decides(agent.Value, fmt.Sprintf(`,"args":{"n":700},"defer_token":%q`, token), "PERMIT APPROVAL_CONSUMED")
	if got := member(permit, "rule_id"); got != "big" {
		t.Errorf("the PERMIT is under rule %q: %s", got, permit)
	}
}

// tight defers everything, for more approvals than there are.
type tight struct{}

func (tight) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	return sdk.Verdict{Effect: sdk.Defer, Code: "TIGHT", RuleID: "tight", Reason: "since today", Approvals: 3}, nil
}

// A changed call that waits again at its redemption, because today's rules want more approvals, waits under today's
// rule, for approvers and in the answer. A DEFER never has the code of a PERMIT.
func TestChangedCallWaitsAgainUnderTodaysRule(t *testing.T) {
	b := newBench(t, func(s ops.Store) ops.Store { return s })
	agent, boss := b.newKey("agent", "agent"), b.newKey("boss", "approver")
	step := func(c chain.Checker) *chain.Authorizer {
		return &chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "size", Inline: true, OnError: sdk.Deny, Checker: c}}}
	}
	b.swap(step(bySize{}))
	token := member(b.decides(agent.Value, `,"args":{"n":1}`, "DEFER SMALL"), "defer_token")
	b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"n":0}}`, token))
	b.swap(step(tight{}))
	b.decides(agent.Value, fmt.Sprintf(`,"args":{"n":0},"defer_token":%q`, token), "DEFER TIGHT")
	view := b.must(boss.Value, "approval_get", fmt.Sprintf(`{"defer_token":%q}`, token))
	if member(view, "rule_id") != "tight" || member(view, "reason_code") != "TIGHT" {
		t.Errorf("to approvers: %s", view)
	}
}
