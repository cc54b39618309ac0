package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTableFits(t *testing.T) {
	cols := []Column{Whole("TOKEN"), Cut("AGENT"), Cut("ARGS")}
	rows := [][]string{{"dfr_0123456789", "billing", `{"order":"A-17","note":"a long one"}`},
		{"dfr_1", "x\u202ey", "日本語の長い引数です"}}
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, `
TOKEN           AGENT       ARGS
dfr_0123456789  billing     {"order":"A-17","note":"a long one"}
dfr_1           x\u{202e}y  日本語の長い引数です
`},
		{44, `
TOKEN           AGENT       ARGS
dfr_0123456789  billing     {"order":"A-17"…
dfr_1           x\u{202e}y  日本語の長い引…
`},
		{10, `
TOKEN           AGENT   ARGS
dfr_0123456789  billi…  {"ord…
dfr_1           x\u{2…  日本…
`},
	} {
		var b strings.Builder
		if err := PrintTable(&b, c.width, cols, rows); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if want := strings.TrimPrefix(c.want, "\n"); got != want {
			t.Errorf("width %d:\n%swant\n%s", c.width, got, want)
		}
		for line := range strings.Lines(got) {
			if n := CellWidth(strings.TrimSuffix(line, "\n")); c.width > 30 && n > c.width {
				t.Errorf("width %d: a line of %d: %s", c.width, n, line)
			}
		}
		if !strings.Contains(got, "dfr_0123456789 ") {
			t.Errorf("width %d: the token was cut", c.width)
		}
	}
}

// A wrapped cell is whole in any width, and a line above a row is never cut.
func TestTableWraps(t *testing.T) {
	cols := []Column{Whole("ID"), Wrap("DETAIL")}
	rows := [][]string{{"a", "one two three four five six seven eight"}, {"b", "日本語の長い引数です日本語の長い引数です"}}
	var b strings.Builder
	if err := PrintBlocks(&b, 30, cols, rows, []string{"TOKEN", "dfr_a",
		"dfr_0123456789012345678901234567890123456789"}); err != nil {
		t.Fatal(err)
	}
	want := `TOKEN
  ID  DETAIL
dfr_a
  a   one two three four five
      six seven eight
dfr_0123456789012345678901234567890123456789
  b   日本語の長い引数です日本
      語の長い引数です
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 日本 é": "plain ü 日本 é",
		"a\nb\tc\r":    `a\nb\tc\r`,
		"\x1b[2Jx":     `\u{1b}[2Jx`,
		"a\u202eb":     `a\u{202e}b`,
		"a\u200bb":     `a\u{200b}b`,
		"\u2066\u3164": `\u{2066}\u{3164}`,
		"\x7f\u0085":   `\u{7f}\u{85}`,
		"a\xffb":       `a\xffb`,
		"\xef":         `\xef`,
		"\ufffd":       `\u{fffd}`,
		"\U000e0041":   `\u{e0041}`,
		"\u2028":       `\u{2028}`,
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// FuzzVisible: nothing that a terminal acts on gets through, and JSON stays the same JSON.
func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[0m\u202e\xff\U000e0041")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Visible(s) {
			if !plain(r) {
				t.Fatalf("%q shows %U", s, r)
			}
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		raw := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(string(text))
		for _, in := range []string{string(text), raw} {
			out := VisibleJSON([]byte(in))
			var before, after string
			if json.Unmarshal([]byte(in), &before) != nil {
				continue // a backslash before the escape that was replaced
			}
			if err := json.Unmarshal(out, &after); err != nil || before != after {
				t.Fatalf("%q became %q: %v", in, out, err)
			}
			for _, r := range string(out) {
				if !plain(r) && r >= 0x7f {
					t.Fatalf("%q has %U", out, r)
				}
			}
		}
	})
}
