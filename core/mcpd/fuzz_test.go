package mcpd

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/exact"
)

// dataOf is what a client reads in a stream that ends lines where Unicode does, or only where the standard does.
func dataOf(stream string, everywhere bool) []string {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	if everywhere {
		stream = strings.Map(func(r rune) rune {
			if strings.ContainsRune("\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r) {
				return '\n'
			}
			return r
		}, stream)
	}
	var out, data []string
	for line := range strings.SplitSeq(stream, "\n") {
		if name, value, _ := strings.Cut(line, ":"); name == "data" {
			data = append(data, strings.TrimPrefix(value, " "))
		}
		if line == "" && data != nil {
			out, data = append(out, strings.Join(data, "\n")), nil
		}
	}
	return out
}

// Whatever a server sends as events, no client reads data in what goes on that were not data for the gateway.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: {}\n\n", "\ufeffdata: {}\r\n\r\n", ": \u2028data: {}\n\n", "event: x\ndata: {}\n\n",
		"id: 1\nretry: 10\ndata: {\ndata: }\n\n",
		"data\n\n", "data: [\"\u2028\u2028data: {}\u2028\"]\n\n", "id:\x00\ndata:1\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newReader(bytes.NewReader(in), 1<<20)
		var passed []byte
		var seen []string
		for {
			e, err := r.next()
			if err != nil {
				break
			}
			out := e.raw
			if e.has && e.data != "" {
				if !json.Valid([]byte(e.data)) || !utf8.ValidString(e.data) {
					continue // never passed on
				}
				text := escaped(e.data)
				if text != e.data {
					out = e.withData(text)
				}
				seen = append(seen, text)
			}
			passed = append(passed, out...)
		}
		for _, everywhere := range []bool{false, true} {
			for _, d := range dataOf(string(passed), everywhere) {
				if d != "" && !slices.Contains(seen, d) {
					t.Fatalf("%t: a client reads %q in %q", everywhere, d, passed)
				}
			}
		}
	})
}

// What is put in the place of escapes moves no byte, and leaves what is already acceptable as it is.
func FuzzTame(f *testing.F) {
	for _, s := range []string{`"\u0000"`, `"\ud800\udc00"`, `"\ud800"`, `"\\u0000"`,
		`"\\\u0000\"\udc00\ud800\ud800\udc00"`, `\u`, `"\uD83D\uDE00"`, `"\u00`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := tame(in)
		var doc exact.Doc
		switch {
		case len(out) != len(in):
			t.Fatalf("%q became %q", in, out)
		case doc.Parse(in, exact.DefaultLimits) == nil && out != in:
			t.Fatalf("%q needed nothing and became %q", in, out)
		case json.Valid([]byte(in)) && utf8.ValidString(in) &&
			doc.Parse(out, exact.Limits{Depth: 10000, Tokens: 1 << 20}) != nil:
			var any any
			if json.Unmarshal([]byte(out), &any) == nil && !strings.Contains(out, `{`) && !strings.Contains(out, `e`) &&
				!strings.Contains(out, `E`) {
				t.Fatalf("%q became %q, which is not acceptable", in, out)
			}
		}
	})
}
