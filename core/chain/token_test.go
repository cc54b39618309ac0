package chain

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/yett-dev/yett/sdk"
)

// hide redacts the value's first place with a token of a session.
func hide(t interface{ Fatal(...any) }, text, value, session string) string {
	at := strings.Index(text, value)
	found := []sdk.Finding{{Kind: "PII_EMAIL", Start: at, End: at + len(value)}}
	in := &Input{}
	if session != "" {
		in.TokenKey = func() []byte { return []byte(session) }
	}
	c := &ScanChain{Actions: []ActionRule{{Action: sdk.Redact, Replacement: "{token}"}}}
	out, err := redact(text, c.judge(in, text, 0, found), false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTokens: a token comes back to its value with its session's key, and with no other; what was changed does not.
func TestTokens(t *testing.T) {
	const text, value = "mail jane@corp.example, or [not a token] [A#] [A#!] [#x]", "jane@corp.example"
	hidden := hide(t, text, value, "one")
	if strings.Contains(hidden, "jane") || !strings.Contains(hidden, "mail [PII_EMAIL#") ||
		hidden != hide(t, text, value, "one") {
		t.Fatalf("hidden as %s", hidden)
	}
	if out, n, unknown := Reveal([]byte("one"), hidden); out != text || n != 1 || unknown != 0 {
		t.Errorf("%q, %d revealed, %d unknown", out, n, unknown)
	}
	if out, n, unknown := Reveal([]byte("two"), hidden); out != hidden || n != 0 || unknown != 1 {
		t.Errorf("another session: %q, %d revealed, %d unknown", out, n, unknown)
	}
	if hide(t, text, value, "two") == hidden {
		t.Error("two sessions have one token")
	}
	if got := hide(t, text, value, ""); !strings.Contains(got, "mail [PII_EMAIL],") {
		t.Errorf("without a session: %s", got)
	}
	long := strings.Repeat("x", tokenLimit+1)
	if got := hide(t, "a "+long, long, "one"); got != "a [PII_EMAIL]" {
		t.Errorf("a long value: %s", got)
	}
	open := strings.Index(hidden, "#") + 1
	for i := open; hidden[i] != ']'; i++ {
		changed := hidden[:i] + string(hidden[i]^1) + hidden[i+1:]
		if out, n, _ := Reveal([]byte("one"), changed); out != changed || n != 0 {
			t.Fatalf("a token with another byte at %d is revealed: %s", i-open, out)
		}
	}
	phone := strings.Replace(hidden, "PII_EMAIL#", "PII_PHONE#", 1)
	if out, n, unknown := Reveal([]byte("one"), phone); n != 0 || unknown != 1 {
		t.Errorf("a token of another kind is revealed: %s", out)
	}
}

// TestTokensComeBack: whatever the value, it comes back as it was, and JSON stays JSON.
func TestTokensComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(1, 60, 200).Filter(func(s string) bool {
			return !strings.ContainsFunc(s, unicode.IsControl) // terminals drop them, and what they begin
		}).Draw(t, "value")
		plain := "before " + value + " behind"
		if out, n, _ := Reveal([]byte("one"), hide(t, plain, value, "one")); n != 1 || Decoded(out) != Decoded(plain) {
			t.Fatalf("%q came back as %q, %d revealed", plain, out, n)
		}
		inside := quoted(value)
		text := `{"a":[1, ` + inside + `],"b":0.10}`
		out, n, _ := Reveal([]byte("one"), hide(t, text, inside, "one"))
		var was, is any
		if err := json.Unmarshal([]byte(text), &was); err != nil {
			t.Skip("no JSON")
		}
		if err := json.Unmarshal([]byte(out), &is); err != nil || n != 1 {
			t.Fatalf("%s came back as %s, %d revealed: %v", text, out, n, err)
		}
	})
}

// FuzzReveal: no text breaks it, and what it reveals was made with the key.
func FuzzReveal(f *testing.F) {
	f.Add("[PII_EMAIL#AAAA]")
	f.Add(hide(f, "x y", "y", "one"))
	f.Add(`{"a":"[A#` + strings.Repeat("A", 40) + `]"}`)
	f.Fuzz(func(t *testing.T, text string) {
		out, n, _ := Reveal([]byte("nobody made a token with this key"), text)
		if n != 0 || out != text {
			t.Fatalf("%q became %q", text, out)
		}
	})
}
