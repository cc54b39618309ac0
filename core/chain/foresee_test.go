package chain_test

import (
	"context"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// foresees is a step that says what it will say.
type foresees struct{ may, silent bool }

func (foresees) Check(context.Context, *chain.Call) (sdk.Verdict, error) { return sdk.Verdict{}, nil }
func (f foresees) Foresee(string, string) (may, silent bool)             { return f.may, f.silent }

// blind is a step that cannot say what it will say.
type blind struct{}

func (blind) Check(context.Context, *chain.Call) (sdk.Verdict, error) { return sdk.Verdict{}, nil }

func TestMay(t *testing.T) {
	yes, no, silent := chain.Step{Checker: foresees{may: true}}, chain.Step{Checker: foresees{}},
		chain.Step{Checker: foresees{silent: true}}
	shadow, other := chain.Step{Checker: foresees{}, Shadow: true},
		chain.Step{Checker: foresees{}, Match: chain.Match{Tools: []string{"other"}}}
	for _, c := range []struct {
		name  string
		steps []chain.Step
		rest  sdk.Effect
		want  bool
	}{
		{"permitted", []chain.Step{yes}, sdk.Deny, true},
		{"denied", []chain.Step{yes, no}, sdk.Deny, false},
		{"nobody speaks", []chain.Step{silent}, sdk.Deny, false},
		{"nobody speaks, permitted", []chain.Step{silent}, sdk.Permit, true},
		{"a step that does not know", []chain.Step{{Checker: blind{}}}, sdk.Deny, true},
		{"a step that does not know, and one that denies", []chain.Step{{Checker: blind{}}, no}, sdk.Deny, false},
		{"a shadow denies", []chain.Step{yes, shadow}, sdk.Deny, true},
		{"a step for other tools denies", []chain.Step{yes, other}, sdk.Deny, true},
	} {
		a := &chain.Authorizer{Steps: c.steps, Default: c.rest}
		if got := a.May("agent", "", "tool"); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
