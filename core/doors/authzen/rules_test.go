package authzen_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk"
)

// turning is a rule that says what it was last told to, and keeps the context of the last call.
type turning struct {
	says    atomic.Int32 // an sdk.Effect, or fails
	context atomic.Value
}

const fails = 100

// Check implements chain.Checker.
func (r *turning) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	r.context.Store(string(c.Context.AppendCanonical(nil)))
	if r.says.Load() == fails {
		return sdk.Verdict{}, errors.New("the rule cannot decide")
	}
	return sdk.Verdict{Effect: sdk.Effect(r.says.Load()), Code: "TURN"}, nil
}

// An approval does not overrule what the rules say today, and what they refuse does not spend it.
func TestTodaysRulesWin(t *testing.T) {
	rule := &turning{}
	rule.says.Store(int32(sdk.Defer))
	b := open(t, doortest.WithRule(t, rule))
	c := &client{b, b.Key("pep", "agent").Value}
	a := c.approved()
	rule.says.Store(int32(sdk.Deny))
	yes, r := c.again(a, waiting)
	c.advises(yes, r, "policy_denied", "none")
	rule.says.Store(fails)
	yes, r = c.again(a, waiting)
	if c.advises(yes, r, "STEP_ERROR", "retry"); r.at("context", "retry_after") != 1.0 {
		t.Errorf("when to try again: %s", r.text)
	}
	if _, r := c.decide(c.key, waiting); r.at("context", "retry_after") != 1.0 || r.at("context", "next_action") != nil {
		t.Errorf("without an approval: %s", r.text)
	}
	rule.says.Store(int32(sdk.Defer))
	if yes, r := c.again(a, waiting); !yes {
		t.Errorf("the approval was spent: %s", r.text)
	}
	rule.says.Store(int32(sdk.Permit))
	if yes, r := c.again(a, waiting); !yes || r.at("context", "next_action") != nil || r.at("context", "approval") != nil {
		t.Errorf("what needs no approval is denied for a spent one: %s", r.text)
	}
}

// Rules see the context, without the approval.
func TestContext(t *testing.T) {
	rule := &turning{}
	rule.says.Store(int32(sdk.Permit))
	b := open(t, doortest.WithRule(t, rule))
	key := b.Key("pep", "agent").Value
	one := join(alice, read, record1)
	for with, want := range map[string]string{"": "", `"context":{}`: "{}", `"context":{"approval":{"id":"x"}}`: "{}",
		`"context":{"b":[1.0],"approval":1,"a\"":"\u0062"}`: `{"a\"":"b","b":[1]}`} {
		body := one
		if with != "" {
			body = join(alice, read, record1, with)
		}
		if b.decide(key, body); rule.context.Load() != want {
			t.Errorf("%s: %s, want %s", with, rule.context.Load(), want)
		}
	}
	r := b.send(key, "POST", "/access/v1/evaluations", join(alice, read, record1, `"context":{"a":1,"b":2}`,
		`"evaluations":[{"context":{"a":3}}]`))
	if rule.context.Load() != `{"a":3}` { // it replaces the default
		t.Errorf("%s: %s", r.text, rule.context.Load())
	}
	b.send(key, "POST", "/access/v1/evaluations", join(alice, read, record1, `"context":{"a":1}`, `"evaluations":[{}]`))
	if rule.context.Load() != `{"a":1}` {
		t.Errorf("the default: %s", rule.context.Load())
	}
}
