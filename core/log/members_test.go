package log

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzMembers holds Members against a parser: of what it takes for an object it gives every member with its value,
// unless the text is no JSON at all, which records never are.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"type":"decision","seq":7,"args":{"a":[1,{"b":"}"}]},"agent_id":"a\"b","t":true}`,
		`{"a":"\\","b":"\\\""}`, `{ "a":1}`, `{"\u0061":1}`,
		`{"a":1,}`, `{"a"}`, `{"a":}`, `[1]`, `{"a":1}}`, `{"a":1} `, `{"a":[}`} {
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
