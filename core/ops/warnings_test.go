package ops_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// ruled is a step that knows its rules.
type ruled struct {
	toolName
	id string
}

func (r ruled) HasRule(id string) bool { return id == r.id }

// What a kill or a grant names and nothing can be called is done as it was asked for, and the answer says why it may do
// nothing.
func TestWarnings(t *testing.T) {
	b := newBench(t, nil)
	a := *b.gen.Authorize
	a.Steps = []chain.Step{{Name: "house", Inline: true, OnError: sdk.Deny, Checker: ruled{id: "money"}},
		{Name: "plug", OnError: sdk.Deny, Checker: toolName{}}}
	b.swap(&a)
	boss := b.newKey("boss", "operator")
	grant := func(more string) (op, body string) {
		return "standing_grant_add", `{"agent_id":"bot","tool_pattern":"pay/*","ttl_seconds":60` + more + `}`
	}
	kill := func(scope, target string) (op, body string) {
		return "kill", `{"scope":"` + scope + `","target":"` + target + `"}`
	}
	check := func(want string) func(op, body string) {
		return func(op, body string) {
			t.Helper()
			var got struct{ Warning string }
			if err := json.Unmarshal([]byte(b.must(boss.Value, op, body)), &got); err != nil ||
				want == "" && got.Warning != "" || !strings.Contains(got.Warning, want) {
				t.Errorf("%s %s: %q, want %q: %v", op, body, got.Warning, want, err)
			}
		}
	}
	none := check("")
	none(grant(``))
	none(grant(`,"rule_id":"money"`))
	none(grant(`,"rule_id":"money","step":"house"`))
	none(grant(`,"rule_id":"its own","step":"plug"`))
	none(grant(`,"rule_id":"its own"`)) // of plug, which does not say what it has
	none(grant(`,"rule_id":"step house","step":"house"`))
	none(grant(`,"rule_id":"failure of step house","step":"house"`))
	none(grant(`,"rule_id":"[SECRET_X] #0123456789abcdef","step":"plug"`))
	check(`has no step "nosuch"`)(grant(`,"rule_id":"money","step":"nosuch"`))
	check(`no rule is called "mony"`)(grant(`,"rule_id":"mony","step":"house"`))
	check("has a digest behind its name")(grant(`,"rule_id":"[SECRET_X]","step":"plug"`))
	check("has a digest behind its name")(grant(`,"rule_id":"\"step one\""`))
	for _, target := range []string{"r?/x", "{rd}/x", "a[1]"} {
		for _, scope := range []string{"agent", "session", "tool"} {
			check("* and ** are the only wildcards")(kill(scope, target))
		}
		check("tool_pattern: ")("standing_grant_add", `{"agent_id":"bot","tool_pattern":"`+target+`","ttl_seconds":60}`)
		check("agent_id: ")("standing_grant_add", `{"agent_id":"`+target+`","tool_pattern":"x","ttl_seconds":60}`)
	}
	none(kill("agent", "r*/**"))
	none("kill", `{"scope":"tool","target":"r?/x","undo":true}`)
}

// A step whose rule is called as the gateway calls one that it must not name stands for itself alone.
func TestRulesThatEndWithADigest(t *testing.T) {
	for rule, own := range map[string]bool{"money": false, "x #0123456789abcdef": true, "x #0123456789abcdeg": false,
		"x#0123456789abcdef": false, " #0123456789abcdef": true,
		"x #0123456789ABCDEF": false, "x #00123456789abcdef": false, "step a": true, "failure of step a": true} {
		if sdk.OwnRule(rule) != own {
			t.Errorf("%q: %t", rule, !own)
		}
	}
}
