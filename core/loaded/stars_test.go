package loaded

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
)

// A lone star in a list of tools is told wherever it stands; many of them are counted.
func TestLoneStarsAreTold(t *testing.T) {
	chains := func(tools ...string) *config.Config {
		cfg := &config.Config{}
		cfg.Chains.Authorize.Steps = []config.AuthorizeStep{{Match: config.Match{Tools: tools},
			Rules: []config.RuleSet{{Rules: []config.Rule{{ID: "mine", Tools: tools}}}}}}
		cfg.Chains.ScanOutput.Steps = []config.ScanStep{{Match: config.ScanMatch{Tools: tools}}}
		cfg.Chains.ScanOutput.Actions = []config.Action{{Tools: tools}}
		return cfg
	}
	told := func(cfg *config.Config) []string {
		return slices.DeleteFunc(Warnings(cfg), func(s string) bool {
			return !strings.Contains(s, "only tools without a slash")
		})
	}
	for _, tools := range [][]string{nil, {"**"}, {"*", "**"}, {"a/*"}, {"*/read"}} {
		if got := told(chains(tools...)); len(got) > 0 {
			t.Errorf("tools %v: %q", tools, got)
		}
	}
	got := told(chains("a/b", "*"))
	if len(got) != 4 || !strings.Contains(got[1], "tools of rule mine: ") {
		t.Errorf("%q", got)
	}
	many := chains("**")
	for i := range 15 {
		many.Chains.Authorize.Steps[0].Rules[0].Rules = append(many.Chains.Authorize.Steps[0].Rules[0].Rules,
			config.Rule{ID: fmt.Sprint(i), Tools: []string{"*"}})
	}
	if got := told(many); len(got) != maxStars+1 || !strings.HasPrefix(got[maxStars], "5 more lists") {
		t.Errorf("%q", got)
	}
}
