package jsontext

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var loose = Dialect{Comments: true, TrailingCommas: true, BOM: true, Duplicates: true}

func mustParse(t testing.TB, text string, d Dialect) *Doc {
	t.Helper()
	doc, err := Parse([]byte(text), d)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return doc
}

// The value that the tables insert.
var two = Fields{{"a", 1}, {"b", List{true, "x/\"y"}}}

func TestAdd(t *testing.T) {
	for name, row := range map[string]struct{ before, after string }{
		"empty object":    {"{}", "{\n  \"new\": 7\n}"},
		"space inside":    {"{ \n }\n", "{\n  \"new\": 7 \n }\n"},
		"one member":      {"{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"new\": 7\n}\n"},
		"tabs":            {"{\n\t\"a\": 1\n}", "{\n\t\"a\": 1,\n\t\"new\": 7\n}"},
		"four":            {"{\n    \"a\": 1\n}", "{\n    \"a\": 1,\n    \"new\": 7\n}"},
		"CRLF":            {"{\r\n  \"a\": 1\r\n}\r\n", "{\r\n  \"a\": 1,\r\n  \"new\": 7\r\n}\r\n"},
		"mark":            {"\ufeff{\n  \"a\": 1\n}", "\ufeff{\n  \"a\": 1,\n  \"new\": 7\n}"},
		"one line":        {`{"a": 1}`, `{"a": 1, "new": 7}`},
		"dense":           {`{"a":1}`, `{"a":1,"new":7}`},
		"trailing":        {"{\n  \"a\": 1,\n}", "{\n  \"a\": 1,\n  \"new\": 7,\n}"},
		"trailing dense":  {`{"a":1,}`, `{"a":1,"new":7,}`},
		"comment behind":  {"{\n  \"a\": 1 // one\n}", "{\n  \"a\": 1, // one\n  \"new\": 7\n}"},
		"comment below":   {"{\n  \"a\": 1\n  // end\n}", "{\n  \"a\": 1,\n  // end\n  \"new\": 7\n}"},
		"comment alone":   {"{ // none\n}", "{ // none\n  \"new\": 7\n}"},
		"block comment":   {`{"a":1/* x */}`, `{"a":1,/* x */"new":7}`},
		"bracket in line": {"{\n  \"a\": 1}", "{\n  \"a\": 1,\n  \"new\": 7\n}"},
		"comma behind":    {"{\n  \"a\": 1, // one\n}", "{\n  \"a\": 1, // one\n  \"new\": 7,\n}"},
		"first in line":   {"{ \"a\": 1,\n  \"b\": 2 }", "{ \"a\": 1,\n  \"b\": 2,\n  \"new\": 7\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustParse(t, row.before, loose)
			if got := string(d.Add(d.Root, "new", 7)); got != row.after {
				t.Errorf("%q\nbecame  %q\nexpected %q", row.before, got, row.after)
			}
		})
	}
}

func TestAppendNested(t *testing.T) {
	for name, row := range map[string]struct{ before, after string }{
		"lines": {"{\n  \"l\": [\n    {}\n  ]\n}\n", "{\n  \"l\": [\n    {},\n    {\n      \"a\": 1,\n      \"b\": [\n" +
			"        true,\n        \"x/\\\"y\"\n      ]\n    }\n  ]\n}\n"},
		"empty": {"{\n\t\"l\": []\n}\n", "{\n\t\"l\": [\n\t\t{\n\t\t\t\"a\": 1,\n\t\t\t\"b\": [\n\t\t\t\ttrue,\n" +
			"\t\t\t\t\"x/\\\"y\"\n\t\t\t]\n\t\t}\n\t]\n}\n"},
		"dense": {`{"l":[1]}`, `{"l":[1,{"a":1,"b":[true,"x/\"y"]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustParse(t, row.before, Dialect{})
			l, err := d.Get("l")
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Append(l, two)); got != row.after {
				t.Errorf("%q\nbecame  %q\nexpected %q", row.before, got, row.after)
			}
		})
	}
}

func TestStart(t *testing.T) {
	for before, after := range map[string]string{
		"": "{\n  \"a\": 1\n}\n", "\ufeff": "\ufeff{\n  \"a\": 1\n}\n", " \r\n ": "{\r\n  \"a\": 1\r\n}\r\n",
		"// mine\n": "// mine\n{\n  \"a\": 1\n}\n", "/* mine */": "/* mine */\n{\n  \"a\": 1\n}\n",
	} {
		if got := string(mustParse(t, before, loose).Start(Fields{{"a", 1}})); got != after {
			t.Errorf("%q became %q, expected %q", before, got, after)
		}
	}
}

func TestRemove(t *testing.T) {
	for name, row := range map[string]struct {
		before string
		i      int
		after  string
	}{
		"only":           {"[\n  1\n]", 0, "[\n]"},
		"first":          {"[\n  1,\n  2\n]", 0, "[\n  2\n]"},
		"last":           {"[\n  1,\n  2\n]", 1, "[\n  1\n]"},
		"dense middle":   {"[1,2,3]", 1, "[1,3]"},
		"trailing":       {"[1,2,]", 1, "[1,]"},
		"trailing only":  {"[1,]", 0, "[]"},
		"note before":    {"[\n  1, // one\n  2\n]", 1, "[\n  1 // one\n]"},
		"note, bracket":  {"[ // one\n  2]", 0, "[ // one\n]"},
		"note inside":    {"[\n  1 /* a */, 2\n]", 0, "[ /* a */ 2\n]"},
		"note of others": {"[\n  1,\n  // two\n  2\n  // end\n]", 1, "[\n  1\n  // two\n  // end\n]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustParse(t, row.before, loose)
			got := string(d.Remove(d.Root, row.i))
			if got != row.after {
				t.Errorf("%q\nbecame  %q\nexpected %q", row.before, got, row.after)
			}
			mustParse(t, got, loose)
		})
	}
}

func TestReplace(t *testing.T) {
	d := mustParse(t, "{\n  \"a\": [ // x\n    1\n  ], // y\n  \"b\": 2\n}", loose)
	got := string(d.Replace(d.Root.At(0), List{"z"}))
	if want := "{\n  \"a\": [\n    \"z\"\n  ], // y\n  \"b\": 2\n}"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	for _, row := range []struct {
		text    string
		dialect Dialect
		want    string
	}{
		{"{\n  \"a\": 1 // x\n}", Dialect{}, "line 2, column 10: a comment"},
		{"{/* x */}", Dialect{Comments: true, LinesOnly: true}, "line 1, column 2: a block comment"},
		{"{\n  \"a\": 1,\n}", Dialect{Comments: true}, "line 2, column 9: a comma before a closing bracket"},
		{"\ufeff{}", Dialect{}, "line 1, column 1: a byte order mark"},
		{"{\"a\": 1, \"a\": 2}", Dialect{}, "line 1, column 10: this member stands here for the second time"},
		{"{\"é\": }", loose, "line 1, column 7: expected a value"},
		{"\ufeff x", loose, "line 1, column 2: expected a value"},
		{"{\"a\": 1", loose, "line 1, column 1: this bracket is never closed"},
		{"{\"a\": \"x", loose, "line 1, column 7: the string has no end"},
		{"{\"a\": \"x\n\"}", loose, "line 1, column 7: the string has no end in its line"},
		{"{\"a\": \"\t\"}", loose, "line 1, column 8: a control character"},
		{`{"a": "\x"}`, loose, "line 1, column 7: an unknown escape"},
		{`{"a" 1}`, loose, "line 1, column 6: expected a colon"},
		{`{a: 1}`, loose, "line 1, column 2: expected the name of a member"},
		{`[1 2]`, loose, "line 1, column 4: expected a comma"},
		{`[,]`, loose, "line 1, column 2: expected a value"},
		{`{} x`, loose, "line 1, column 4: more text behind the value"},
		{`[01]`, loose, "line 1, column 2: this is not a number"},
		{`[nul]`, loose, "line 1, column 2: expected a value"},
		{"[/* x", loose, "line 1, column 2: the comment has no end"},
		{"[/]", loose, "line 1, column 2: expected a value, got /"},
		{"\"a\xff\"", loose, "line 1, column 3: the text is not UTF-8"},
		{`{"a":`, loose, "line 1, column 6: the text ends where a value should be"},
		{deep, loose, "line 1, column 129: nested too deep"},
	} {
		_, err := Parse([]byte(row.text), row.dialect)
		if err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%q: %v, expected %s", row.text, err, row.want)
		}
	}
}

func TestGet(t *testing.T) {
	d := mustParse(t, `{"a": {"b": 1, "b": 2}, "c": []}`, loose)
	for path, want := range map[string]string{"a b": "second time", "c d": "expected an object", "a c": "", "x y": ""} {
		n, err := d.Get(strings.Fields(path)...)
		if n != nil || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; expected %q", path, n, err, want)
		}
	}
	if n, err := mustParse(t, "", loose).Get("a"); n != nil || err != nil {
		t.Errorf("of no value: %v, %v", n, err)
	}
}

// containers are all arrays and objects of a document.
func containers(n *Node) []*Node {
	if n == nil || n.Kind < Array {
		return nil
	}
	all := []*Node{n}
	for i := range n.Len() {
		all = append(all, containers(n.At(i))...)
	}
	return all
}

// insertAndRemove inserts into a container, looks that nothing else changed, and removes it again.
func insertAndRemove(t rapid.TB, d *Doc, at int) {
	insert := func(n *Node) []byte {
		if n.Kind == Object {
			return d.Add(n, "new member", two)
		}
		return d.Append(n, two)
	}
	n := containers(d.Root)[at]
	text := insert(n)
	after, err := Parse(text, d.dialect)
	if err != nil {
		t.Fatalf("%q became %q: %v", d.Text, text, err)
	}
	m := containers(after.Root)[at]
	if m.Len() != n.Len()+1 || !bytes.Equal(after.Compact(m.At(m.Len()-1)), CompactOf(two)) {
		t.Fatalf("%q became %q: the value is not there", d.Text, text)
	}
	removed := after.Remove(m, m.Len()-1)
	back, err := Parse(removed, d.dialect)
	if err != nil {
		t.Fatalf("%q became %q: %v", text, removed, err)
	}
	if !bytes.Equal(back.Compact(back.Root), d.Compact(d.Root)) {
		t.Fatalf("%q became %q and then %q: values changed", d.Text, text, removed)
	}
	if strip(removed) != strip(d.Text) {
		t.Fatalf("%q became %q and then %q: more than spaces changed", d.Text, text, removed)
	}
	if n.Len() > 0 && !bytes.ContainsAny(d.Text[n.lastEnd:n.End], " \t") && !bytes.Equal(removed, d.Text) &&
		bytes.IndexByte(d.Text[n.lastEnd:n.End], '\n') >= 0 {
		t.Fatalf("%q became %q and then %q: spaces changed", d.Text, text, removed)
	}
	for i := range m.Len() { // every other one can go, too
		if other := after.Remove(m, i); m.Kind >= Array {
			if _, err := Parse(other, d.dialect); err != nil {
				t.Fatalf("%q without %d became %q: %v", text, i, other, err)
			}
		}
	}
}

func strip(text []byte) string { return strings.Join(strings.Fields(string(text)), "") }

func FuzzEdit(f *testing.F) {
	for _, s := range []string{`{}`, "{\r\n\t\"a\" : [1,2 , {\"b\":null}] // c\r\n}", `[1,/*x*/]`,
		"\ufeff{\"a\":{\"a\":\"\\u00e9\"},}",
		"[\n// a\n[]//b\n,//c\n]//d", `{"a":1,"a":[[]]}`, "[{ }\n]", "[1//\n]"} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint8) {
		d, err := Parse(text, loose)
		if err != nil {
			return
		}
		if all := containers(d.Root); len(all) > 0 {
			insertAndRemove(t, d, int(at)%len(all))
		}
	})
}

// TestEditProperty is FuzzEdit on texts that a generator writes, so that deep ones with comments are reached.
func TestEditProperty(t *testing.T) {
	space := rapid.SampledFrom([]string{"", "", " ", "\n", "\r\n\t", "\n  ", "// c\n", "/* b */", " // d\r\n  ", "/**/ "})
	var value func(t *rapid.T, depth int) string
	value = func(t *rapid.T, depth int) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth > 3 || kind < 2 {
			return rapid.SampledFrom([]string{"1", "-0.10e3", `"x"`, `"\u0041//"`, "null", "true", "{}", "[]"}).Draw(t, "leaf")
		}
		brackets := [...]string{"[]", "{}"}[kind%2]
		var b strings.Builder
		b.WriteString(brackets[:1])
		count := rapid.IntRange(0, 3).Draw(t, "count")
		for i := range count {
			b.WriteString(space.Draw(t, "space"))
			if brackets == "{}" {
				b.WriteString(`"m` + strings.Repeat("x", i) + `"` + space.Draw(t, "space") + ":" + space.Draw(t, "space"))
			}
			b.WriteString(value(t, depth+1) + space.Draw(t, "space"))
			if i < count-1 || rapid.Bool().Draw(t, "trailing") {
				b.WriteString(",")
			}
		}
		return b.String() + space.Draw(t, "space") + brackets[1:]
	}
	rapid.Check(t, func(t *rapid.T) {
		text := space.Draw(t, "space") + value(t, 0) + space.Draw(t, "space")
		d, err := Parse([]byte(text), loose)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for at := range containers(d.Root) {
			insertAndRemove(t, d, at)
		}
	})
}
