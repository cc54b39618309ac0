package quote

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestForms(t *testing.T) {
	for _, c := range []struct{ in, plain, visible, line string }{
		{"", "", "", ""},
		{"plain ä 漢", "plain ä 漢", "plain ä 漢", "plain ä 漢"},
		{"a\nb\tc", "a�b�c", `a\nb\u{9}c`, `a\u000ab c`},
		{"a\x1b[2J", "a�[2J", `a\u{1b}[2J`, `a\u001b[2J`},
		{"a\u202eb\u200b", "a�b�", `a\u{202e}b\u{200b}`, `a\u202eb\u200b`},
		{"a\xffb", "a�b", `a\xffb`, `a\xffb`},
		{"a\U000e0041", "a�", `a\u{e0041}`, `a\ue0041`},
		{"a�b", "a�b", "a�b", "a�b"},
	} {
		if got := [3]string{Plain(c.in), Visible(c.in), Line(c.in)}; got != [3]string{c.plain, c.visible, c.line} {
			t.Errorf("%q: %q", c.in, got)
		}
	}
}

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		in           string
		n            int
		short, begin string
	}{
		{"abc", 3, "abc", "abc"},
		{"abcd", 3, "abc…", "abc… (1 bytes more)"},
		{"aää", 4, "aä…", "aä… (2 bytes more)"},
		{"äb", 1, "…", "… (3 bytes more)"},
		{"a\nb", 9, "a�b", "a\nb"},
		{"ab", 0, "…", "… (2 bytes more)"},
	} {
		if short, begin := Short(c.in, c.n), Begin(c.in, c.n); short != c.short || begin != c.begin {
			t.Errorf("%q in %d bytes: %q, %q", c.in, c.n, short, begin)
		}
	}
}

func TestLiteral(t *testing.T) {
	for in, want := range map[string]string{"": `""`, "äbc": `"äbc"`, "äbcd": `"äbc…"`, "a\n\x1b": `"a\n\x1b"`} {
		if got := Literal(in, 3); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("a\x1b\u202e\xff\n", 3)
	f.Add(strings.Repeat("ä", 10), 7)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n = n % 100; n < 0 {
			n = -n
		}
		for name, out := range map[string]string{"Plain": Plain(s), "Visible": Visible(s), "Line": Line(s),
			"Short": Short(s, n)} {
			if !utf8.ValidString(out) {
				t.Errorf("%s of %q is no UTF-8: %q", name, s, out)
			}
			for _, r := range out {
				if r != utf8.RuneError && hides(r) {
					t.Errorf("%s of %q keeps %q", name, s, r)
				}
			}
		}
		if begin, more := Cut(s, n); len(begin) > n || !strings.HasPrefix(s, begin) || more != (len(begin) < len(s)) {
			t.Errorf("Cut(%q, %d) is %q %t", s, n, begin, more)
		}
	})
}
