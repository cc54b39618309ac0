package chain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// tokens finds what looks like a token, and the value of what is called a password: where a scanner needs the text
// around.
type tokens struct{}

var (
	planted  = "tok" + "_Ab12Cd34Ef"
	token    = regexp.MustCompile("tok" + `_[A-Za-z0-9]{10}`)
	password = regexp.MustCompile(`"password"\s*:\s*"([^"]{6,})"`)
)

func (tokens) About() chain.About { return chain.About{} }
func (tokens) Scan(_ context.Context, in *chain.Input) (found []sdk.Finding, _ error) {
	for _, m := range token.FindAllStringIndex(in.Text, -1) {
		found = append(found, find("TOKEN", m[0], m[1], sdk.High))
	}
	for _, m := range password.FindAllStringSubmatchIndex(in.Text, -1) {
		found = append(found, find("PASSWORD", m[2], m[3], sdk.High))
	}
	return found, nil
}

func tokenChain(t testing.TB) *chain.ScanChain {
	t.Helper()
	c := &chain.ScanChain{Budget: time.Minute, Now: steady, Actions: []chain.ActionRule{{Action: sdk.Redact}},
		Steps: []chain.ScanStep{{Name: "tokens", OnError: sdk.Deny, Scanner: tokens{},
			Triggers: []abi.Trigger{{Literal: "tok_"}, {Literal: "password"}}}}}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A secret is found and redacted in whatever spelling JSON has for it, and in texts that only look like JSON.
func TestEscapesHideNothing(t *testing.T) {
	c := tokenChain(t)
	for _, one := range []struct{ name, text, want string }{
		{"no escape", `{"a":"tok_Ab12Cd34Ef"}`, `{"a":"[TOKEN]"}`},
		{"one escape", `{"a":"x tok\u005fAb12Cd34Ef y"}`, `{"a":"x [TOKEN] y"}`},
		{"upper-case digits", `["tok\u005FAb12Cd34Ef"]`, `["[TOKEN]"]`},
		{"every character", `["` + spelled(planted, 1) + `"]`, `["[TOKEN]"]`},
		{"an escape behind", `["tok_Ab12Cd34Ef\n"]`, `["[TOKEN]\n"]`},
		{"its first character", `["\u0074ok_Ab12Cd34Ef"]`, `["[TOKEN]"]`},
		{"its last character", `["tok_Ab12Cd34E\u0066g"]`, `["[TOKEN]g"]`},
		{"the name in front of it", `{"p\u0061ssword":"hunter2"}`, `{"p\u0061ssword":"[PASSWORD]"}`},
		{"a name and a value", `{"p\u0061ssword":"\u0068unter2"}`, `{"p\u0061ssword":"[PASSWORD]"}`},
		{"JSON in a string", `{"a":"{\"password\":\"hunter2\"}"}`, `{"a":"{\"password\":\"[PASSWORD]\"}"}`},
		{"escapes in JSON in a string", `{"a":"{\"b\":\"tok\\u005fAb12Cd34Ef\"}"}`, `{"a":"{\"b\":\"[TOKEN]\"}"}`},
		{"the escape's own backslash", `["tok\u005cu005fAb12Cd34Ef"]`, `["[TOKEN]"]`},
		{"three deep", `["tok\\\\u005fAb12Cd34Ef"]`, `["[TOKEN]"]`},
		{"four deep", `["tok\u005cu005cu005cu005fAb12Cd34Ef"]`, `["[TOKEN]"]`},
		{"eight deep", `["` + spelled("tok_", 8) + `Ab12Cd34Ef"]`, `["[TOKEN]"]`},
		{"lines", "{\"a\":1}\n{\"a\":\"tok\\u005fAb12Cd34Ef\"}\n", "{\"a\":1}\n{\"a\":\"[TOKEN]\"}\n"},
		{"cut short", `{"a":"tok\u005fAb12Cd34Ef`, `{"a":"[TOKEN]`},
		{"a comma too many", `{"a":"tok\u005fAb12Cd34Ef",}`, `{"a":"[TOKEN]",}`},
		{"prose", `The key is tok\u005fAb12Cd34Ef, said he.`, `The key is [TOKEN], said he.`},
		{"prose that ends in escapes", `The key is tok_Ab12Cd34E\u0066, or "tok_Ab12Cd34E\\u0066".`, `The key is [TOKEN], or "[TOKEN]".`},
		{"the same name twice", `{"a":"tok\u005fAb12Cd34Ef","a":"tok_\u0041b12Cd34Ef"}`, `{"a":"[TOKEN]","a":"[TOKEN]"}`},
		{"half a pair in front", `["\ud83dtok\u005fAb12Cd34Ef"]`, `["\ud83d[TOKEN]"]`},
		{"a pair in front", `["\ud83d\ude00tok\u005fAb12Cd34Ef\ud83d\ude00"]`, `["\ud83d\ude00[TOKEN]\ud83d\ude00"]`},
		{"a path", `C:\tok\new`, `C:\tok\new`},
		{"another spelling of a backslash", `["\\tok_Ab12Cd34Ef"]`, `["\\[TOKEN]"]`},
	} {
		t.Run(one.name, func(t *testing.T) {
			in := &chain.Input{Text: one.text}
			if res := c.Run(context.Background(), in); res.Text != one.want {
				t.Errorf("released %s %s %v\nwant     %s", res.Outcome, res.Text, res.Findings, one.want)
			}
			if got, err := c.Mask(context.Background(), in); err != nil || got != one.want {
				t.Errorf("kept %s %v\nwant %s", got, err, one.want)
			}
		})
	}
}

// What has escapes behind all that are decoded is neither released nor kept, whole or in pieces, cut wherever.
func TestDeeperEscapesAreDenied(t *testing.T) {
	c := tokenChain(t)
	text := `{"a":"` + spelled("tok_", 9) + `Ab12Cd34Ef"}`
	in := &chain.Input{Text: text}
	if res := c.Run(context.Background(), in); res.Outcome != chain.Denied || res.Text != "" ||
		!strings.Contains(res.Reason, "more than 8 deep") {
		t.Errorf("released %s %q: %s", res.Outcome, res.Text, res.Reason)
	}
	var why *chain.UnmaskedError
	if got, err := c.Mask(context.Background(), in); !errors.As(err, &why) || why.Cause != chain.CauseTooDeep {
		t.Errorf("kept %q %v", got, err)
	}
	for cut := range len(text) {
		s, first := c.NewStream(&chain.Input{}, 1<<20).Next(context.Background(), text[:cut], false)
		last := first
		if s != nil {
			_, last = s.Next(context.Background(), text[cut:], true)
		}
		if last.Outcome != chain.Denied || strings.Contains(first.Text+last.Text, "Cd34") {
			t.Errorf("cut at %d: %s %q, %s %q", cut, first.Outcome, first.Text, last.Outcome, last.Text)
		}
	}
}

// spelled is a text as escapes, deep times over.
func spelled(text string, deep int) string {
	var b strings.Builder
	for _, r := range text {
		s := fmt.Sprintf(`\u%04x`, r)
		for range deep - 1 {
			s = strings.Replace(s, `\`, `\u005c`, 1)
		}
		b.WriteString(s)
	}
	return b.String()
}

// What is found is told with its place in the input, and once.
func TestFindingsAreOfTheInput(t *testing.T) {
	text := `{"a":"é tok\u005fAb12Cd34Ef","b":"tok_Ab12Cd34Ef"}`
	res := tokenChain(t).Run(context.Background(), &chain.Input{Text: text})
	var got []string
	for _, f := range res.Findings {
		got = append(got, text[f.Start:f.End])
	}
	if want := []string{`tok\u005fAb12Cd34Ef`, planted}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if r := res.Receipts[0]; r.Bytes != len(text) || r.Prefiltered {
		t.Errorf("receipt %+v", r)
	}
}

// A scanner that takes JSON apart is told that the text is JSON, and that what it reads as is not.
func TestReadingsSayWhatTheyAre(t *testing.T) {
	var seen []string
	look := finderFunc(func(in *chain.Input) { seen = append(seen, in.ContentType+" "+in.Text) })
	c := &chain.ScanChain{Budget: time.Minute, Now: steady, Steps: []chain.ScanStep{{OnError: sdk.Deny, Scanner: look}}}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	c.Run(context.Background(), &chain.Input{Text: `["a\"b"]`, ContentType: "application/json"})
	if want := `["application/json [\"a\\\"b\"]" "text/plain; charset=utf-8 [\"a\"b\"]"]`; fmt.Sprintf("%q", seen) !=
		want {
		t.Errorf("saw %q, want %s", seen, want)
	}
	seen = nil
	c.Run(context.Background(), &chain.Input{Text: `C:\dir is no escape`})
	if len(seen) != 1 {
		t.Errorf("a text without escapes was read %d times", len(seen))
	}
}

type finderFunc func(in *chain.Input)

func (finderFunc) About() chain.About { return chain.About{} }
func (f finderFunc) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	f(in)
	return nil, nil
}

// hide writes a text as the inside of a JSON string, each character in one of its spellings.
func hide(rng *rand.Rand, text string) string {
	var b strings.Builder
	for _, r := range text {
		switch n := rng.IntN(3); {
		case r == '/' && n == 0:
			b.WriteString(`\/`)
		case n == 1 && r < 0x10000:
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[rng.IntN(2)], r)
		case strings.ContainsRune(`"\`, r):
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// document is random JSON with the secret somewhere, as deep in strings of JSON as deep says.
func document(rng *rand.Rand, secret string, deep int) string {
	filler := func() string {
		return `"` + hide(rng, []string{"", "é\n", "a/b", `say "x"`, `c:\new`, "😀", "tok_short"}[rng.IntN(7)]) + `"`
	}
	inner := []string{"", "x ", "😀"}[rng.IntN(3)] + secret + []string{"", " y", "\n"}[rng.IntN(3)]
	if deep > 0 {
		inner = document(rng, secret, deep-1)
	}
	value := `"` + hide(rng, inner) + `"`
	switch rng.IntN(4) {
	case 0:
		return "[" + filler() + ", " + value + ",1.5e3,true]"
	case 1:
		return `{"k":` + filler() + `,"v" : ` + value + "}"
	case 2:
		return "{" + value + `:{"x":[` + filler() + "]}}"
	}
	return value
}

// holds looks for the secret in every string of a JSON text, and in those of what strings hold.
func holds(t testing.TB, text string, deep int) bool {
	if deep > 6 {
		return false
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return strings.Contains(text, planted)
	}
	found := false
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			found = found || strings.Contains(v, planted) || v != text && holds(t, v, deep+1)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for k, e := range v {
				walk(k)
				walk(e)
			}
		}
	}
	walk(v)
	return found
}

func checkHidden(t testing.TB, c *chain.ScanChain, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	text := document(rng, planted, rng.IntN(4))
	if !json.Valid([]byte(text)) || !holds(t, text, 0) {
		t.Fatalf("the test makes no JSON with the secret in it: %s", text)
	}
	in := &chain.Input{Text: text, ContentType: "application/json"}
	res := c.Run(context.Background(), in)
	kept, err := c.Mask(context.Background(), in)
	switch {
	case res.Outcome != chain.Redacted || err != nil:
		t.Fatalf("%s: %s %s, %v", text, res.Outcome, res.Reason, err)
	case kept != res.Text:
		t.Fatalf("%s: released %s, kept %s", text, res.Text, kept)
	case !json.Valid([]byte(res.Text)):
		t.Fatalf("%s: no JSON any more: %s", text, res.Text)
	case holds(t, res.Text, 0):
		t.Fatalf("%s: still there: %s", text, res.Text)
	}
	wantSame(t, c, randomCut(rng, text)...)
}

func TestHiddenSecretsAreFound(t *testing.T) {
	c := tokenChain(t)
	for seed := range uint64(testkit.Rounds(3000, 400)) {
		checkHidden(t, c, seed)
	}
}

// FuzzHiddenSecret: whatever the JSON around it and however it is spelled, a secret is found, and what is left is JSON
// without it.
func FuzzHiddenSecret(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	c := tokenChain(f)
	f.Fuzz(func(t *testing.T, seed uint64) { checkHidden(t, c, seed) })
}

// What is called redacted has been changed, whether it came whole or in pieces.
func TestRedactedIsChanged(t *testing.T) {
	for _, one := range []struct {
		name, text string
		start, end int
		with, want string
	}{
		{"a value", `{"a":"secret"}`, 6, 12, "#", chain.Redacted},
		{"no byte of it", `{"a":"secret"}`, 6, 6, "#", chain.Denied},
		{"no byte behind it", `{"a":"secret"}`, 14, 14, "#", chain.Denied},
		{"nothing of an empty text", "", 0, 0, "#", chain.Denied},
		{"what stands between values", `{"a":"secret"}`, 4, 5, "#", chain.Denied},
		{"all of an empty document", `{}`, 0, 2, "#", chain.Redacted},
		{"all of a document", `{"a":"secret"}`, 0, 14, "#", chain.Redacted},
		{"all of a text", `secret`, 0, 6, "#", chain.Redacted},
		{"what was redacted before", `{"a":"secret"}`, 6, 12, "secret", chain.Warned},
		{"what was redacted before, in a text", `a secret`, 2, 8, "secret", chain.Warned},
	} {
		found := pieces{find: func(string, []byte) ([]sdk.Finding, []byte) {
			return []sdk.Finding{find("K", one.start, one.end, sdk.High)}, nil
		}}
		c := &chain.ScanChain{Budget: time.Minute, Now: steady, Steps: []chain.ScanStep{{OnError: sdk.Deny, Scanner: found}},
			Actions: []chain.ActionRule{{Action: sdk.Redact, Replacement: one.with}}}
		if err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
		in := &chain.Input{Text: one.text}
		res := c.Run(context.Background(), in)
		if res.Outcome != one.want || res.Outcome == chain.Redacted && res.Text == one.text {
			t.Errorf("%s: %s %q, want %s", one.name, res.Outcome, res.Text, one.want)
		}
		_, piece := c.NewStream(in, 1<<20).Next(context.Background(), one.text, true)
		if piece.Outcome != res.Outcome || piece.Text != res.Text {
			t.Errorf("%s: as a stream %s %q, want %s %q", one.name, piece.Outcome, piece.Text, res.Outcome, res.Text)
		}
		if kept, err := c.Mask(context.Background(), in); (err != nil) != (one.want == chain.Denied) ||
			err == nil && one.want == chain.Redacted && kept == one.text {
			t.Errorf("%s: kept %q, %v", one.name, kept, err)
		}
	}
}

// What came as JSON is JSON afterwards, whatever kind of value it is.
func TestJSONStaysJSON(t *testing.T) {
	for _, one := range []struct{ kind, text, want string }{
		{"application/json", `12`, `"#"`},
		{"application/json; charset=utf-8", ` -12.5e3 `, ` "#" `},
		{"application/problem+json", `12`, `"#"`},
		{"Application/JSON", `[12,"12",{"12":12}]`, `["#","#",{"#@11":"#"}]`},
		{"text/plain", `12`, `#`},
		{"", `12`, `#`},
		{"application/json", `12 apples`, `# apples`},
	} {
		c := &chain.ScanChain{Budget: time.Minute, Now: steady,
			Actions: []chain.ActionRule{{Action: sdk.Redact, Replacement: "#"}},
			Steps:   []chain.ScanStep{{OnError: sdk.Deny, Scanner: literal("NUMBER", "12"), Stream: window(2)}}}
		if err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
		in := &chain.Input{Text: one.text, ContentType: one.kind}
		if res := c.Run(context.Background(), in); res.Text != one.want {
			t.Errorf("%s %s: released %s, want %s", one.kind, one.text, res.Text, one.want)
		}
		for at := range one.text {
			out, s := "", c.NewStream(in, 1<<20)
			for i, piece := range []string{one.text[:at], one.text[at:]} {
				next, res := s.Next(context.Background(), piece, i == 1)
				out, s = out+res.Text, next
			}
			if out != one.want {
				t.Errorf("%s %s, cut at %d: released %s, want %s", one.kind, one.text, at, out, one.want)
			}
		}
	}
}
