package chain

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// one redacts the first place of each value with a template.
func one(t *testing.T, text, template string, key func() []byte, values ...string) string {
	t.Helper()
	var found []sdk.Finding
	for _, v := range values {
		if v == "" {
			continue
		}
		at := strings.Index(text, v)
		if at < 0 {
			t.Fatalf("%q does not hold %q", text, v)
		}
		found = append(found, sdk.Finding{Kind: "CARD", Start: at, End: at + len(v)})
	}
	c := &ScanChain{Actions: []ActionRule{{Action: sdk.Redact, Replacement: template}}}
	found = c.judge(&Input{MaskKey: key}, text, 0, found)
	out, err := redact(text, found, false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func session(name string) func() []byte { return func() []byte { return []byte(name) } }

// TestFormat holds what {format} shows: separators, and the end of what is long enough.
func TestFormat(t *testing.T) {
	for _, row := range []struct{ value, want string }{
		{"4111-1111-1111-1234", "<****-****-****-1234>"},
		{"4111 1111 1111 1234", "<**** **** **** 1234>"},
		{"12345678901", "<***********>"}, // eleven: too short to show anything of
		{"123456789012", "<********9012>"},
		{"jane.doe@mail.example", "<****.***@****.***mple>"},
		{"{kind}{mask}abcdef", "<**************cdef>"},
		{"äöü€12", "<******>"},
		{"--..--", "[CARD]"}, // nothing would be hidden
	} {
		if got := one(t, "a "+row.value+" z", "<{format}>", nil, row.value); got != "a "+row.want+" z" {
			t.Errorf("%s: %s, want %s", row.value, got, row.want)
		}
	}
	number := one(t, `{"card":4111111111111234}`, "{format}", nil, "4111111111111234")
	if number != `{"card":"************1234"}` {
		t.Error(number)
	}
	// what touches is one span, and the end of the first would be within the second
	for values, want := range map[[2]string]string{
		{"111122223333"}:                 "a ********333344445555 z",
		{"111122223333", "333344445555"}: "a [CARD] z",
		{"111122223333", "44445555"}:     "a [CARD] z",
	} {
		if got := one(t, "a 11112222333344445555 z", "{format}", nil, values[:]...); got != want {
			t.Errorf("%v: %s, want %s", values, got, want)
		}
	}
}

// TestMask holds that a value has one mask in a session, in whatever spelling, and another one elsewhere.
func TestMask(t *testing.T) {
	mask := func(text, value, name string) string {
		t.Helper()
		out := one(t, text, "[{kind}_{mask}]", session(name), value)
		_, rest, _ := strings.Cut(out, "[CARD_")
		m, _, ok := strings.Cut(rest, "]")
		if !ok || len(m) != 8 || strings.Trim(m, "0123456789abcdef") != "" {
			t.Fatalf("%s: %s", text, out)
		}
		return m
	}
	first := mask("mail a@b.example now", "a@b.example", "s1")
	if again := mask(`{"to":"a\u0040b.example"}`, `a\u0040b.example`, "s1"); again != first {
		t.Errorf("another spelling has the mask %s, not %s", again, first)
	}
	if other := mask("mail a@c.example now", "a@c.example", "s1"); other == first {
		t.Error("two values have one mask")
	}
	if other := mask("mail a@b.example now", "a@b.example", "s2"); other == first {
		t.Error("two sessions have one mask")
	}
	if got := one(t, "x abc z", "<{mask}>", nil, "abc"); got != "x [CARD] z" {
		t.Error(got)
	}
}
