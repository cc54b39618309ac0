package ops_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// forAYear defers every call for a year, which no rules file may, and a plugin may.
type forAYear struct{}

func (forAYear) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	return sdk.Verdict{Effect: sdk.Defer, Code: "TEST", Expires: 365 * 24 * time.Hour}, nil
}

// TestNothingWaitsLongerThanMayBe: what a step asks for beyond defers.max_ttl holds neither for the wait nor for the
// approval.
func TestNothingWaitsLongerThanMayBe(t *testing.T) {
	b := newBench(t, nil)
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny,
		Steps: []chain.Step{{Name: "year", Inline: true, OnError: sdk.Deny, Checker: forAYear{}}}})
	agent, boss := b.newKey("agent", "agent"), b.newKey("boss", "approver")
	token := b.deferred(agent.Value, "")
	b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true}`, token))
	b.offset.Add(int64(2 * time.Hour)) // defers.max_ttl is one
	b.decides(agent.Value, fmt.Sprintf(`,"defer_token":%q`, token), "DENY APPROVAL_MISMATCH")
}
