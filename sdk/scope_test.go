package sdk_test

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// naive tries every run of every star.
func naive(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	if pattern[0] != '*' {
		return s != "" && s[0] == pattern[0] && naive(pattern[1:], s[1:])
	}
	rest := strings.TrimLeft(pattern, "*")
	cross := len(pattern)-len(rest) > 1
	for i := 0; ; i++ {
		if naive(rest, s[i:]) {
			return true
		}
		if i == len(s) || s[i] == '/' && !cross {
			return false
		}
	}
}

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a*", "abc", true}, {"a*", "a/b", false}, {"a**", "a/b", true}, {"**/read*", "files/read_all", true},
		{"**/read*", "read", false}, {"*/b", "a/b", true}, {"*/b", "a/c/b", false}, {"**a*b", "a/ab", true}, {"pay/**", "pay", false}, {"pay/**", "pay/", true},
		{"*a*b*c", "xaxbxc", true}, {"*a*b*c", "xaxbxcx", false}, {"**x*y/**z", "a/x1y/q/z", true}, {"***", "a/b", true}, {"*", "", true}, {"a/*/c", "a//c", true},
	} {
		if got := sdk.MatchGlob(c.pattern, c.s); got != c.want || naive(c.pattern, c.s) != c.want {
			t.Errorf("%q on %q: %v, the naive matcher %v, want %v", c.pattern, c.s, got, naive(c.pattern, c.s), c.want)
		}
	}
}

func TestMatchGlobIsNotExponential(t *testing.T) {
	if sdk.MatchGlob(strings.Repeat("**a*", 60)+"b", strings.Repeat("a", 256)) {
		t.Error("matched")
	}
}

func TestMatchAgent(t *testing.T) {
	for _, c := range []struct {
		globs string
		agent string
		want  bool
	}{{"", "x/y", true}, {"*", "x/y", true}, {"team-*", "team-a", true}, {"team-*", "team-a/b", false},
		{"team-**", "team-a/b", true}, {"a,b", "b", true}, {"a,b", "c", false}} {
		var globs []string
		if c.globs != "" {
			globs = strings.Split(c.globs, ",")
		}
		if got := sdk.MatchAgent(globs, c.agent); got != c.want {
			t.Errorf("%q covers %q: %v", c.globs, c.agent, got)
		}
	}
}

func FuzzMatchGlob(f *testing.F) {
	f.Add("**a*b/**", "x/ab/c")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 12 || len(s) > 16 {
			return
		}
		if got, want := sdk.MatchGlob(pattern, s), naive(pattern, s); got != want {
			t.Fatalf("%q on %q: %v, the naive matcher %v", pattern, s, got, want)
		}
	})
}
