package ops

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// What was asked for is done, and may not be what was meant: the answer carries a warning. It is no error, since names
// may hold such characters, and a configuration may get such a rule later.

// warnOfPattern says that characters which are wildcards elsewhere are none here.
func warnOfPattern(field, pattern string) string {
	if i := strings.IndexAny(pattern, "?[]{}"); i >= 0 {
		return fmt.Sprintf("%s: %q stands for itself; * and ** are the only wildcards", field, pattern[i:i+1])
	}
	return ""
}

// ruler is a step that knows the names of all of its rules.
type ruler interface{ HasRule(id string) bool }

// masked is how an answer shows a rule whose name is not shown as it is, without the digest that tells such rules
// apart.
var masked = regexp.MustCompile(`^".*"$|^[^#]*\[[A-Z0-9_]+\][^#]*$`)

// warnOfRule says why a grant for that rule of that step, "" for any step, may permit nothing.
func warnOfRule(a *chain.Authorizer, step, rule string) string {
	if rule == "" {
		return ""
	}
	names, found, known := []string{}, false, true
	for i := range a.Steps {
		s := &a.Steps[i]
		names = append(names, s.Name)
		if step != "" && s.Name != step {
			continue
		}
		found = true
		r, all := s.Checker.(ruler)
		own := rule == sdk.RuleOfStep+s.Name || rule == sdk.RuleOfFailure+s.Name
		known = known && all && !own && !r.HasRule(rule)
	}
	switch {
	case step != "" && !found:
		return fmt.Sprintf("step: chains.authorize has no step %q, so the grant permits nothing; its steps are %s", step,
			strings.Join(names, ", "))
	case known:
		return fmt.Sprintf("rule_id: no rule is called %q, so the grant permits nothing", rule)
	case masked.MatchString(rule):
		return fmt.Sprintf("rule_id: %q reads like the name of a rule that is not shown as it is; such a rule has a "+
			"digest behind its name, as approvals list it under rules", rule)
	}
	return ""
}

// warnings joins those that there are.
func warnings(all ...string) string {
	var out []string
	for _, w := range all {
		if w != "" {
			out = append(out, w)
		}
	}
	return strings.Join(out, "; ")
}
