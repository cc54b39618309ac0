package loaded

import (
	"fmt"

	"github.com/yett-dev/yett/config"
)

// sharedIDs says which steps that enforce have rules of one id, a line for each pair of steps. A grant that names such
// a rule without its step permits no call that both defer.
func sharedIDs(cfg *config.Config) (out []string) {
	type place struct {
		step string
		rule *config.Rule
	}
	first := map[string]place{}
	for _, s := range cfg.Chains.Authorize.Steps {
		if s.Mode == "shadow" {
			continue
		}
		var with []string // the steps that have ids of this one's, in order
		lines, more := map[string]string{}, map[string]int{}
		for i := range s.Rules {
			for j := range s.Rules[i].Rules {
				r := &s.Rules[i].Rules[j]
				was, known := first[r.ID]
				switch {
				case !known:
					first[r.ID] = place{s.Name, r}
				case was.step == s.Name: // the file is refused
				case lines[was.step] == "":
					with = append(with, was.step)
					lines[was.step] = fmt.Sprintf("chains.authorize: the steps %s (%s) and %s (%s) both have a rule %s", was.step,
						was.rule.Pos, s.Name, r.Pos, r.ID)
				default:
					more[was.step]++
				}
			}
		}
		for _, other := range with {
			line := lines[other]
			if n := more[other]; n > 0 {
				line += fmt.Sprintf(", and %d more ids in common", n)
			}
			out = append(out, line+"; grants and records name a rule by its id: give each its own, or name the step in every "+
				"grant for it (--step)")
		}
	}
	return out
}
