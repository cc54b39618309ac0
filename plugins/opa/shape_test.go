package main

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
)

// What the compiler takes too long for is refused at once, and the error names the rule. What is only long is not.
func TestShape(t *testing.T) {
	const exprs, branches = "policy.rego:3: a rule with more than 5000 expressions",
		"policy.rego:3: a rule with more than 5000 branches"
	many := func(text string, n int) string { return strings.Repeat(text, n) }
	for name, c := range map[string]struct{ rules, want string }{
		"sum":               {"decision if { 1" + many(" + 1", maxExprs) + " == 2 }", exprs},
		"sum in the head":   {"decision := 1" + many(" + input.x", maxExprs+1), exprs},
		"conditions":        {"decision if {\n" + many("input.x == 1\n", maxExprs+1) + "}", exprs},
		"in a closure":      {"decision if { count([1 | " + many("input.x == 1; ", maxExprs) + "true]) == 1 }", exprs},
		"in a branch":       {"decision if { false } else := 1" + many(" + input.x", maxExprs+1), exprs},
		"branches":          {"decision := 1 if { input.x == 0 }" + many(" else := 2 if { input.x == 1 }", maxBranches), branches},
		"a list":            {"decision if { input.x in [1" + many(",1", maxExprs) + "] }", ""},
		"rules":             {"decision := 1 if { input.x == 0 }\n" + many("decision := 1 if { input.x == 1 }\n", maxExprs), ""},
		"as many as can be": {"decision if { 1" + many(" + 1", maxExprs-2) + " == 2 }", ""},
	} {
		if testkit.Quick() && c.want == "" {
			continue // it compiles thousands of expressions
		}
		t.Run(name, func(t *testing.T) {
			config := map[string]any{"policy": "package yett.authz\n\n" + c.rules + "\n", "decision": "data.yett.authz.decision"}
			if c.want == "" {
				configured(t, config)
				return
			}
			policytest.Refuses(t, newAuthorizer(), config, c.want)
		})
	}
}
