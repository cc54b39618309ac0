package chain

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// marked is text with «…» around what is found. with is every finding's replacement.
func marked(text, with string) (plain string, found []sdk.Finding) {
	var b strings.Builder
	var open []int
	for _, r := range text {
		switch r {
		case '«':
			open = append(open, len(found))
			found = append(found, sdk.Finding{Kind: "K", Start: b.Len(), Action: sdk.Redact, Replacement: with})
		case '»':
			found[open[len(open)-1]].End = b.Len()
			open = open[:len(open)-1]
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), found
}

func TestRedact(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", `a «secret» b`, `a # b`},
		{"everything", `«all»`, `#`},
		{"twice", `«a» b «c»`, `# b #`},
		{"touching", `x«a»«b»y`, `x#y`},
		{"nested", `x«a«b»c»y`, `x#y`},
		{"scalars are text", `«41»11`, `#11`},
		{"text in braces", `{«secret»}`, `{#}`},
		{"a JSON string", `"a «secret» b"`, `"a # b"`},
		{"a whole JSON string, quotes too", `«"secret"»`, `"#"`},
		{"value", `{"k":"«v»"}`, `{"k":"#"}`},
		{"value and quotes", `{"k":«"v"»}`, `{"k":"#"}`},
		{"key", `{"«k»":1}`, `{"#@2":1}`},
		{"two keys", `{"«k»":1,"a«b»" : {"«k»":2}}`, `{"#@2":1,"a#@9" : {"#@16":2}}`},
		{"an empty key, quotes too", `{«""»:1}`, `{"#@2":1}`},
		{"key and value", `{«"k":"v"»}`, `{"#@2":"#"}`},
		{"across members", `{"a":"1«2","b":"3»4"}`, `{"a":"1#","#@11":"#4"}`},
		{"number", `{"n":12«34»56}`, `{"n":"#"}`},
		{"negative number with exponent", `[-1«.5e»+3]`, `["#"]`},
		{"word", `[t«ru»e,null]`, `["#",null]`},
		{"number beside a string", `[1«2,"3»4"]`, `["#","#4"]`},
		{"empty string", `{"k":«""»}`, `{"k":"#"}`},
		{"empty brackets", `{"k":«{ }»,"l":[«[]»]}`, `{"k":"#","l":["#"]}`},
		{"the whole of an empty text", `«{}»`, `"#"`},
		{"nested objects", `{"a":{"b":[{"c":"x«y»z"}]}}`, `{"a":{"b":[{"c":"x#z"}]}}`},
		{"half an escape", `["a\«n»b"]`, `["a#b"]`},
		{"the other half", `["a«\»nb"]`, `["a#b"]`},
		{"an escaped quote", `["a\«"»b"]`, `["a#b"]`},
		{"inside \\u", `["a\u00«4»1b"]`, `["a#b"]`},
		{"half a surrogate pair", `["a\ud83d«\ude00»b"]`, `["a#b"]`},
		{"the other half", `["a«\ud83d»\ude00b"]`, `["a#b"]`},
		{"two escapes that are no pair", `["\u0041«\u0042»"]`, `["\u0041#"]`},
		{"a backslash before", `["\\«n»"]`, `["\\#"]`},
		{"characters", `["é«ü»ß"]`, `["é#ß"]`},
		{"white space stays", " [ \"«a»\" ,\n 1 ] ", " [ \"#\" ,\n 1 ] "},
		{"two spans in one escape", `["\u«0»0«4»1"]`, `["#"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, found := marked(c.in, "#")
			got, err := redact(text, found, false)
			if err != nil || got != c.want {
				t.Errorf("%s:\n got %s %v\nwant %s", text, got, err, c.want)
			}
		})
	}
}

// What covers no value cannot be taken out of JSON, and is not said to have been.
func TestRedactNeedsAValue(t *testing.T) {
	for _, in := range []string{`{"k"«: »1}`, `«{»"k":1}`, `[1«,»2]`, `["«a»" «,» 1]`, `{"k":«{»}}`, `{"k":"v«"»}`,
		`[1,2]« »`} {
		text, found := marked(in, "#")
		if got, err := redact(text, found, false); err == nil {
			t.Errorf("%s: became %s without an error", in, got)
		}
	}
}

func TestRedactReplacements(t *testing.T) {
	for _, c := range []struct{ in, with, want string }{
		{`["«a»"]`, `x"y\z` + "\n", `["x\"y\\z\n"]`},
		{`[«1»]`, `x"y`, `["x\"y"]`},
		{`[«1»]`, ``, `[""]`},
		{`a«b»c`, `x"y`, `ax"yc`},
	} {
		text, found := marked(c.in, c.with)
		if got, err := redact(text, found, false); err != nil || got != c.want {
			t.Errorf("%s: got %s %v, want %s", c.in, got, err, c.want)
		}
	}
}

// Spans that cut characters grow: the whole character goes, and what is left is UTF-8.
func TestRedactCutsNoCharacter(t *testing.T) {
	text := "aé€😀z"
	for start := range len(text) {
		for end := start + 1; end <= len(text); end++ {
			got, err := redact(text, []sdk.Finding{{Start: start, End: end, Action: sdk.Redact, Replacement: "#"}}, false)
			if err != nil || !utf8.ValidString(got) {
				t.Fatalf("%d to %d: %q %v", start, end, got, err)
			}
			for i, r := range text {
				if n := utf8.RuneLen(r); i < end && i+n > start && strings.ContainsRune(got, r) {
					t.Errorf("%d to %d: %q still has %c", start, end, got, r)
				}
			}
		}
	}
}

// holdsFlagged reports whether a byte that a finding covers shows in what redact made of the text. Kept bytes are told
// from flagged ones by what they are: see secretText.
func holdsFlagged(out string) bool { return strings.ContainsAny(out, "STUVXY") }

// secretText builds a JSON text in which upper-case letters from S to Y stand only where something is flagged, also as
// escapes, and flags them in a random way.
func secretText(rng *rand.Rand, asJSON bool) (string, []sdk.Finding) {
	var b strings.Builder
	var found []sdk.Finding
	flag := func(write func()) {
		start := b.Len()
		write()
		for range 1 + rng.IntN(2) { // whole, or in overlapping parts
			found = append(found, sdk.Finding{Kind: "K", Start: start, End: b.Len(),
				Action: []sdk.Action{sdk.Redact, sdk.Replace}[rng.IntN(2)], Replacement: "[k]"})
		}
	}
	word := func() {
		for range 1 + rng.IntN(4) {
			b.WriteString([]string{"a", "é", "€", "😀", " ", `\n`, `\u00e9`, `\ud83d\ude00`, `\\`, `\"`}[rng.IntN(10)])
		}
		if rng.IntN(2) == 0 {
			flag(func() {
				for range 1 + rng.IntN(5) {
					b.WriteString([]string{"S", "T", "U", "V", `XéY`, `\u0053`, `S\"T`, `\ud83d\ude00S`, `V\\`}[rng.IntN(9)])
				}
			})
			b.WriteString("b")
		}
	}
	if !asJSON {
		for range 1 + rng.IntN(5) {
			word()
		}
		return b.String(), found
	}
	var value func(depth int)
	quoted := func() { b.WriteByte('"'); word(); b.WriteByte('"') }
	value = func(depth int) {
		switch n := rng.IntN(6); {
		case n == 0 && depth < 4 || depth == 0:
			b.WriteString("{ ")
			for i := range rng.IntN(4) {
				if i > 0 {
					b.WriteByte(',')
				}
				quoted()
				b.WriteString(" :")
				value(depth + 1)
			}
			b.WriteByte('}')
		case n == 1 && depth < 4:
			b.WriteByte('[')
			for i := range rng.IntN(4) {
				if i > 0 {
					b.WriteString(", ")
				}
				value(depth + 1)
			}
			b.WriteByte(']')
		case n == 2:
			b.WriteString([]string{"1", "-0.5e3", "true", "null"}[rng.IntN(4)])
		case n == 3:
			flag(func() { b.WriteString([]string{"1", "-0.5e3", "true", "null"}[rng.IntN(4)]) })
		default:
			quoted()
		}
	}
	value(0)
	return b.String(), found
}

func TestNoFlaggedByteSurvives(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 5))
	for range 20_000 {
		asJSON := rng.IntN(3) > 0
		text, found := secretText(rng, asJSON)
		if asJSON && !json.Valid([]byte(text)) {
			t.Fatalf("the test makes bad JSON: %s", text)
		}
		for i := range found { // now and then a span reaches further
			if rng.IntN(4) == 0 {
				found[i].Start = max(0, found[i].Start-rng.IntN(6))
				found[i].End = min(len(text), found[i].End+rng.IntN(6))
			}
		}
		rng.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
		one, err := redact(text, sortedFindings(found), false)
		rng.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
		two, err2 := redact(text, sortedFindings(found), false)
		switch {
		case err != nil || err2 != nil:
			t.Fatalf("%s: %v %v", text, err, err2)
		case one != two:
			t.Fatalf("%s: two answers:\n%s\n%s", text, one, two)
		case holdsFlagged(one):
			t.Fatalf("%s %v: a flagged byte survived: %s", text, found, one)
		case !utf8.ValidString(one):
			t.Fatalf("%s: not UTF-8: %q", text, one)
		case asJSON && (!json.Valid([]byte(one)) || decodedHolds(t, one)):
			t.Fatalf("%s %v: %s", text, found, one)
		}
	}
}

func sortedFindings(found []sdk.Finding) []sdk.Finding {
	c := &ScanChain{Actions: []ActionRule{{Action: sdk.Redact, Replacement: "[k]"}}}
	return c.judge(&Input{}, "", 0, append([]sdk.Finding(nil), found...))
}

// decodedHolds looks behind the escapes.
func decodedHolds(t *testing.T, text string) bool {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return holdsFlagged(string(plain))
}

// FuzzRedact: whatever the text and the spans, no crash, valid JSON stays valid JSON, UTF-8 stays UTF-8, and plain text
// before all spans stays as it was.
func FuzzRedact(f *testing.F) {
	f.Add(`{"k":"v\n\ud83d\ude00"}`, uint16(3), uint16(9), uint16(12), uint16(14), "[K]")
	f.Add(`[1.5e3,true,"é"]`, uint16(0), uint16(4), uint16(2), uint16(16), `"\`)
	f.Add("plain é text", uint16(6), uint16(7), uint16(1), uint16(1), "")
	f.Add(`"\u0041"`, uint16(3), uint16(4), uint16(5), uint16(6), "\xff")
	f.Fuzz(func(t *testing.T, text string, a, b, c, d uint16, with string) {
		var found []sdk.Finding
		for _, s := range [][2]uint16{{a, b}, {c, d}} {
			start := int(s[0]) % (len(text) + 1)
			end := start + int(s[1])%(len(text)-start+1) // nothing, where the chain lets no finding through
			found = append(found, sdk.Finding{Kind: "K", Start: start, End: end, Suggested: sdk.Replace, Replacement: with})
		}
		chain := &ScanChain{Actions: []ActionRule{{Action: sdk.Redact,
			Replacement: strings.ReplaceAll(with, "{kind}", "") + "#"}}}
		found = chain.judge(&Input{}, text, 0, found)
		out, err := redact(text, found, false)
		if errors.Is(err, errNoValue) && isJSON(text, false) {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if isJSON(text, false) && !json.Valid([]byte(out)) {
			t.Fatalf("%q became %q", text, out)
		}
		if utf8.ValidString(text) && utf8.ValidString(with) && !utf8.ValidString(out) {
			t.Fatalf("%q became %q, which is not UTF-8", text, out)
		}
		if again, _ := redact(text, found, false); again != out {
			t.Fatalf("%q: two answers: %q and %q", text, out, again)
		}
		first := len(text)
		for _, s := range found {
			if s.Start != s.End {
				first = min(first, s.Start)
			}
		}
		if first = max(0, first-3); !isJSON(text, false) && utf8.ValidString(text) && !strings.HasPrefix(out, text[:first]) {
			t.Fatalf("%q became %q: bytes before all spans changed", text, out)
		}
	})
}
