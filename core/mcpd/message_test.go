package mcpd

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/exact"
)

// What a strict reader refuses is read as another sign, and no byte moves.
func TestTame(t *testing.T) {
	for in, want := range map[string]string{
		`"\u0000"`: `"\u2400"`, `"\ud800"`: `"\ufffd"`, `"\uD83D\uDE00"`: `"\uD83D\uDE00"`, `"\\u0000"`: `"\\u0000"`,
		`"\ud83d\ud83d\ude00"`: `"\ufffd\ud83d\ude00"`, `"\ude00\ud83d"`: `"\ufffd\ufffd"`, `"\ud83d\n"`: `"\ufffd\n"`,
		`"\\\u0000\u0041"`: `"\\\u2400\u0041"`, `"\u00`: `"\u00`, `"\u00zz"`: `"\u00zz"`, `"\`: `"\`, "plain": "plain",
		`"\n\u0000"`: `"\n\u2400"`, `"a\"\u0000"`: `"a\"\u2400"`,
	} {
		if got := tame(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"a":"\u0000\ud800"}}`)
	f.Add(`{"jsonrpc":"2.0","method":"a","params":{"b":[1e400]}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if got := tame(raw); len(got) != len(raw) || tame(got) != got {
			t.Errorf("%q: %q", raw, got)
		}
		m, fault := parseAnswer(raw, exact.DefaultLimits)
		if fault != nil {
			return
		}
		if m.raw != raw {
			t.Error("the bytes changed")
		}
		if m.params.Exists() {
			out := apply(raw, []edit{replace(m.params, without(raw, m.params, "a", "_meta"))})
			n, fault := parseAnswer(out, exact.DefaultLimits)
			if fault != nil {
				t.Fatalf("%q: %q: %v", raw, out, fault)
			}
			if n.params.Get("a").Exists() || n.params.Get("_meta").Exists() || n.method != m.method {
				t.Errorf("%q: %q", raw, out)
			}
		}
		if strings.Contains(m.method, "\x00") {
			t.Error("a NUL in a method")
		}
	})
}
