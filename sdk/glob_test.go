package sdk

import (
	"testing"
)

func TestPatternRelations(t *testing.T) {
	for _, c := range []struct {
		a, b             string
		covers, overlaps bool
	}{
		{"a", "a", true, true}, {"a", "b", false, false}, {"*", "anything/at/all", true, true}, {"*", "**", true, true}, {"**", "*", true, true},
		{"a*", "ab", true, true}, {"a*", "a/b", false, false}, {"a**", "a/b", true, true}, {"a*", "a**", false, true}, {"a/*", "a/b*", true, true},
		{"a/*", "a/**", false, true}, {"*/b", "a/*", false, true}, {"*/b", "a/c", false, false}, {"a*c", "*b*", false, true}, {"ab*", "a*", false, true},
		{"x*y", "x**y", false, true}, {"team/*/bot", "team/a/*", false, true}, {"team/*/bot", "team/*", false, false}, {"**z", "a*", false, true}, {"", "", true, true},
		{"", "*x", false, false},
	} {
		if got := CoversAgent([]string{c.a}, c.b); got != c.covers {
			t.Errorf("CoversAgent(%q, %q) = %v", c.a, c.b, got)
		}
		if got := OverlapsAgent([]string{c.a}, c.b); got != c.overlaps {
			t.Errorf("OverlapsAgent(%q, %q) = %v", c.a, c.b, got)
		}
	}
	if !CoversAgent(nil, "x") || !OverlapsAgent(nil, "x") {
		t.Error("an empty list is every agent")
	}
}

// TestPatternRelationsAgainstMatching tries every short pattern against every short text.
func TestPatternRelationsAgainstMatching(t *testing.T) {
	var patterns, texts []string
	var grow func(s, alphabet string, n int, out *[]string)
	grow = func(s, alphabet string, n int, out *[]string) {
		*out = append(*out, s)
		for i := 0; n > 0 && i < len(alphabet); i++ {
			grow(s+alphabet[i:i+1], alphabet, n-1, out)
		}
	}
	grow("", "a/*", 3, &patterns)
	grow("", "ab/", 5, &texts)
	match := func(p, s string) bool { return p == "*" || MatchGlob(p, s) }
	for _, a := range patterns {
		for _, b := range patterns {
			both, all := false, true
			for _, s := range texts {
				inA, inB := match(a, s), match(b, s)
				both = both || inA && inB
				all = all && (!inB || inA)
			}
			if both && !OverlapsAgent([]string{a}, b) {
				t.Fatalf("%q and %q overlap, and it was missed", a, b)
			}
			if !both && len(a)+len(b) <= 4 && OverlapsAgent([]string{a}, b) {
				t.Fatalf("%q and %q do not overlap", a, b)
			}
			if CoversAgent([]string{a}, b) && !all {
				t.Fatalf("%q does not cover %q", a, b)
			}
		}
	}
}
