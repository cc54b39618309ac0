package log

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzMembers holds Members against a parser: what it takes for an object is one, and it gives every member with its
// value.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"type":"decision","seq":7,"args":{"a":[1,{"b":"}"}]},"agent_id":"a\"b","t":true}`,
		`{"a":"\\","b":"\\\""}`, `{ "a":1}`, `{"\u0061":1}`,
		`{"a":1,}`, `{"a"}`, `{"a":}`, `[1]`, `{"a":1}}`, `{"a":1} `, `{"a":[}`, `{"a":nul}`,
		`{"a":-0.5e+7,"b":01}`, `{"é":"日本\u00e9\/"}`, "{\"a\":\"12345678\x01\"}", `{"a":"\u12"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var names []string
		got := map[string][]byte{}
		ok := Members(text, func(name, value []byte) bool {
			names = append(names, string(name))
			got[string(name)] = value
			return true
		})
		if stopped := 0; !Members(text, func(_, _ []byte) bool { stopped++; return false }) && ok || stopped > 1 {
			t.Errorf("%q: ends after %d members", text, stopped)
		}
		if ok && !json.Valid(text) {
			t.Fatalf("%q is no JSON", text)
		}
		if !json.Valid(text) || !utf8.Valid(text) {
			return
		}
		var want map[string]json.RawMessage
		if !ok {
			if err := json.Unmarshal(text, &want); err != nil || bytes.ContainsAny(text, " \t\r\n\\") || want == nil {
				return // it is not sure of these
			}
			t.Fatalf("%q is an object as records are", text)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for _, name := range names {
			if raw, there := want[name]; json.Valid([]byte(`"`+name+`"`)) &&
				(!there || !bytes.Equal(bytes.TrimSpace(got[name]), raw)) {
				t.Errorf("%q: %q is %q, want %q", text, name, got[name], raw)
			}
		}
	})
}

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{`"a"`: "a", `""`: "", `"a\n"`: "-", `1`: "-", `"`: "-", ``: "-"} {
		got, ok := PlainText([]byte(in))
		if text := string(got); ok != (want != "-") || ok && text != want {
			t.Errorf("%s: %q, %v", in, got, ok)
		}
	}
}

// Whatever stands in front of it, a byte that ends a text or is none of its own is found.
func TestUsual(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			text := bytes.Repeat([]byte("~ !#"), 8)[:24]
			text[at], text[23] = byte(c), '"'
			want := 23
			if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
				want = at
			}
			if got := usual(text, 0); got != want {
				t.Fatalf("%q: %d, want %d", text, got, want)
			}
		}
	}
}
