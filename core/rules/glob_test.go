package rules

import (
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		yes, no []string
	}{
		{"pay", []string{"pay"}, []string{"", "Pay", "pay/", "pay/x", "xpay"}},
		{"*", []string{"", "pay", "a.b"}, []string{"pay/x", "/"}},
		{"**", []string{"", "pay", "a/b/c"}, nil},
		{"pay/*", []string{"pay/x", "pay/"}, []string{"pay", "pay/x/y", "Pay/x"}},
		{"pay/**", []string{"pay/x", "pay/x/y", "pay/"}, []string{"pay", "payx"}},
		{"*/delete", []string{"a/delete", "/delete"}, []string{"a/b/delete", "delete"}},
		{"**/delete", []string{"a/delete", "a/b/delete"}, []string{"delete", "a/deletes"}},
		{"a*b*c", []string{"abc", "axbxc", "abbcc"}, []string{"a/bc", "ab/c", "ab"}},
		{"a**b*c", []string{"a/b/bc", "ab/bc", "a/x/bxc"}, []string{"a/b/c"}},
		{"*/x**y", []string{"a/xy", "a/x/y"}, []string{"a/b/xy"}},
		{"größe/*", []string{"größe/ü"}, []string{"große/ü"}},
		{"aa*a", []string{"aaa", "aaaa"}, []string{"aa"}},
	} {
		g, err := ParseGlob(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tt.yes {
			if !g.Match(name) {
				t.Errorf("%q does not match %q", tt.pattern, name)
			}
		}
		for _, name := range tt.no {
			if g.Match(name) {
				t.Errorf("%q matches %q", tt.pattern, name)
			}
		}
	}
	for _, bad := range []string{"", "a***", "a?", "[ab]", "{a,b}", `a\*`, strings.Repeat("a", maxPattern+1)} {
		if _, err := ParseGlob(bad); err == nil {
			t.Errorf("%.20q compiles", bad)
		}
	}
}

// naive is the definition, written down.
func naive(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case strings.HasPrefix(pattern, "**"):
		for i := 0; i <= len(name); i++ {
			if naive(pattern[2:], name[i:]) {
				return true
			}
		}
		return false
	case pattern[0] == '*':
		for i := 0; i <= len(name); i++ {
			if naive(pattern[1:], name[i:]) {
				return true
			}
			if i < len(name) && name[i] == '/' {
				return false
			}
		}
		return false
	}
	return name != "" && name[0] == pattern[0] && naive(pattern[1:], name[1:])
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"a*b/**c", "ab/xc"}, {"**a*b", "a/aab"}, {"*a*a/**", "aa/a"},
		{"a**/b*/c", "a/b/bb/c"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 24 || len(name) > 24 {
			t.Skip("the reference is exponential")
		}
		g, err := ParseGlob(pattern)
		if err != nil {
			return
		}
		if got, want := g.Match(name), naive(pattern, name); got != want {
			t.Errorf("%q against %q: got %v, want %v", pattern, name, got, want)
		}
	})
}
