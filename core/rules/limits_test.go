package rules

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// limited is a rule with a limit of each kind.
var limited = Rule{
	ID: "pay", Effect: sdk.Permit, Priority: sdk.PriorityHigh,
	Rates: []Rate{{10, time.Minute, "agent"}},
	Budgets: []Budget{
		{Amount: "args.amount * 2", Limit: "1000.50", Window: time.Hour, Per: "session"},
		{Amount: "size(args)", Limit: "7", Window: time.Hour, Per: "agent"},
		{Amount: "args.amount * 2", Limit: "1e4", Window: 24 * time.Hour, Per: "key"},
	},
	Loops: []Loop{{3, time.Minute}},
}

func TestLimitsOfAVerdict(t *testing.T) {
	s := compileOne(t, limited)
	want := []sdk.Limit{
		{Kind: sdk.LimitRate, Rule: "pay", Per: "agent", Window: time.Minute, Amount: "1", Max: "10"},
		{Kind: sdk.LimitBudget, Rule: "pay", Per: "session", Window: time.Hour, Amount: "0.5", Max: "1000.5"},
		{Kind: sdk.LimitBudget, Rule: "pay", Per: "agent", Window: time.Hour, Amount: "2", Max: "7"},
		{Kind: sdk.LimitBudget, Rule: "pay", Per: "key", Window: 24 * time.Hour, Amount: "0.5", Max: "10000"},
		{Kind: sdk.LimitLoop, Rule: "pay", Window: time.Minute, Amount: "1", Max: "3"},
	}
	first, err := s.Check(t.Context(), callWith(t, `{"amount":0.25,"to":"x"}`))
	if err != nil || first.Effect != sdk.Permit || first.Priority != sdk.PriorityHigh ||
		!reflect.DeepEqual(first.Limits, want) {
		t.Errorf("got %+v, %v", first, err)
	}
	// A later call has its own amounts, and the earlier one keeps its.
	second, err := s.Check(t.Context(), callWith(t, `{"amount":3}`))
	if err != nil || second.Limits[1].Amount != "6" || second.Limits[2].Amount != "1" ||
		!reflect.DeepEqual(first.Limits, want) {
		t.Errorf("got %+v, %v", second, err)
	}
	if n := len(s.rules[0].amounts); n != 2 {
		t.Errorf("%d expressions are evaluated, want 2", n)
	}
}

// The amount of a budget is exact, and what is none is a DENY that names the rule and no value.
func TestAmountOfABudget(t *testing.T) {
	const missing = "no such key"
	for _, tt := range []struct{ expr, args, amount, class string }{
		{"args.amount", `{"amount":1000000.01}`, "1000000.01", ""},
		{"args.amount", `{"amount":1e6}`, "1000000", ""},
		{"args.amount", `{"amount":1000004}`, "1000004", ""},
		{"args.amount", `{"amount":0}`, "0", ""},
		{"args.amount", `{"amount":-0.0}`, "0", ""},
		{"args.amount", `{"amount":9007199254740993}`, "9007199254740993", ""},
		{"args.amount", `{"amount":1e63}`, "1" + strings.Repeat("0", 63), ""},
		{"args.amount", `{"amount":1e400}`, beyond, ""},
		{"args.amount", `{"amount":1e900000000}`, beyond, ""},
		{"args.amount", `{"amount":1e-64}`, "0." + strings.Repeat("0", 63) + "1", ""},
		{"args.amount", `{"amount":1e-65}`, "", "too many digits"},
		{"args.amount", `{"amount":1e-900000000}`, "", "too many digits"},
		{"args.amount", `{"amount":-1}`, "", "a negative number"},
		{"args.amount", `{"amount":-1e400}`, "", "a negative number"},
		{"args.amount", `{"amount":"1000004"}`, "", "not a number"},
		{"args.amount", `{"amount":null}`, "", "not a number"},
		{"args.amount", `{"amount":true}`, "", "not a number"},
		{"args.amount", `{"amount":[5]}`, "", "not a number"},
		{"args.amount", `{"amount":{}}`, "", "not a number"},
		{"args.amount", `{}`, "", missing},
		{"args.amount", ``, "", missing},
		{"args.amount + 0.1", `{"amount":0.2}`, "0.3", ""},
		{"args.amount + 1", `{"amount":"5"}`, "", "no such overload"},
		{"has(args.amount) ? args.amount : 5", `{}`, "5", ""},
		{"0.10", `{}`, "0.1", ""},
		{"7u", `{}`, "7", ""},
		{"1 - 2", `{}`, "", "a negative number"},
		{`int(args.amount)`, `{"amount":1.5}`, "", "number out of range"},
		{`args.l.map(x, args.l.map(y, args.l.map(z, x + y + z))).size()`, bigList(200), "", "cost limit exceeded"},
	} {
		for _, effect := range []sdk.Effect{sdk.Permit, sdk.Defer} {
			s := compileOne(t, Rule{ID: "spend", Effect: effect, Reason: "why",
				Budgets: []Budget{{Amount: tt.expr, Limit: "100", Window: time.Hour, Per: "key"}}})
			got, err := s.Check(t.Context(), callWith(t, tt.args))
			if err != nil {
				t.Errorf("%s: %v", tt.expr, err)
				continue
			}
			if tt.class == "" {
				if got.Effect != effect || len(got.Limits) != 1 || got.Limits[0].Amount != tt.amount {
					t.Errorf("%s of %.40s: got %+v, want the amount %.40s", tt.expr, tt.args, got, tt.amount)
				}
				continue
			}
			if got.Effect != sdk.Deny || got.Code != sdk.ReasonSchemaInvalid || got.RuleID != "spend" || got.Limits != nil ||
				got.Reason != "rule spend: the amount of its budget failed: "+tt.class {
				t.Errorf("%s of %.40s: got %+v, want SCHEMA_INVALID, %s", tt.expr, tt.args, got, tt.class)
			}
		}
	}
}

func TestAmountsCarryNoValues(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, expr := range []string{`args.s`, `int(args.s)`, `{"a": 1}[args.s]`, `args.o[args.s]`, `double(args.s)`} {
		s := compileOne(t, Rule{Effect: sdk.Permit,
			Budgets: []Budget{{Amount: expr, Limit: "1", Window: time.Hour, Per: "key"}}})
		got, err := s.Check(t.Context(), callWith(t, `{"s":"`+secret+`","o":{}}`))
		if err != nil || got.Effect != sdk.Deny || strings.Contains(got.Reason+got.Message, secret) {
			t.Errorf("%s: got %+v, %v", expr, got, err)
		}
	}
}

// A call that is given up while its amount is counted is no approver's to permit: its rule's limits would not hold.
func TestAmountIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := compileOne(t, Rule{Effect: sdk.Defer, Budgets: []Budget{{Amount: "args.l.map(x, args.l.map(y, x + " +
		"y).size()).size()", Limit: "1", Window: time.Hour, Per: "key"}}})
	if v, err := s.Check(ctx, callWith(t, bigList(300))); !errors.Is(err, context.Canceled) || v.Effect != sdk.Deny {
		t.Errorf("got %+v, %v", v, err)
	}
}

// A condition that fails makes a defer speak, and its budget is still counted.
func TestAFailedConditionKeepsItsLimits(t *testing.T) {
	s := compileOne(t, Rule{ID: "r", Effect: sdk.Defer, When: "args.nope > 1", Approvals: 2,
		From:    []string{"role:approver", "key:alice"},
		Budgets: []Budget{{Amount: "args.amount", Limit: "1", Window: time.Hour, Per: "key"}}})
	got, err := s.Check(t.Context(), callWith(t, `{"amount":5}`))
	if err != nil || got.Effect != sdk.Defer || len(got.Limits) != 1 || got.Limits[0].Amount != "5" ||
		!reflect.DeepEqual(got.From, []string{"role:approver", "key:alice"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = s.Check(t.Context(), callWith(t, `{}`)); err != nil || got.Effect != sdk.Deny ||
		got.Code != sdk.ReasonSchemaInvalid {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What a threshold says of each way to send an amount, literal on either side: a permit needs a number that holds, a
// deny and a defer speak unless there is one that does not.
func TestThresholds(t *testing.T) {
	const holds, fails, broken = "holds", "fails", "broken"
	for _, tt := range []struct{ args, within string }{
		{`{"amount":1000000}`, holds},
		{`{"amount":1000000.0}`, holds},
		{`{"amount":1e6}`, holds},
		{`{"amount":999999.9999999999999999999}`, holds},
		{`{"amount":-1e400}`, holds},
		{`{"amount":1e-400}`, holds},
		{`{"amount":1000000.01}`, fails},
		{`{"amount":1000000.0000000000000000001}`, fails},
		{`{"amount":1000004}`, fails},
		{`{"amount":1e400}`, fails},
		{`{"amount":"1000000"}`, broken},
		{`{"amount":null}`, broken},
		{`{"amount":true}`, broken},
		{`{"amount":[1]}`, broken},
		{`{"amount":{"value":1}}`, broken},
		{`{}`, broken},
		{``, broken},
	} {
		within := []string{`args.amount <= 1000000`, `1000000 >= args.amount`, `!(args.amount > 1000000.0)`,
			`!(1e6 < args.amount)`}
		above := []string{`args.amount > 1000000`, `1000000 < args.amount`, `!(args.amount <= 1000000.0)`,
			`!(1e6 >= args.amount)`}
		for i := range within {
			for _, c := range []struct {
				effect sdk.Effect
				when   string
				speaks bool
			}{
				{sdk.Permit, within[i], tt.within == holds},
				{sdk.Permit, above[i], tt.within == fails},
				{sdk.Deny, above[i], tt.within != holds},
				{sdk.Defer, above[i], tt.within != holds},
				{sdk.Deny, within[i], tt.within != fails},
				{sdk.Defer, within[i], tt.within != fails},
			} {
				got, err := compileOne(t, Rule{Effect: c.effect, When: c.when}).Check(t.Context(), callWith(t, tt.args))
				want := sdk.Abstain
				if c.speaks {
					want = c.effect
				}
				if err != nil || got.Effect != want {
					t.Errorf("%v when %s of %s: got %v, %v, want %v", c.effect, c.when, tt.args, got.Effect, err, want)
				}
			}
		}
	}
}
