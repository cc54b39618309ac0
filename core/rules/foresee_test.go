package rules_test

import (
	"testing"

	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/sdk"
)

// What is foreseen is never stricter than what any call gets.
func TestForesee(t *testing.T) {
	set, err := rules.Compile([]rules.Rule{
		{ID: "some", Tools: []string{"pay/*"}, When: "args.amount > 100", Effect: sdk.Deny},
		{ID: "ada", Tools: []string{"pay/*"}, Agents: []string{"ada"}, Effect: sdk.Permit},
		{ID: "bob", Tools: []string{"pay/*"}, Agents: []string{"bob"}, When: "args.small == true", Effect: sdk.Defer},
		{ID: "rest", Tools: []string{"pay/*"}, Effect: sdk.Deny},
		{ID: "maybe", Tools: []string{"read"}, When: "args.bad == true", Effect: sdk.Deny},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		agent, tool string
		may, silent bool
	}{
		{"ada", "pay/out", true, false}, {"bob", "pay/out", true, false}, {"eve", "pay/out", false, false},
		{"ada", "read", false, true}, {"ada", "write", false, true},
	} {
		if may, silent := set.Foresee(c.agent, c.tool); may != c.may || silent != c.silent {
			t.Errorf("%s, %s: may %t, silent %t", c.agent, c.tool, may, silent)
		}
	}
}
