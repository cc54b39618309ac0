package console

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain text, with a space", "plain text, with a space"},
		{"Grüße 你好 שלום 👍", "Grüße 你好 שלום 👍"},
		{"a\x00b\tc\nd\re\x1b[0mf\x7fg\u0085h", "a⟨U+0000⟩b⟨U+0009⟩c⟨U+000A⟩d⟨U+000D⟩e⟨U+001B⟩[0mf⟨U+007F⟩g⟨U+0085⟩h"},
		{"\u202a\u202b\u202c\u202d\u202e", "⟨U+202A⟩⟨U+202B⟩⟨U+202C⟩⟨U+202D⟩⟨U+202E⟩"},
		{"\u2066\u2067\u2068\u2069\u200e\u200f\u061c", "⟨U+2066⟩⟨U+2067⟩⟨U+2068⟩⟨U+2069⟩⟨U+200E⟩⟨U+200F⟩⟨U+061C⟩"},
		{"a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg", "a⟨U+200B⟩b⟨U+200C⟩c⟨U+200D⟩d⟨U+2060⟩e⟨U+FEFF⟩f⟨U+00AD⟩g"},
		{"a\u00a0b\u3000c\u2028d\u2029e\u1680f", "a⟨U+00A0⟩b⟨U+3000⟩c⟨U+2028⟩d⟨U+2029⟩e⟨U+1680⟩f"},
		{"a\u115f\u1160\u3164\uffa0\u034f\u17b4\u2800b", "a⟨U+115F⟩⟨U+1160⟩⟨U+3164⟩⟨U+FFA0⟩⟨U+034F⟩⟨U+17B4⟩⟨U+2800⟩b"},
		{"a\ufe0f\U000e0100\U000e0041b", "a⟨U+FE0F⟩⟨U+E0100⟩⟨U+E0041⟩b"},
		{"\ue000\U0010ffff", "⟨U+E000⟩⟨U+10FFFF⟩"},
		{"a\xffb\xc3", "a⟨byte FF⟩b⟨byte C3⟩"},
		{"\ufffd", "\ufffd"},
	} {
		if got := plain(c.in); got != c.want {
			t.Errorf("%q is shown as %q, want %q", c.in, got, c.want)
		}
	}
}

// Nothing that is shown as text is hidden, nothing is lost, and the marks say what was there.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"a\u202eb", "\xff\xfe", "e\u0301", "\u200d", "⟨U+202E⟩"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back strings.Builder
		for _, p := range visible(s) {
			if p.Mark == "" {
				if p.Text == "" || !utf8.ValidString(p.Text) {
					t.Fatalf("piece %q", p.Text)
				}
				for _, r := range p.Text {
					if r != ' ' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.IsSpace(r)) {
						t.Errorf("U+%04X is shown as it is", r)
					}
				}
				back.WriteString(p.Text)
				continue
			}
			var n rune
			if _, err := fmt.Sscanf(p.Mark, "U+%X", &n); err == nil {
				back.WriteRune(n)
			} else if _, err := fmt.Sscanf(p.Mark, "byte %X", &n); err == nil {
				back.WriteByte(byte(n))
			} else {
				t.Fatalf("mark %q", p.Mark)
			}
		}
		if back.String() != s {
			t.Errorf("%q came back as %q", s, back.String())
		}
	})
}
