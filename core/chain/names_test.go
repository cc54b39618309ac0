package chain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// broken is a scanner that never ends well.
type broken struct{}

func (broken) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) {
	return nil, errors.New("broken")
}
func (broken) About() chain.About { return chain.About{} }

// TestNamesTellNoSecret: a verdict whose code or approvers hold a secret is a fault of its step, and nothing of it is
// kept.
func TestNamesTellNoSecret(t *testing.T) {
	secret, upper := "tok"+"_"+strings.Repeat("k9", 16), "ABC"+strings.Repeat("7Q", 10)
	key := "yett" + "_" + strings.Repeat("a1", 8) + "_" + strings.Repeat("Zz", 20)
	keys := func(text string) (found []sdk.Finding) { // of which a line may be broken
		if at, end := strings.Index(text, key[:30]), strings.Index(text, key[30:]); at >= 0 && end >= 0 {
			found = append(found, find("KEY", at, end+len(key[30:]), sdk.High))
		}
		return found
	}
	good := &chain.ScanChain{Budget: time.Minute, Now: steady, Keys: keys, Steps: []chain.ScanStep{
		{Name: "s", Builtin: true, Scanner: literal("TOKEN", secret)}, {Name: "u", Builtin: true, Scanner: literal("UPPER", upper)}}}
	none := &chain.ScanChain{Budget: time.Minute, Now: steady, Keys: keys}
	down := &chain.ScanChain{Budget: time.Minute, Now: steady, Keys: keys,
		Steps: []chain.ScanStep{{Name: "b", Builtin: true, Scanner: broken{}}}}
	for _, c := range []*chain.ScanChain{good, none, down} {
		if err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	from := func(who ...string) sdk.Verdict {
		return sdk.Verdict{Effect: sdk.Defer, Code: "ASK", Approvals: 2, From: who}
	}
	for _, c := range []struct {
		name    string
		said    *chain.ScanChain
		v       sdk.Verdict
		err     error
		onError sdk.Effect
		want    sdk.Effect
		fault   bool
	}{
		{"names of keys and presets", good, from("key:alice", "role:approver"), nil, sdk.Deny, sdk.Defer, false},
		{"a token as a key's name", good, from("key:alice", "key:"+secret), nil, sdk.Deny, sdk.Deny, true},
		{"in another name", good, from("key:alice-" + secret + "-x"), nil, sdk.Abstain, sdk.Deny, true},
		{"on_error defers", good, from("key:" + secret), nil, sdk.Defer, sdk.Defer, true},
		{"our own key", good, from("key:" + key), nil, sdk.Deny, sdk.Deny, true},
		{"our own key in two names", good, from("key:"+key[:30], "key:"+key[30:]), nil, sdk.Deny, sdk.Deny, true},
		{"our own key without scanners", none, from("key:" + key), nil, sdk.Deny, sdk.Deny, true},
		{"names without scanners", none, from("key:alice"), nil, sdk.Deny, sdk.Defer, false},
		{"names that cannot be masked", down, from("key:alice"), nil, sdk.Deny, sdk.Deny, true},
		{"the same where on_error abstains", down, from("key:alice"), nil, sdk.Abstain, sdk.Deny, true},
		{"the same where on_error defers", down, from("key:alice"), nil, sdk.Defer, sdk.Defer, true},
		{"a code that cannot be masked", down, sdk.Verdict{Effect: sdk.Permit, Code: "FINE"}, nil, sdk.Deny, sdk.Permit, false},
		{"a token as a code", good, sdk.Verdict{Effect: sdk.Permit, Code: upper}, nil, sdk.Deny, sdk.Deny, true},
		{"a denial stays one", good, sdk.Verdict{Effect: sdk.Deny, Code: upper}, nil, sdk.Abstain, sdk.Deny, true},
		{"with an error", good, from("key:" + secret), errors.New("failed"), sdk.Abstain, sdk.Deny, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, beside := range []bool{false, true} {
				s := chain.Step{Name: "plugin", OnError: c.onError, Beside: beside, Checker: says{v: c.v, err: c.err}}
				a := &chain.Authorizer{Steps: []chain.Step{s, step("rules", sdk.Permit)}, Budget: time.Minute, Default: sdk.Deny,
					Now: steady, Said: c.said}
				res := a.Run(context.Background(), &chain.Call{ToolID: "files/read", AgentID: "agent"}, nil)
				var row *chain.Row
				for i := range res.Rows {
					if res.Rows[i].Step.Name == "plugin" {
						row = &res.Rows[i]
					}
				}
				if res.Verdict.Effect != c.want || (row.Err != nil) != c.fault {
					t.Errorf("%v, error %v; want %v, a fault: %v", res.Verdict.Effect, row.Err, c.want, c.fault)
				}
				all := fmt.Sprintf("%+v %+v %v", res.Verdict, res.Quorums, row.Err)
				all += fmt.Sprintf(" %+v", row.Verdict)
				for _, part := range []string{"k9k9", "7Q7Q", key[10:20], key[40:]} {
					if strings.Contains(all, part) {
						t.Errorf("kept: %s", all)
					}
				}
				if res.Verdict.Effect == sdk.Defer && res.Verdict.Approvals < c.v.Approvals {
					t.Errorf("%d approvals are enough, want %d", res.Verdict.Approvals, c.v.Approvals)
				}
				if c.fault && row.Verdict.From != nil {
					t.Errorf("approvers of an invalid verdict: %q", row.Verdict.From)
				}
			}
		})
	}
}

// TestNoStepSaysThatSomebodyApproved: only the gateway knows whether a person approved. A step whose code says so has
// failed; other codes of the gateway's pass, and an operator's own rules say what they say.
func TestNoStepSaysThatSomebodyApproved(t *testing.T) {
	for _, c := range []struct {
		code            string
		effect, onError sdk.Effect
		own             bool
		want            sdk.Effect
		fault           bool
	}{
		{"APPROVAL_CONSUMED", sdk.Permit, sdk.Deny, false, sdk.Deny, true},
		{"STANDING_APPROVAL_CONSUMED", sdk.Permit, sdk.Deny, false, sdk.Deny, true},
		{"APPROVAL_GRANTED", sdk.Permit, sdk.Deny, false, sdk.Deny, true},
		{"APPROVAL_CONSUMED", sdk.Permit, sdk.Defer, false, sdk.Defer, true},
		{"APPROVAL_CONSUMED", sdk.Deny, sdk.Abstain, false, sdk.Deny, true},
		{"APPROVAL_CONSUMED", sdk.Defer, sdk.Abstain, false, sdk.Deny, true},
		{"APPROVAL_CONSUMED", sdk.Permit, sdk.Deny, true, sdk.Permit, false},
		{"APPROVAL_CONSUMED_BY_ACME", sdk.Permit, sdk.Deny, false, sdk.Permit, false},
		{"APPROVAL_DENIED", sdk.Deny, sdk.Deny, false, sdk.Deny, false},
		{"RULE_PERMIT", sdk.Permit, sdk.Deny, false, sdk.Permit, false},
	} {
		for _, beside := range []bool{false, true} {
			s := chain.Step{Name: "plugin", OnError: c.onError, Beside: beside, Own: c.own,
				Checker: says{v: sdk.Verdict{Effect: c.effect, Code: c.code, Reason: "fine"}}}
			a := &chain.Authorizer{Steps: []chain.Step{s}, Budget: time.Minute, Default: sdk.Deny, Now: steady}
			res := a.Run(context.Background(), &chain.Call{ToolID: "files/read", AgentID: "agent"}, nil)
			row := res.Rows[0]
			if res.Verdict.Effect != c.want || (row.Err != nil) != c.fault ||
				c.fault && (res.Verdict.Code == c.code || !strings.Contains(res.Verdict.Reason, "says that a person approved")) ||
				!c.fault && res.Verdict.Code != c.code {
				t.Errorf("%s %v, beside %v: %+v, error %v", c.code, c.effect, beside, res.Verdict, row.Err)
			}
		}
	}
}
