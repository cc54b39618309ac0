package exact

import (
	"strings"
	"testing"
)

// The short cuts must say what the long ways say.

func FuzzPlainRun(f *testing.F) {
	for _, s := range []string{"", "abc", "abcdefgh", "abcdefg\"", "abcdefghi\\", "\x1fabcdefgh", "abcdefgh\x00", "é",
		"abcdefgé", "~\x7f !#[]^_", strings.Repeat("x", 33) + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := 0
		for want < len(s) && s[want] >= 0x20 && s[want] < 0x80 && s[want] != '"' && s[want] != '\\' {
			want++
		}
		if got := plainRun(s); got != want {
			t.Errorf("%q: %d plain bytes, want %d", s, got, want)
		}
	})
}

// TestPlainRunEveryByte puts every byte at every place of a word.
func TestPlainRunEveryByte(t *testing.T) {
	for b := range 256 {
		for at := range 17 {
			s := strings.Repeat("a", at) + string([]byte{byte(b)}) + strings.Repeat("a", 17-at)
			want := len(s)
			if b < 0x20 || b >= 0x80 || b == '"' || b == '\\' {
				want = at
			}
			if got := plainRun(s); got != want {
				t.Errorf("byte %#x at %d: %d plain bytes, want %d", b, at, got, want)
			}
		}
	}
}

func FuzzCanonicalNumber(f *testing.F) {
	for _, s := range []string{"0", "-0", "1", "-1", "10", "1.0", "1.5", "-0.5", "0.05", "0.50", "-0.0", "1e3", "1E3",
		"100.001", "12345678901234567890", "123456789012345678901", "0.00000000000000000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDecimal(s)
		if err != nil {
			return
		}
		if canonicalNumber(s) && d.String() != s {
			t.Errorf("%s is called canonical, but is %s", s, d)
		}
		var doc Doc
		if err := doc.Parse(s, DefaultLimits); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if got := string(doc.Root().AppendCanonical(nil)); got != d.String() {
			t.Errorf("%s: canonical form %s, want %s", s, got, d)
		}
	})
}
