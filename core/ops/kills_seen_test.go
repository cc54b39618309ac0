package ops_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/exact"
)

// A key that answers for some agents must not learn from the list of kills whom the operator has besides.
func TestKillListNamesOnlyWhatTheKeyMaySee(t *testing.T) {
	b := newBench(t, nil)
	all := b.keyWith("all", nil, "kill")
	star := b.keyWith("star", []string{"*"}, "kill")
	ours := b.keyWith("ours", []string{"ours/*"}, "kill", "audit")
	theirs := b.keyWith("theirs", []string{"theirs/*"}, "kill")
	for _, body := range []string{`{"scope":"agent","target":"ours/a"}`, `{"scope":"agent","target":"ours/**"}`, `{"scope":"agent","target":"theirs/a"}`, `{"scope":"agent","target":"*/b"}`,
		`{"scope":"session","target":"their session"}`, `{"scope":"tool","target":"their-tool"}`, `{"scope":"key","target":"` + theirs.Key.ID + `"}`, `{"scope":"key","target":"` + ours.Key.ID + `"}`} {
		if _, err := b.run(all.Value, "kill", body); err != nil {
			t.Fatal(body, err)
		}
	}
	targets := func(value string) string {
		answer, err := b.run(value, "kill_list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		var doc exact.Doc
		if err := doc.Parse(answer, exact.DefaultLimits); err != nil {
			t.Fatal(err)
		}
		var out []string
		for k := range doc.Root().Get("kills").Elements() {
			out = append(out, k.Get("target").Str())
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	whole := []string{"*/b", "ours/**", "ours/a", "their session", "their-tool", "theirs/a", ours.Key.ID, theirs.Key.ID}
	slices.Sort(whole)
	some := []string{"*/b", "ours/**", "ours/a", ours.Key.ID}
	slices.Sort(some)
	for value, want := range map[string][]string{all.Value: whole, star.Value: whole, ours.Value: some} {
		if got := targets(value); got != strings.Join(want, " ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
