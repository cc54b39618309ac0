package execrun

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// text is what plain makes of pieces.
func textOf(pieces ...string) (string, bool) {
	var p plain
	var out []byte
	for _, s := range pieces {
		out = p.add(out, []byte(s))
	}
	return string(p.end(out)), p.binary
}

func TestPlain(t *testing.T) {
	for _, row := range []struct {
		in, out string
		binary  bool
	}{
		{"plain text\r\n\ttab\v\f", "plain text\r\n\ttab\v\f", false},
		{"é🙂", "é🙂", false},
		{"a\xffb\xc3", "a\ufffdb\ufffd", false},
		{"\xed\xa0\x80", "\ufffd\ufffd\ufffd", false},
		{"a\x00b", "a", true},
		{"se\x1b[31mc\x1b[0m_", "sec_", false},
		{"se\x1b[38;5;1mc\x1b[K_", "sec_", false},
		{"a\x1b]0;title\x07b", "ab", false},
		{"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb", false},
		{"a\x1b]never ended\nb", "a\nb", false},
		{"a\x1bPq#0\x1b\\b", "ab", false},
		{"a\x1b(Bb\x1b7c\x1b=d", "abcd", false},
		{"a\x1b\x1b[1mb", "ab", false},
		{"a\x1b[1\nb", "a\nb", false},
		{"a\x1b[é", "aé", false},
		{"a\x08\x07\x7fb", "ab", false},
		{"a\u009b31mb\u0085", "a31mb", false},
		{"end\x1b", "end", false},
		{"end\x1b[1", "end", false},
	} {
		got, binary := textOf(row.in)
		if got != row.out || binary != row.binary {
			t.Errorf("%q: got %q, %v; want %q, %v", row.in, got, binary, row.out, row.binary)
		}
		for i := range len(row.in) {
			if got, binary := textOf(row.in[:i], row.in[i:]); got != row.out || binary != row.binary {
				t.Errorf("%q cut at %d: got %q, %v", row.in, i, got, binary)
			}
		}
	}
}

// FuzzPlain holds that the text does not depend on the cuts, and that nothing invisible is in it.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"a\x1b[31mb", "\xff\xfe\x00", "é\x1b]x\x07", strings.Repeat("\x1b", 9), "\xf0\x9f\x99"} {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		whole, binary := textOf(string(in))
		n := 0
		if len(in) > 0 {
			n = int(uint(cut) % uint(len(in)))
		}
		parts, again := textOf(string(in[:n]), string(in[n:]))
		switch {
		case parts != whole || again != binary:
			t.Errorf("%q cut at %d: %q and %q", in, n, whole, parts)
		case !utf8.ValidString(whole) || len(whole) > 3*len(in):
			t.Errorf("%q: %q", in, whole)
		case strings.ContainsAny(whole, "\x00\x1b\x07\x08\x7f"):
			t.Errorf("%q: %q", in, whole)
		case binary != bytes.ContainsRune(in, 0):
			t.Errorf("%q: binary %v", in, binary)
		}
	})
}
