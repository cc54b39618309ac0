package chain

import (
	"slices"
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

// What is found more than once, by each reading in its own way, is one value. What goes in whole characters is in the
// token, and what another scanner hides is not shown.
func TestFoundTwice(t *testing.T) {
	const text = "a 4111é1111é1234 z"
	card := sdk.Finding{Kind: "CARD", Start: 2, End: 18, Confidence: 0.5}
	surer, longer, other, part := card, card, card, card
	surer.Confidence, surer.Severity = 1, sdk.High
	longer.End = 20
	other.Kind = "OTHER"
	part.End = 7 // within the é
	behind := sdk.Finding{Kind: "CARD", Start: 7, End: 18}
	for name, c := range map[string]struct {
		found []sdk.Finding
		form  string
		token bool // there is one, that brings the text back
	}{
		"once":                  {[]sdk.Finding{card}, "a **********1234 z", true},
		"once more, and surer":  {[]sdk.Finding{surer, card}, "a **********1234 z", true},
		"longer":                {[]sdk.Finding{card, longer}, "a [CARD]", false},
		"as another kind":       {[]sdk.Finding{card, other}, "a [CARD] z", false},
		"to within a character": {[]sdk.Finding{part}, "a *****1111é1234 z", true},
		"on within a character": {[]sdk.Finding{part, behind}, "a [CARD] z", false},
	} {
		for _, template := range []string{"{format}", "{token}"} {
			sc := &ScanChain{Actions: []ActionRule{{Action: sdk.Redact, Replacement: template}}}
			in := &Input{TokenKey: session("one")}
			out, err := redact(text, sc.judge(in, text, 0, slices.Clone(c.found)), false)
			switch back, n, _ := reveal("one", out); {
			case err != nil:
				t.Error(err)
			case template == "{format}" && out != c.form:
				t.Errorf("%s: %s, want %s", name, out, c.form)
			case template == "{token}" && (n == 1) != c.token, n == 1 && back != text:
				t.Errorf("%s: the token of %s brings back %s", name, out, back)
			}
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
