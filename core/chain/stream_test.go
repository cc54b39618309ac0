package chain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// pieces is a scanner that takes texts whole and in pieces with the same function.
type pieces struct {
	find func(text string, state []byte) ([]sdk.Finding, []byte)
	err  error
}

func (p pieces) About() chain.About { return chain.About{Version: "1"} }
func (p pieces) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	found, _ := p.find(in.Text, nil)
	return found, p.err
}
func (p pieces) ScanPiece(_ context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	found, state := p.find(w.Text, w.State)
	return found, state, p.err
}

// literal finds every place of a literal.
func literal(kind, lit string) pieces {
	return pieces{find: func(text string, _ []byte) (found []sdk.Finding, _ []byte) {
		for i := range len(text) + 1 {
			if strings.HasPrefix(text[i:], lit) {
				found = append(found, find(kind, i, i+len(lit), sdk.High))
			}
		}
		return found, nil
	}}
}

// marked finds what stands between '<' and the next '>', of at most 6 bytes, if an 'a' or nothing stands behind.
var marked = pieces{find: func(text string, _ []byte) (found []sdk.Finding, _ []byte) {
	for i := range len(text) {
		end := strings.IndexByte(text[i:min(i+8, len(text))], '>')
		if text[i] == '<' && end >= 0 && (i+end+1 == len(text) || text[i+end+1] == 'a') {
			found = append(found, find("MARKED", i, i+end+1, sdk.Medium), find("INSIDE", i+1, i+end, sdk.Low))
		}
	}
	return found, nil
}}

// after finds every 'x' behind "key-", and calm every "key" without an 'x' in the 3 bytes behind it.
var after = pieces{find: func(text string, _ []byte) (found []sdk.Finding, _ []byte) {
	for i := range len(text) {
		if text[i] == 'x' && strings.HasSuffix(text[:i], "key-") {
			found = append(found, find("AFTER", i, i+1, sdk.Low))
		}
	}
	return found, nil
}}

var calm = pieces{find: func(text string, _ []byte) (found []sdk.Finding, _ []byte) {
	for i := range len(text) {
		if strings.HasPrefix(text[i:], "key") && !strings.Contains(text[i+3:min(i+6, len(text))], "x") {
			found = append(found, find("CALM", i, i+3, sdk.Low))
		}
	}
	return found, nil
}}

// twice finds every "ke" two times, with different suggestions: these are no doubles.
var twice = pieces{find: func(text string, _ []byte) (found []sdk.Finding, _ []byte) {
	for i := range len(text) {
		if strings.HasPrefix(text[i:], "ke") {
			one, two := find("TWICE", i, i+2, sdk.Low), find("TWICE", i, i+2, sdk.Low)
			one.Replacement = "one"
			found = append(found, one, two)
		}
	}
	return found, nil
}}

// odd finds every 'x' with an odd number of '-' before it. Its state is that number's last bit.
var odd = pieces{find: func(text string, state []byte) (found []sdk.Finding, _ []byte) {
	n := byte(0)
	if len(state) > 0 {
		n = state[0]
	}
	for i := range len(text) {
		switch {
		case text[i] == '-':
			n ^= 1
		case text[i] == 'x' && n == 1:
			found = append(found, find("ODD", i, i+1, sdk.Info))
		}
	}
	return found, []byte{n}
}}

func window(n int) abi.Stream { return abi.Stream{Mode: abi.StreamWindow, Lookbehind: n} }

// streamSteps are the steps of which tests make chains.
var streamSteps = []chain.ScanStep{
	{Name: "key", OnError: sdk.Deny, Scanner: literal("KEY", "key"), Stream: window(3), Triggers: []abi.Trigger{{Literal: "key"}}},
	{Name: "long", OnError: sdk.Deny, Scanner: literal("LONG", "a key"), Stream: window(5)},
	{Name: "twin", OnError: sdk.Deny, Scanner: literal("TWIN", "xx"), Stream: window(2), Triggers: []abi.Trigger{{Literal: "xx"}}},
	{Name: "marked", OnError: sdk.Deny, Scanner: marked, Stream: window(9), Triggers: []abi.Trigger{{Literal: "<"}}},
	{Name: "wide", OnError: sdk.Deny, Scanner: literal("WIDE", "é"), Stream: window(2)},
	{Name: "half", OnError: sdk.Deny, Scanner: literal("HALF", "\xa9"), Stream: window(1)},
	{Name: "first", OnError: sdk.Deny, Scanner: literal("FIRST", "\xc3"), Stream: window(1)},
	{Name: "low", OnError: sdk.Deny, Scanner: literal("LOW", "e00"), Stream: window(3)},
	{Name: "after", OnError: sdk.Deny, Scanner: after, Stream: window(4)},
	{Name: "calm", OnError: sdk.Deny, Scanner: calm, Stream: window(3)},
	{Name: "twice", OnError: sdk.Deny, Scanner: twice, Stream: window(2)},
	{Name: "number", OnError: sdk.Deny, Scanner: literal("NUMBER", "12"), Stream: window(2)},
	{Name: "escape", OnError: sdk.Deny, Scanner: literal("ESCAPE", "83d"), Stream: window(3)},
	{Name: "quote", OnError: sdk.Deny, Scanner: literal("QUOTE", "\"x"), Stream: window(2)},
	{Name: "odd", OnError: sdk.Deny, Scanner: odd, Stream: abi.Stream{Mode: abi.StreamStateful}, Triggers: []abi.Trigger{{Literal: "x"}}},
	{Name: "whole", OnError: sdk.Deny, Scanner: literal("WHOLE", "key"), Stream: abi.Stream{Mode: abi.StreamNone}},
	{Name: "slash", OnError: sdk.Deny, Scanner: literal("SLASH", "a/x"), Stream: window(3), Triggers: []abi.Trigger{{Literal: "/x"}}},
	{Name: "newline", OnError: sdk.Deny, Scanner: literal("NEWLINE", "\nkey"), Stream: window(4)},
	{Name: "smile", OnError: sdk.Deny, Scanner: literal("SMILE", "🙂"), Stream: window(4)},
	{Name: "spelled", OnError: sdk.Deny, Scanner: literal("SPELLED", "k\\u"), Stream: abi.Stream{Mode: abi.StreamNone}},
	{Name: "broken", OnError: sdk.Abstain, Scanner: pieces{find: odd.find, err: errors.New("trap")}, Stream: window(2)},
	{Name: "lost", OnError: sdk.Abstain, Scanner: pieces{find: odd.find, err: errors.New("trap")}, Stream: abi.Stream{Mode: abi.StreamStateful}},
	{Name: "elsewhere", OnError: sdk.Deny, Match: chain.Match{Tools: []string{"mail/*"}}, Scanner: literal("NEVER", "a"), Stream: window(1)},
}

var streamTexts = []string{"", "key", "a key a key", "keykey<a key>a", "xxxxx", "é", "éé key é", `{"a":"key","b":12}`,
	`["keykey"]`, `{"a":"keykeykey","b":"key-x"}`, `["\ud83d\ude00"]`, "key-x key--x ekey",
	`["key\ud83d\ude00x",12,true,"é"] `, `{"k":"\u00e9 key \\key\"x"}`,
	`["a key", "b"`, `"key"`, ` {"key" : "x-x-x"}`, `[12,1234,-12]`, `{"a":"key"}{"b":"key"}`, "<é>a<key>a<>a-x",
	`["k\u0065y",{"\u006b\u0065\u0079":"a\/x"}]`, `["\\u006bey \u005cu006bey \u005cu005cu005cu006bey","\\\\u006bey"]`,
	`k\u0065y \n\u006bey \u006`, `["\\nkey\nkey"]`, `{"a":"{\"key\":\"k\\u0065y\"}"}`,
	`["\uD83D\uDE42 \ud83d\u0041 \ude42 \ud83d`, `\u003ckey\u003ea-\u0078`, `["\ud83d\ud83dx"]`, "[\"<\",\">a\"]",
	"🙂key🙂x-x🙂", "k\x1b[31mey <\x1b[0mkey>a", `["k\u001b[31mey","\u009b1mkey"]`, "a\x1b]8;;x\x1b\\ key\x1b]8;;\x07",
	`\u00e\u0062 \u006b\u00\u00`, `\x1\u0062[1mkey`, "\\u00\x1b[m6bey key",
	"k^[[31mkey^[[0m a", `^\u005b[1mkey ^[[3\u0031mkey`, `\u00^[[m6bey ^[[key^\\[[1mkey`, "^[[1\x1b[mmkey ^\u009b[[1mkey"}

func randomText(rng *rand.Rand) string {
	parts := []string{"key", "a ", "a key", "x", "xx", "-", "<", ">", ">a", "é", "🙂", "12", "1", `"`, `"x`, `\ud83d`,
		`\ude00`, `\"`, `\\`, "{", "}", "[", "]", ",", ":", `{"a":"`, `"}`, `["`, `"]`, "true", " ", "\n",
		`\u006bey`, `k\u0065y`, `\/x`, `\n`, `\\u006b`, `\u005cu0065y`, `\u`, `\u00`, `ey`, `\u0078`, `\u002d`,
		"^", "^[[1m", "[[m", "[1", "\x1b[1m", "\x1b[", "\x1b", "\x1b[C", "\x1b]0;a\x07", "\x1b]", "\x07", "\u009b1m", "m",
		`\u001b[1m`, `\x1b`, `\e[m`, `\u{6b}`, "k", `\`, `\x1`, `\u006`, "b"}
	var b strings.Builder
	if rng.IntN(2) == 0 { // JSON, perhaps broken off
		b.WriteString(randomJSON(rng, 3))
		if rng.IntN(4) == 0 {
			return b.String()[:rng.IntN(b.Len()+1)]
		}
		return b.String()
	}
	for range rng.IntN(14) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

func randomJSON(rng *rand.Rand, depth int) string {
	if n := rng.IntN(6); depth == 0 || n < 2 {
		return []string{"12", "-1.5e12", "true", "null", `""`, `"a"`}[rng.IntN(6)]
	} else if n < 4 {
		parts := []string{"key", "a key", "x", "-", "<key>a", "é", "🙂", "12", `\ud83d\ude00`, `\ud83d`, `\"`, `\\`, `\u00e9`,
			" ", `\u006bey`, `k\u0065y`, `\/x`, `\n`, `\\u006b`, `\u005cu0065y`, `ey`, `\u0078`, `\u002d`, `\u003ckey\u003e`,
			`{\"key\":\"k\\u0065y\"}`}
		s := `"`
		for range rng.IntN(6) {
			s += parts[rng.IntN(len(parts))]
		}
		return s + `"`
	}
	var members []string
	for range rng.IntN(4) {
		members = append(members, randomJSON(rng, depth-1))
	}
	if rng.IntN(2) == 0 {
		return "[" + strings.Join(members, ",") + "] "
	}
	for i := range members {
		members[i] = `"` + []string{"key", "a", "x-x"}[rng.IntN(3)] + `": ` + members[i]
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// randomChain picks steps and actions. Where it denies, streams need not equal one scan.
func randomChain(t testing.TB, rng *rand.Rand) *chain.ScanChain {
	c := &chain.ScanChain{Budget: time.Minute, Now: steady}
	for _, i := range rng.Perm(len(streamSteps))[:1+rng.IntN(5)] {
		s := streamSteps[i]
		s.Shadow = rng.IntN(6) == 0
		c.Steps = append(c.Steps, s)
	}
	for _, kind := range []string{"KEY", "LONG", "TWIN", "MARKED", "INSIDE", "WIDE", "HALF", "NUMBER", "ESCAPE", "QUOTE",
		"ODD", "WHOLE", "SLASH", "NEWLINE", "SMILE", "SPELLED", "FIRST", "LOW", "AFTER", "CALM", "TWICE"} {
		r := chain.ActionRule{Kinds: []string{kind},
			Action: []sdk.Action{sdk.Allow, sdk.Flag, sdk.Redact, sdk.Redact, sdk.Redact, sdk.Replace}[rng.IntN(6)]}
		if rng.IntN(30) == 0 {
			r.Action = sdk.Drop
		}
		if rng.IntN(3) == 0 {
			r.Replacement = []string{`"`, "\n", "#", "{kind}é", "{mask}", "<{format}>", "{token}"}[rng.IntN(7)]
		}
		c.Actions = append(c.Actions, r)
	}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	return c
}

// wantSame writes the pieces of a text and compares what they give, joined, with one scan of it.
func wantSame(t testing.TB, c *chain.ScanChain, cut ...string) {
	t.Helper()
	text := strings.Join(cut, "")
	in := chain.Input{Text: text, ToolID: "files/read", ContentType: []string{"", "application/json"}[len(text)%2],
		MaskKey:  func() []byte { return []byte("session") },
		TokenKey: func() []byte { return []byte("session") }}
	want := c.Run(context.Background(), &in)
	s := c.NewStream(&in, 1<<20)
	var got chain.ScanResult
	var out strings.Builder
	settled := 0
	for i, piece := range cut {
		_, once := s.Next(context.Background(), piece, i == len(cut)-1)
		next, res := s.Next(context.Background(), piece, i == len(cut)-1)
		if fmt.Sprint(once.Text, once.Findings, once.Outcome) != fmt.Sprint(res.Text, res.Findings, res.Outcome) {
			t.Fatalf("%q: a piece changed the stream before it", cut)
		}
		for _, f := range append(append([]sdk.Finding(nil), res.Findings...), res.Shadow...) {
			if f.Start < res.At || f.End > res.At+len(res.Around) {
				t.Fatalf("%q: finding %v is not in %q at %d", cut, f, res.Around, res.At)
			}
			if text[f.Start:f.End] != res.Around[f.Start-res.At:f.End-res.At] {
				t.Fatalf("%q: finding %v is of %q", cut, f, res.Around[f.Start-res.At:f.End-res.At])
			}
		}
		got.Findings, got.Shadow = append(got.Findings, res.Findings...), append(got.Shadow, res.Shadow...)
		if res.Outcome == chain.Denied {
			if want.Outcome != chain.Denied {
				t.Fatalf("%q: denied: %s", cut, res.Reason)
			}
			if res.Released != out.Len() || res.Settled != settled || res.Text != "" || next != nil {
				t.Fatalf("%q: denied with %d and %d released, want %d and %d", cut, res.Released, res.Settled, out.Len(), settled)
			}
			return
		}
		out.WriteString(res.Text)
		if settled = res.Settled; res.Released != out.Len() {
			t.Fatalf("%q: %d bytes said to be released, %d are", cut, res.Released, out.Len())
		}
		if s = next; (s == nil) != (i == len(cut)-1) {
			t.Fatalf("%q: the end is at %d", cut, i)
		}
	}
	switch {
	case want.Outcome == chain.Denied:
		t.Fatalf("%q: released, and one scan denies: %s", cut, want.Reason)
	case out.String() != want.Text:
		t.Fatalf("%q, %s\n released %q\n     want %q", cut, rules(c), out.String(), want.Text)
	case fmt.Sprint(got.Findings) != fmt.Sprint(want.Findings):
		t.Fatalf("%q, %s\n found %v\n want  %v", cut, rules(c), got.Findings, want.Findings)
	case len(got.Shadow) != len(want.Shadow):
		t.Fatalf("%q, %s\n in shadow %v\n want      %v", cut, rules(c), got.Shadow, want.Shadow)
	case settled != len(text):
		t.Fatalf("%q: %d bytes settled", cut, settled)
	}
}

func rules(c *chain.ScanChain) string {
	var b strings.Builder
	for _, s := range c.Steps {
		fmt.Fprintf(&b, "%s(shadow %v) ", s.Name, s.Shadow)
	}
	for _, r := range c.Actions {
		fmt.Fprintf(&b, "%s:%s%s ", r.Kinds[0], r.Action, strconv.Quote(r.Replacement))
	}
	return b.String()
}

// cutEverywhere cuts a text at every place, bytes of characters included, and into single bytes.
func cutEverywhere(t testing.TB, c *chain.ScanChain, text string) {
	t.Helper()
	for at := 0; at <= len(text); at++ {
		wantSame(t, c, text[:at], text[at:])
		wantSame(t, c, text[:at/2], "", text[at/2:at], text[at:], "")
	}
	single := []string{""}
	for i := range len(text) {
		single = append(single, text[i:i+1])
	}
	wantSame(t, c, single...)
}

func randomCut(rng *rand.Rand, text string) []string {
	var out []string
	for text != "" {
		n := min(1+rng.IntN(7), len(text))
		out, text = append(out, text[:n]), text[n:]
	}
	return append(out, "")
}

// FuzzStream cuts any bytes anywhere: it must not panic, and what is UTF-8 must come out as from one scan.
func FuzzStream(f *testing.F) {
	for i, s := range streamTexts {
		f.Add(s, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c := randomChain(t, rng)
		cut := randomCut(rng, text)
		if utf8.ValidString(text) {
			wantSame(t, c, cut...)
			return
		}
		s := c.NewStream(&chain.Input{ToolID: "files/read"}, 1<<20)
		for i := 0; s != nil; i++ {
			s, _ = s.Next(context.Background(), cut[i], i == len(cut)-1)
		}
	})
}

func TestStreamsEqualOneScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	for n := range rounds {
		c := randomChain(t, rng)
		text := randomText(rng)
		if n < len(streamTexts)*8 {
			text = streamTexts[n%len(streamTexts)]
		}
		cutEverywhere(t, c, text)
		wantSame(t, c, randomCut(rng, text)...)
		wantSame(t, c, text)
	}
}

// A denial names the findings of its own piece: those it is for, and those that were settled before there was too much.
func TestStreamDenialNamesItsFindings(t *testing.T) {
	for name, c := range map[string]struct {
		action sdk.Action
		text   string
		code   string
	}{
		"too much is held": {sdk.Redact, "key " + strings.Repeat("a", 5000), sdk.ReasonOutputSize},
		"a denied kind":    {sdk.Drop, strings.Repeat("a", 3000) + " key " + strings.Repeat("a", 3000), "OUTPUT_KEY"},
	} {
		chained := &chain.ScanChain{Budget: time.Minute, Now: time.Now,
			Actions: []chain.ActionRule{{Action: c.action, Replacement: "#"}},
			Steps:   []chain.ScanStep{{Name: "lit", OnError: sdk.Deny, Scanner: literal("KEY", "key"), Stream: window(2000)}}}
		if err := chained.Prepare(); err != nil {
			t.Fatal(err)
		}
		next, res := chained.NewStream(&chain.Input{ToolID: "a"}, 1500).Next(context.Background(), c.text, false)
		if next != nil || res.Outcome != chain.Denied || res.Code != c.code || res.Text != "" || len(res.Findings) != 1 ||
			res.Findings[0].Kind != "KEY" {
			t.Errorf("%s: %s %s, findings %v", name, res.Outcome, res.Code, res.Findings)
		}
	}
}

// What stands in for a value in part depends on what touches it, so a stream waits until it knows.
func TestStreamsWaitForWhatTouches(t *testing.T) {
	const text = "see 111122223333" + "444455556666 and so on, and on, and on, to the very end of it"
	for _, template := range []string{"<{format}>", "{token}", "[{kind}]"} {
		for _, behind := range []int{12, 14, 20, 30} {
			c := &chain.ScanChain{Budget: time.Minute, Now: steady, Actions: []chain.ActionRule{{Action: sdk.Redact,
				Replacement: template}}, Steps: []chain.ScanStep{{Name: "groups", Scanner: groups{}, OnError: sdk.Deny,
				Stream: abi.Stream{Mode: abi.StreamWindow, Lookbehind: behind}}}}
			if err := c.Prepare(); err != nil {
				t.Fatal(err)
			}
			cutEverywhere(t, c, text)
		}
	}
}

// A value that ends within a character is touched by what begins behind that character.
func TestStreamsWaitForWholeCharacters(t *testing.T) {
	for _, template := range []string{"<{format}>", "{token}"} {
		for shift := range 8 {
			c := &chain.ScanChain{Budget: time.Minute, Now: steady, Actions: []chain.ActionRule{{Action: sdk.Redact,
				Replacement: template}}}
			for i, lit := range []string{"1111222233334444\xc3", "5555"} {
				c.Steps = append(c.Steps, chain.ScanStep{Name: lit, OnError: sdk.Deny, Scanner: literal("KEY", lit),
					Stream: window(len(lit) + i*(10+shift))})
			}
			if err := c.Prepare(); err != nil {
				t.Fatal(err)
			}
			cutEverywhere(t, c, "see 1111222233334444é5555 and so on, to the end of it all, "+strings.Repeat("-", shift))
		}
	}
}

// groups finds each group of twelve digits.
type groups struct{}

func (groups) About() chain.About { return chain.About{} }
func (groups) Scan(_ context.Context, in *chain.Input) (found []sdk.Finding, _ error) {
	for at := 0; at+12 <= len(in.Text); {
		if group := in.Text[at : at+12]; strings.Trim(group, "0123456789") == "" {
			found = append(found, sdk.Finding{Kind: "KEY", Scanner: "groups", Start: at, End: at + 12, Confidence: 1})
			at += 12
			continue
		}
		at++
	}
	return found, nil
}
func (g groups) ScanPiece(ctx context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	found, err := g.Scan(ctx, &w.Input)
	return found, nil, err
}
