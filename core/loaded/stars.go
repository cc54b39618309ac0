package loaded

import (
	"fmt"
	"slices"

	"github.com/yett-dev/yett/config"
)

// maxStars is how many places are named one by one.
const maxStars = 10

// loneStars says where a list of tools holds a lone star. Among agents this is everybody, so it is easily taken for
// every tool; but a tool pattern stays within a segment, and a guard that is meant for all would not run.
func loneStars(cfg *config.Config) []string {
	var out []string
	more := 0
	look := func(pos config.Pos, what string, tools []string) {
		switch {
		case !slices.Contains(tools, "*") || slices.Contains(tools, "**"):
		case len(out) == maxStars:
			more++
		default:
			out = append(out, fmt.Sprintf("%v: %s: the pattern * matches only tools without a slash: write ** for every tool",
				pos, what))
		}
	}
	for _, s := range cfg.Chains.Authorize.Steps {
		look(s.Pos, "match.tools", s.Match.Tools)
		for _, set := range s.Rules {
			for _, r := range set.Rules {
				look(r.Pos, "tools of rule "+r.ID, r.Tools)
			}
		}
	}
	for _, s := range cfg.Chains.ScanOutput.Steps {
		look(s.Pos, "match.tools", s.Match.Tools)
	}
	for _, a := range cfg.Chains.ScanOutput.Actions {
		look(a.Pos, "tools of an action", a.Tools)
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more lists of tools hold the pattern *, which matches only tools without a slash",
			more))
	}
	return out
}
