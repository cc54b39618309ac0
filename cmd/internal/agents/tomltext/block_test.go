package tomltext

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

const mark Mark = "made by a test"

var block = []string{"[[hooks.Pre]]", "[[hooks.Pre.hooks]]", `command = "a \"b\" # c"`, "timeout = 60"}

func mustParse(t testing.TB, text string) *Doc {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return d
}

// put writes the block and the line.
func put(t testing.TB, text string) string {
	t.Helper()
	return string(mustParse(t, string(mustParse(t, text).Block(mark, block))).Set(mark, "only = true"))
}

const written = "# made by a test: begin\n[[hooks.Pre]]\n[[hooks.Pre.hooks]]\ncommand = \"a \\\"b\\\" # c\"\n" +
	"timeout = 60\n# made by a test: end\n"

func TestBlock(t *testing.T) {
	for name, row := range map[string]struct{ before, after string }{
		"empty":        {"", "only = true # made by a test\n" + written},
		"lines":        {"a = 1\n", "only = true # made by a test\na = 1\n\n" + written},
		"no last line": {"[t]\na = 1", "only = true # made by a test\n[t]\na = 1\n" + written},
		"mark":         {"\ufeffa = 1\n", "\ufeffonly = true # made by a test\na = 1\n\n" + written},
		"CRLF":         {"a = 1\r\n", strings.ReplaceAll("only = true # made by a test\na = 1\n\n"+written, "\n", "\r\n")},
		"others": {"[hooks]\ndir = '/x'\n[[hooks.Pre]]\nm = 1\n",
			"only = true # made by a test\n[hooks]\ndir = '/x'\n[[hooks.Pre]]\nm = 1\n\n" + written},
		"comment": {"# mine", "only = true # made by a test\n# mine\n" + written},
	} {
		t.Run(name, func(t *testing.T) {
			got := put(t, row.before)
			if got != row.after {
				t.Errorf("%q\nbecame  %q\nexpected %q", row.before, got, row.after)
			}
			rest, found, err := mustParse(t, got).Clear(mark)
			if err != nil || string(rest) != row.before || strings.ReplaceAll(found, "\r\n", "\n") != written {
				t.Errorf("cleared to %q (%q), %v", rest, found, err)
			}
		})
	}
}

func TestClearRefuses(t *testing.T) {
	begin, end := "# made by a test: begin\n", "# made by a test: end\n"
	for text, want := range map[string]string{
		"a = 1\n" + begin: "line 2, column 1", end: "line 1, column 1",
		begin + end + begin + end: "line 3, column 1", begin + begin + end: "line 2, column 1",
	} {
		if _, _, err := mustParse(t, text).Clear(mark); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
	text := "a = '''\n" + begin + "'''\nb = 1 # other\n"
	if rest, block, err := mustParse(t, text).Clear(mark); string(rest) != text || block != "" || err != nil {
		t.Errorf("a mark in a string: %q, %q, %v", rest, block, err)
	}
}

func TestStatements(t *testing.T) {
	text := "# c\na . \"b\\u00e9\".'c d' = [ # x\n  1, '''y\n]''', {z = \"}\"}\n] # end\n[\"t\".u] # t\n" +
		"k = \"\"\"a\"\"\"\"\n[[v]]\n"
	var got []Statement
	for _, st := range mustParse(t, text).Statements {
		got = append(got, Statement{Kind: st.Kind, Path: st.Path, Text: st.Text})
	}
	want := []Statement{{Kind: Comment, Text: "# c"}, {Kind: Pair, Path: []string{"a", "bé", "c d"}},
		{Kind: Table, Path: []string{"t", "u"}}, {Kind: Pair, Path: []string{"k"}}, {Kind: ArrayTable, Path: []string{"v"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nexpected %+v", got, want)
	}
}

func TestOpen(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "[hooks]\ndir = 1\n": "", "[[hooks.Pre]]\n[hooks]\nOther = []\n": "", "[x]\nhooks.Pre = 1\n": "",
		"x = 1\nhooks = {}\n":           "line 2, column 1: hooks is written as a value",
		"hooks.dir = 1\n":               "line 1, column 1: hooks.dir is written as a value",
		"[hooks]\n\nPre = []\n":         "line 3, column 1: hooks.Pre is written as a value",
		"[hooks]\nPre.x = 1\n":          "line 2, column 1: hooks.Pre.x is written as a value",
		"[[hooks]]\n":                   "line 1, column 1: [[hooks]] is a list",
		"[hooks.Pre]\nx = 1\n":          "line 1, column 1: [hooks.Pre] is one table",
		"\ufeff  [hooks.'Pre']\n":       "line 1, column 3: [hooks.Pre] is one table",
		"['hooks']\n\"Pre\" = '''\n'''": "line 2, column 1: hooks.Pre is written",
	} {
		err := mustParse(t, text).Open("hooks", "Pre")
		if err == nil && want != "" || err != nil && (want == "" || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nb = \n": "line 2, column ", "a = 1\na = 2\n": "", "[a\n": "line 1, column ", "a = 'x\xff'\n": "",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

func TestString(t *testing.T) {
	for _, s := range []string{"", `a"b\c`, "\x00\t\n\x7f", "é\U0001F600", "'''"} {
		if got := mustParse(t, "s = "+String(s)).Values["s"]; got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

// FuzzBlock writes into any valid file, looks that no value of others changed, and takes it out again.
func FuzzBlock(f *testing.F) {
	for _, s := range []string{"", "a = 1\n", "[hooks]\nx = [1, #c\n2]\n[[hooks.Pre]]\n", "a.b = \"\"\"\n# x\"\"\"\r\n",
		"\ufeff# c",
		"['a.b'.\"c\"]\nd = {e = 'f'}", "only = false\n", "hooks = 1\n", "# made by a test: begin\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		if d.Open("hooks", "Pre") != nil || d.Values["only"] != nil || bytes.Contains(text, []byte(mark)) {
			return
		}
		after, err := Parse(d.Block(mark, block))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		whole, err := Parse(after.Set(mark, "only = true"))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		rest, _, err := whole.Clear(mark)
		if err != nil || !bytes.Equal(rest, text) {
			t.Fatalf("%q became %q, and then %q: %v", text, whole.Text, rest, err)
		}
		hooks, _ := whole.Values["hooks"].(map[string]any)
		list, _ := hooks["Pre"].([]any)
		if len(list) == 0 || whole.Values["only"] != true {
			t.Fatalf("%q became %q: what was written is not there", text, whole.Text)
		}
	})
}
