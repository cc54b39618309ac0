package author

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/loaded"
)

// failing are the cases of a pack that fail over rules.
func failing(t *testing.T, file *config.Cases, sets []config.RuleSet) (out []*caseRow) {
	t.Helper()
	set, err := loaded.CompileRules(sets)
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Cases {
		row, err := runCase(t.Context(), set, &file.Cases[i])
		if err != nil {
			t.Fatal(err)
		}
		if !row.Pass {
			out = append(out, row)
		}
	}
	return out
}

// with is a pack's rules with one of them changed, or left out.
func with(file *config.Cases, i int, change func(r *config.Rule) bool) []config.RuleSet {
	sets := slices.Clone(file.Rules)
	list := slices.Clone(sets[0].Rules)
	if !change(&list[i]) {
		list = slices.Delete(list, i, i+1)
	}
	sets[0].Rules = list
	return sets
}

// TestPacks: the cases of each pack pass, and each fault that is planted in a rule makes one fail.
func TestPacks(t *testing.T) {
	for _, p := range Packs {
		t.Run(p[0], func(t *testing.T) {
			file, err := config.ReadCases(filepath.Join("packs", p[0], "cases.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if len(file.Rules) != 1 || len(file.Cases) < 20 {
				t.Fatalf("%d files of rules, %d cases", len(file.Rules), len(file.Cases))
			}
			for _, row := range failing(t, file, file.Rules) {
				t.Errorf("%s: said %s, want %s", row.Name, row.Got, row.Want)
			}
			for i, r := range file.Rules[0].Rules {
				for what, fault := range faults {
					changed := with(file, i, fault)
					if len(changed[0].Rules) == len(file.Rules[0].Rules) && same(changed[0].Rules[i], r) {
						continue
					}
					if len(failing(t, file, changed)) == 0 {
						t.Errorf("rule %s %s, and no case fails", r.ID, what)
					}
				}
			}
		})
	}
}

// faults are planted in each rule in turn. What gives false leaves the rule out.
var faults = map[string]func(r *config.Rule) bool{
	"is left out":       func(*config.Rule) bool { return false },
	"has no condition":  func(r *config.Rule) bool { r.When = ""; return true },
	"never holds":       func(r *config.Rule) bool { r.When = "false"; return true },
	"covers every tool": func(r *config.Rule) bool { r.Tools = []string{"**"}; return true },
	"denies or permits": func(r *config.Rule) bool {
		*r = config.Rule{ID: r.ID, Tools: r.Tools, When: r.When, Effect: flip(r.Effect), Pos: r.Pos}
		return true
	},
}

func flip(effect string) string {
	if effect == "deny" {
		return "permit"
	}
	return "deny"
}

func same(a, b config.Rule) bool {
	return a.When == b.When && a.Effect == b.Effect && slices.Equal(a.Tools, b.Tools)
}
