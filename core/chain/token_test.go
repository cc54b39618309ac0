package chain

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/yett-dev/yett/sdk"
)

// hide redacts the value's first place with a token of a session.
func hide(t interface{ Fatal(...any) }, text, value, session string) string {
	return hideAt(t, text, strings.Index(text, value), value, session)
}

func hideAt(t interface{ Fatal(...any) }, text string, at int, value, session string) string {
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

// reveal is Reveal with the key of a session.
func reveal(session, text string) (out string, revealed, unknown int) {
	out, revealed, unknown, err := Reveal(context.Background(), []byte(session), text)
	if err != nil {
		panic(err)
	}
	return out, revealed, unknown
}

// TestTokens: a token comes back to its value with its session's key, and with no other; what was changed does not.
func TestTokens(t *testing.T) {
	const text, value = "mail jane@corp.example, or [not a token] [A#] [A#!] [#x]", "jane@corp.example"
	hidden := hide(t, text, value, "one")
	if strings.Contains(hidden, "jane") || !strings.Contains(hidden, "mail [PII_EMAIL#") ||
		hidden != hide(t, text, value, "one") {
		t.Fatalf("hidden as %s", hidden)
	}
	if out, n, unknown := reveal("one", hidden); out != text || n != 1 || unknown != 0 {
		t.Errorf("%q, %d revealed, %d unknown", out, n, unknown)
	}
	if out, n, unknown := reveal("two", hidden); out != hidden || n != 0 || unknown != 1 {
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
		if out, n, _ := reveal("one", changed); out != changed || n != 0 {
			t.Fatalf("a token with another byte at %d is revealed: %s", i-open, out)
		}
	}
	phone := strings.Replace(hidden, "PII_EMAIL#", "PII_PHONE#", 1)
	if out, n, unknown := reveal("one", phone); n != 0 || unknown != 1 {
		t.Errorf("a token of another kind is revealed: %s", out)
	}
}

// TestTokensComeBack: whatever the value, the text comes back byte for byte, also where JSON is within a line, or
// within a string of other JSON.
func TestTokensComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(1, 60, 200).Draw(t, "value")
		inside := quoted(value)
		inside = inside[1 : len(inside)-1]
		twice := quoted(inside)
		twice = twice[1 : len(twice)-1]
		for _, c := range [][3]string{
			{"before ", value, " behind"},
			{`{"a":[1, "`, inside, `"],"b":0.10}`},
			{`{"a":"`, inside, "\"}\n{}\n"},
			{`{"a":"{\"b\":\"`, twice, `\"}"}`},
			{`data: {"n":`, "12345678901234567890", "}" + value},
		} {
			text := strings.Join(c[:], "")
			hidden := hideAt(t, text, len(c[0]), c[1], "one")
			if out, n, _ := reveal("one", hidden); n != 1 || out != text {
				t.Fatalf("%q came back as %q, %d revealed", text, out, n)
			}
		}
	})
}

// TestTokenInJSON: a value that would break a string of JSON is escaped there.
func TestTokenInJSON(t *testing.T) {
	hidden := strings.TrimPrefix(hide(t, "x a\"b\nc", "a\"b\nc", "one"), "x ")
	if out, _, _ := reveal("one", `{"v":"`+hidden+`"}`); out != `{"v":"a\"b\nc"}` {
		t.Error(out)
	}
	if out, _, _ := reveal("one", "v="+hidden); out != "v=a\"b\nc" {
		t.Error(out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, _, _, err := Reveal(ctx, []byte("one"), hidden); err == nil || out != "" {
		t.Errorf("a request that has gone is answered: %q", out)
	}
}

// FuzzReveal: no text breaks it, and what it reveals was made with the key.
func FuzzReveal(f *testing.F) {
	f.Add("[PII_EMAIL#AAAA]")
	f.Add(hide(f, "x y", "y", "one"))
	f.Add(`{"a":"[A#` + strings.Repeat("A", 40) + `]"}`)
	f.Fuzz(func(t *testing.T, text string) {
		out, n, _ := reveal("nobody made a token with this key", text)
		if n != 0 || out != text {
			t.Fatalf("%q became %q", text, out)
		}
	})
}
