package ops_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
)

// bySize defers small calls under one rule and large ones under another.
type bySize struct{}

func (bySize) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	if n, ok := c.Args.Get("n").Decimal().Int64(); ok && n > 100 {
		return sdk.Verdict{Effect: sdk.Defer, Code: "BIG", RuleID: "big", Reason: "much"}, nil
	}
	return sdk.Verdict{Effect: sdk.Defer, Code: "SMALL", RuleID: "small", Reason: "little"}, nil
}

// A call whose arguments approvers changed stands under the rule that defers it as it is now: approvers are shown that
// rule, and the PERMIT names it.
func TestChangedCallIsUnderItsRule(t *testing.T) {
	b := newBench(t, func(s ops.Store) ops.Store { return s })
	agent, boss, second := b.newKey("agent", "agent"), b.newKey("boss", "approver"), b.newKey("second", "approver")
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny,
		Steps: []chain.Step{{Name: "size", Inline: true, OnError: sdk.Deny, Checker: bySize{}}}})
	asked := b.decides(agent.Value, `,"args":{"n":1}`, "DEFER SMALL")
	token := member(asked, "defer_token")
	shown := func(when, rule, code, reason string) {
		t.Helper()
		view := b.must(second.Value, "approval_get", fmt.Sprintf(`{"defer_token":%q}`, token))
		if member(view, "rule_id") != rule || member(view, "reason_code") != code || member(view, "reason") != reason {
			t.Errorf("%s: %s", when, view)
		}
	}
	shown("as asked", "small", "SMALL", "little")
	b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"n":500}}`, token))
	permit := b.decides(agent.Value, fmt.Sprintf(`,"args":{"n":500},"defer_token":%q`, token), "PERMIT APPROVAL_CONSUMED")
	if got := member(permit, "rule_id"); got != "big" {
		t.Errorf("the PERMIT is under rule %q: %s", got, permit)
	}
}
