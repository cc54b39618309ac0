package chain_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// leaves finds tokens and numbers of cards, and looks at nothing around them.
type leaves struct{}

var card = regexp.MustCompile("49" + `29[0-9]{6}`)

func (leaves) About() chain.About { return chain.About{} }
func (leaves) Scan(_ context.Context, in *chain.Input) (found []sdk.Finding, _ error) {
	for kind, re := range map[string]*regexp.Regexp{"TOKEN": token, "CARD": card} {
		for _, m := range re.FindAllStringIndex(in.Text, -1) {
			found = append(found, find(kind, m[0], m[1], sdk.High))
		}
	}
	return found, nil
}

func leafChain() *chain.ScanChain {
	return &chain.ScanChain{Budget: time.Minute, Now: steady, Actions: []chain.ActionRule{{Action: sdk.Redact}},
		Steps: []chain.ScanStep{{Name: "leaves", OnError: sdk.Deny, Scanner: leaves{}}}}
}

func TestWholeJSON(t *testing.T) {
	pan := "49" + "29123456"
	for _, c := range []struct{ name, in, want string }{
		{"nothing found", ` { "b" : 1.50, "a" : [ -0, 1E+2 ] } `, ` { "b" : 1.50, "a" : [ -0, 1E+2 ] } `},
		{"a string alone", `"` + planted + `"`, `"[TOKEN]"`},
		{"null", `null`, `null`},
		{"a number that is found", `{"n":` + pan + `,"m":1.0}`, `{"n":"[CARD]","m":1.0}`},
		{"a number alone", pan, `"[CARD]"`},
		{"escapes", `{"a":"x\/` + spelled(planted, 1) + `\u00e9"}`, `{"a":"x\/[TOKEN]\u00e9"}`},
		{"a name", `{"` + planted + `":1,"b":2}`, `{"[TOKEN]@2":1,"b":2}`},
		{"two names", `{"` + planted + `":1,"` + planted + `x":2}`, `{"[TOKEN]@2":1,"[TOKEN]@21x":2}`},
		{"the same name elsewhere", `{"` + planted + `":{"[TOKEN]@2":1}}`, `{"[TOKEN]@2":{"[TOKEN]@2":1}}`},
		{"a name that is there", `{"` + planted + `":1,"[TOKEN]@2":2}`, "DENIED"},
		{"a name that is there, spelled otherwise", `{"` + planted + `":1,"[T\u004fKEN]@2":2}`, "DENIED"},
		{"a name that is there, deep inside", `[{"a":{"[TOKEN]@23":2,"` + planted + `":1}}]`, "DENIED"},
	} {
		res := leafChain().Run(context.Background(), &chain.Input{Text: c.in, Whole: true, ContentType: "application/json"})
		got := res.Text
		if res.Outcome == chain.Denied {
			got = res.Outcome
			if res.Code != sdk.ReasonScanUnavailable || !strings.Contains(res.Reason, "two of its names would become one") {
				t.Errorf("%s: %s %s", c.name, res.Code, res.Reason)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A control sequence that a string breaks off takes nothing of the next string with it.
func TestSequencesEndWithTheirStrings(t *testing.T) {
	escaped := strings.Replace(planted, "_", `\\u005f`, 1)
	digits := `4\\u0039` + "29123456"
	for _, begin := range []string{`\u001b`, `\u001b[`, `\u001b(`, `\u001b[3`, "\u009b", `\u009b1;`, `\u001b]`, `\u001bP`,
		`\\u001b`, `\\e[`,
		`\u001b[31m`, `x`} {
		for _, c := range []struct{ in, want string }{
			{`["` + begin + `","` + escaped + `"]`, `["` + begin + `","[TOKEN]"]`},
			{`["` + begin + `", "` + digits + `"]`, `["` + begin + `", "[CARD]"]`},
			{`{"` + begin + `":"` + escaped + `","a":"` + begin + `"}`, `{"` + begin + `":"[TOKEN]","a":"` + begin + `"}`},
			{`["` + begin + `",` + `1,"` + strings.Replace(escaped, `\\`, `\\\\`, 1) + `"]`, `["` + begin + `",1,"[TOKEN]"]`},
		} {
			res := leafChain().Run(context.Background(), &chain.Input{Text: c.in, Whole: true})
			if res.Text != c.want {
				t.Errorf("%s: %s %s, want %s", c.in, res.Outcome, res.Text, c.want)
			}
		}
	}
}

// writer makes up JSON, and remembers what its strings stand for.
type writer struct {
	*rand.Rand
	b     strings.Builder
	names int
	extra []string // more words for strings
}

func (w *writer) pick(of ...string) string { return of[w.IntN(len(of))] }

func (w *writer) space() { w.b.WriteString(w.pick("", "", " ", "\n\t")) }

// words are what a string stands for: some hold a secret, plain or in escapes of their own.
func (w *writer) words() string {
	out := "w"
	for range w.IntN(5) {
		if w.extra != nil && w.IntN(3) == 0 {
			out += w.pick(w.extra...)
			continue
		}
		out += w.pick("word", " ", `"`, "\n", "é😀", `\`, "{", "tok_", "z", ` \u`, planted, " "+planted,
			"x"+spelled(planted, 1+w.IntN(3)), "49"+"29000011")
	}
	return out
}

// str spells a string.
func (w *writer) str(words string) {
	w.b.WriteByte('"')
	for _, r := range words {
		switch {
		case r < 0x10000 && w.IntN(8) == 0:
			fmt.Fprintf(&w.b, `\u%04x`, r)
		case r == '"' || r == '\\':
			w.b.WriteString(`\` + string(r))
		case r < ' ':
			fmt.Fprintf(&w.b, `\u%04x`, r)
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

func (w *writer) value(depth int) {
	w.space()
	switch n := w.IntN(7); {
	case n == 0:
		w.b.WriteString(w.pick("true", "null", "1.50", "-0", "1E+2", "12345678901234567890123", "49"+"29000011"))
	case n < 3 && depth > 0:
		w.b.WriteByte('{')
		for i := range w.IntN(4) {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.space()
			w.names++
			w.str(fmt.Sprintf("%s.n%d", w.words(), w.names))
			w.space()
			w.b.WriteByte(':')
			w.value(depth - 1)
		}
		w.space()
		w.b.WriteByte('}')
	case n < 5 && depth > 0:
		w.b.WriteByte('[')
		for i := range w.IntN(4) {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.value(depth - 1)
		}
		w.space()
		w.b.WriteByte(']')
	default:
		w.str(w.words())
	}
	w.space()
}

// holdsPlanted reports whether a secret can be read in a text, in whatever spelling.
func holdsPlanted(text string) bool {
	for reading := range chain.Readings(text) {
		if token.MatchString(reading) || card.MatchString(reading) {
			return true
		}
	}
	return false
}

var placed = regexp.MustCompile(`\[(TOKEN|CARD)\]@\d+`)

// sameJSON holds what is released against what came: a string is what the string alone would have become.
func sameJSON(t *testing.T, c *chain.ScanChain, was, is exact.Value) {
	t.Helper()
	alone := func(text string) string {
		return c.Run(context.Background(), &chain.Input{Text: text}).Text
	}
	switch was.Kind() {
	case exact.String:
		if want := alone(was.Str()); is.Kind() != exact.String || is.Str() != want {
			t.Fatalf("%s became %s, alone it is %q", was.Raw(), is.Raw(), want)
		}
	case exact.Number:
		want := was.Raw()
		if card.MatchString(want) {
			want = `"[CARD]"`
		}
		if is.Raw() != want {
			t.Fatalf("the number %s became %s", was.Raw(), is.Raw())
		}
	case exact.Array, exact.Object:
		if is.Kind() != was.Kind() || is.Len() != was.Len() {
			t.Fatalf("%s became %s", was.Raw(), is.Raw())
		}
		var before, after []exact.Value
		var names, now []string
		for name, v := range was.Members() {
			names, before = append(names, alone(name)), append(before, v)
		}
		for name, v := range is.Members() {
			now, after = append(now, placed.ReplaceAllString(name, "[$1]")), append(after, v)
		}
		if !slices.Equal(names, now) {
			t.Fatalf("the names %q became %q", names, now)
		}
		before, after = slices.AppendSeq(before, was.Elements()), slices.AppendSeq(after, is.Elements())
		for i := range before {
			sameJSON(t, c, before[i], after[i])
		}
	default:
		if was.Raw() != is.Raw() {
			t.Fatalf("%s became %s", was.Raw(), is.Raw())
		}
	}
}

// FuzzWholeJSON: of random JSON with secrets in its strings, names and numbers, what is released has the same shape and
// none of the secrets. Each string is what it would have been alone.
func FuzzWholeJSON(f *testing.F) {
	for n := range uint64(400) {
		f.Add(n, uint64(1))
	}
	f.Fuzz(func(t *testing.T, seed, more uint64) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, more))}
		w.value(4)
		text := w.b.String()
		var was, is exact.Doc
		if err := was.Parse(text, exact.DefaultLimits); err != nil {
			t.Fatalf("made up %s: %v", text, err)
		}
		c := leafChain()
		res := c.Run(context.Background(), &chain.Input{Text: text, Whole: true, ContentType: "application/json"})
		if want := map[bool]string{true: chain.Redacted, false: chain.Pass}[holdsPlanted(text)]; res.Outcome != want {
			t.Fatalf("%s: %s %s, want %s", text, res.Outcome, res.Reason, want)
		}
		if res.Outcome == chain.Pass && res.Text != text {
			t.Fatalf("%s became %s", text, res.Text)
		}
		if holdsPlanted(res.Text) {
			t.Fatalf("%s: a secret is left in %s", text, res.Text)
		}
		if err := is.Parse(res.Text, exact.DefaultLimits); err != nil {
			t.Fatalf("%s became %s: %v", text, res.Text, err)
		}
		sameJSON(t, c, was.Root(), is.Root())
	})
}

// FuzzWholeSequences: with control sequences in the strings, whole or broken off, no string of what is released holds
// what a scanner would find in that string alone.
func FuzzWholeSequences(f *testing.F) {
	for n := range uint64(400) {
		f.Add(n, uint64(1))
	}
	f.Fuzz(func(t *testing.T, seed, more uint64) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, more)), extra: []string{"\x1b", "\x1b[", "\x1b[3", "\u009b",
			"\x1b(", "\x1b]",
			"\a", `\e[`, "^[[1", "m", ";"}}
		w.value(4)
		text := w.b.String()
		c := leafChain()
		res := c.Run(context.Background(), &chain.Input{Text: text, Whole: true, ContentType: "application/json"})
		if res.Outcome == chain.Denied {
			return
		}
		var is exact.Doc
		if err := is.Parse(res.Text, exact.DefaultLimits); err != nil {
			t.Fatalf("%s became %s: %v", text, res.Text, err)
		}
		var check func(v exact.Value)
		alone := func(s string) {
			if r := c.Run(context.Background(), &chain.Input{Text: s}); r.Text != s {
				t.Fatalf("%s became %s, in which %q alone would become %q", text, res.Text, s, r.Text)
			}
		}
		check = func(v exact.Value) {
			alone(v.Str())
			for name, m := range v.Members() {
				alone(name)
				check(m)
			}
			for e := range v.Elements() {
				check(e)
			}
		}
		check(is.Root())
	})
}

// FuzzWholeShape: whatever JSON comes and wherever a scanner finds something, a strict reader can read what is released
// and finds as many values in it as came.
func FuzzWholeShape(f *testing.F) {
	f.Add(`{"a":1,"[K]@2":{"b":[]}}`, uint16(2), uint16(3))
	f.Add(`[1.50,{"":""},"\ud83d\ude00"]`, uint16(0), uint16(9))
	f.Add(`[{},[ ],null]`, uint16(1), uint16(3))
	f.Fuzz(func(t *testing.T, text string, start, end uint16) {
		var was, is exact.Doc
		if was.Parse(text, exact.DefaultLimits) != nil || start >= end || int(end) > len(text) {
			return
		}
		c := &chain.ScanChain{Budget: time.Minute, Now: steady, Actions: []chain.ActionRule{{Action: sdk.Redact}},
			Steps: []chain.ScanStep{scanStep(finder{found: []sdk.Finding{find("K", int(start), int(end), sdk.High)}})}}
		res := c.Run(context.Background(), &chain.Input{Text: text, Whole: true, ContentType: "application/json"})
		if res.Outcome == chain.Denied {
			return
		}
		if err := is.Parse(res.Text, exact.DefaultLimits); err != nil {
			t.Fatalf("%s became %s: %v", text, res.Text, err)
		}
		if leafCount(was.Root()) != leafCount(is.Root()) {
			t.Fatalf("%s became %s", text, res.Text)
		}
	})
}

// leafCount counts the values that hold no others.
func leafCount(v exact.Value) int {
	n := 0
	for _, m := range v.Members() {
		n += leafCount(m)
	}
	for e := range v.Elements() {
		n += leafCount(e)
	}
	return max(n, 1)
}

// The texts of one request have one budget: what one of them takes is gone for those behind it.
func TestTextsShareABudget(t *testing.T) {
	now := time.Unix(0, 0)
	slow := doing(func() { now = now.Add(600 * time.Millisecond) })
	c := &chain.ScanChain{Budget: time.Second, Now: func() time.Time { return now },
		Steps: []chain.ScanStep{{Name: "slow", OnError: sdk.Deny, Scanner: slow}}}
	left := c.Begin()
	for i, want := range []string{chain.Pass, chain.Pass, chain.Denied} {
		waited := now
		now = now.Add(time.Minute)
		left.Without(now.Sub(waited))
		res := c.RunIn(context.Background(), &chain.Input{Text: "x"}, left)
		if res.Outcome != want || want == chain.Denied && res.Receipts[0].Outcome != "timeout" {
			t.Errorf("text %d: %s %s", i, res.Outcome, res.Reason)
		}
	}
	if res := c.Run(context.Background(), &chain.Input{Text: "x"}); res.Outcome != chain.Pass {
		t.Errorf("the next request: %s %s", res.Outcome, res.Reason)
	}
}
