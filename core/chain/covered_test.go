package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// What a unit of a text is to redaction.
type unitKind uint8

const (
	between unitKind = iota // stays: what stands between the values of JSON
	letter                  // goes when a byte of it is found
	scalar                  // becomes a string when a byte of it is found
	hollow                  // an empty string, object or array: becomes a string when all of it is found
)

// unit is a piece of a text that goes whole or stays whole. Other text has letters alone, a character each.
type unit struct {
	kind   unitKind
	src    string
	of     int  // the string that a letter is in
	name   bool // that string is a name
	at     int  // where src begins
	shows  rune // what a place of its own stands for: no other place has it; 0 if there may be others
	inside int  // units that spell it together with this one, which is the first
}

// covered is one case: a text of which everybody knows what is where, and what several scanners find in it.
type covered struct {
	*rand.Rand
	units   []unit
	text    string
	json    bool
	strings int
	fresh   rune // the next character that stands nowhere yet
	spots   []spot
	actions []chain.ActionRule
	found   [][2]int // of findings that are removed
}

// freshRunes are where characters of two, three and four bytes begin that are used once each. None is a letter or a
// separator to {format}.
var freshRunes = [3]rune{0x400, 0x4e00, 0x1f300}

// add puts one more unit behind the text.
func (c *covered) add(u unit) {
	u.at = len(c.text)
	c.units, c.text = append(c.units, u), c.text+u.src
}

// once is a character that stands nowhere else.
func (c *covered) once() rune {
	c.fresh++
	return freshRunes[c.IntN(3)] + c.fresh
}

// word adds a few letters of a string, or of other text.
func (c *covered) word(name bool) {
	put := func(u unit) { u.kind, u.of, u.name = letter, c.strings, name; c.add(u) }
	escape := func(r rune) (out string) {
		for _, half := range utf16.Encode([]rune{r}) {
			out += fmt.Sprintf([]string{`\u%04x`, `\u%04X`}[c.IntN(2)], half)
		}
		return out
	}
	for range 1 + c.IntN(6) {
		r := c.once()
		switch n := c.IntN(10); {
		case n < 4:
			put(unit{src: string(r), shows: r})
		case n < 6 && c.json:
			put(unit{src: escape(r), shows: r})
		case n < 7: // in JSON in a string, or with escapes in what is no JSON
			src := strings.Split(escape(r), "")
			for i, s := range src {
				u := unit{src: s}
				if c.json {
					u.src = strings.ReplaceAll(s, `\`, `\\`)
				}
				if i == 0 {
					u.shows, u.inside = r, len(src)-1
				}
				put(u)
			}
		case n == 7 && c.json:
			put(unit{src: []string{`\n`, `\"`, `\/`, `\t`, `\\`}[c.IntN(5)]})
			if c.text[len(c.text)-1] == '\\' { // so that it takes nothing of what follows it
				put(unit{src: "z"})
			}
		default:
			for _, s := range []string{"4", "2", "-", "a", "k", ".", " "}[c.IntN(7):] {
				put(unit{src: s})
			}
		}
	}
}

func (c *covered) str(name bool) {
	c.strings++
	if !name && c.IntN(8) == 0 {
		c.add(unit{kind: hollow, src: `""`})
		return
	}
	c.add(unit{src: `"`})
	if name { // which is in no other place
		r := c.once()
		c.add(unit{kind: letter, src: string(r), of: c.strings, name: true, shows: r})
	}
	c.word(name)
	c.add(unit{src: `"`})
}

func (c *covered) value(depth int) {
	switch n := c.IntN(8); {
	case n < 2 && depth > 0:
		c.add(unit{src: "{"})
		for i := range 1 + c.IntN(3) {
			if i > 0 {
				c.add(unit{src: []string{",", ", "}[c.IntN(2)]})
			}
			c.str(true)
			c.add(unit{src: []string{":", " : "}[c.IntN(2)]})
			c.value(depth - 1)
		}
		c.add(unit{src: "}"})
	case n < 4 && depth > 0:
		c.add(unit{src: "["})
		for i := range 1 + c.IntN(4) {
			if i > 0 {
				c.add(unit{src: []string{",", ",\n"}[c.IntN(2)]})
			}
			c.value(depth - 1)
		}
		c.add(unit{src: "]"})
	case n == 4:
		c.add(unit{kind: scalar, src: []string{"true", "null", "-1.5e+3", "4111" + "222233334444", "0"}[c.IntN(5)]})
	case n == 5 && c.IntN(2) == 0:
		c.add(unit{kind: hollow, src: []string{"{}", "[ ]", "[]"}[c.IntN(3)]})
	default:
		c.str(false)
	}
}

// spot is a place that a scanner finds in every reading that shows both its ends: from one character that stands
// nowhere else to another, without some bytes of them. Without a first one it is a place of the text alone.
type spot struct {
	kind       string
	first      rune
	last       rune
	less, more int // bytes of the first, and of the last, that are left out
	start, end int // in the text
}

// spotter finds the spots of one kind.
type spotter struct {
	c    *covered
	kind string
}

func (s spotter) About() chain.About { return chain.About{Version: "1"} }
func (s spotter) Scan(_ context.Context, in *chain.Input) (found []sdk.Finding, _ error) {
	for _, p := range s.c.spots {
		start, end := p.start, p.end
		if p.first != 0 {
			start, end = strings.IndexRune(in.Text, p.first), strings.IndexRune(in.Text, p.last)
			if start < 0 || end < 0 {
				continue
			}
			start, end = start+p.less, end+utf8.RuneLen(p.last)-p.more
		} else if in.Text != s.c.text {
			continue
		}
		if p.kind == s.kind && start < end {
			found = append(found, sdk.Finding{Kind: p.kind, Scanner: s.kind, Start: start, End: end,
				Confidence: map[bool]float32{true: 1, false: 0.5}[in.Text == s.c.text]}) // readings give their own
		}
	}
	return found, nil
}
func (s spotter) ScanPiece(ctx context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	found, err := s.Scan(ctx, &w.Input)
	return found, nil, err
}

// reach is the longest place that is found.
const reach = 48

// end is where a unit ends with those that spell its character.
func (c *covered) end(i int) int {
	last := c.units[i+c.units[i].inside]
	return last.at + len(last.src)
}

// aim makes up one spot. ok is false when chance has led to none.
func (c *covered) aim(kind string) (s spot, ok bool) {
	s = spot{kind: kind}
	if c.IntN(4) == 0 { // any bytes
		s.start = c.IntN(len(c.text))
		s.end = min(s.start+1+c.IntN(reach), len(c.text))
		return s, true
	}
	i := c.IntN(len(c.units))
	k := min(i+c.IntN(8)*c.IntN(3), len(c.units)-1)
	first, last := c.units[i], c.units[k]
	if first.shows == 0 || last.shows == 0 || c.end(k)-first.at > reach {
		return s, false
	}
	s.first, s.last = first.shows, last.shows
	s.start, s.end = first.at, c.end(k)
	cut := func(u unit) int { return c.IntN(3) / 2 * c.IntN(utf8.RuneLen(u.shows)) }
	s.less, s.more = cut(first), cut(last)
	if i == k && s.less+s.more >= utf8.RuneLen(first.shows) {
		s.less, s.more = 0, 0
	}
	if first.src == string(first.shows) { // an escape is covered whole
		s.start += s.less
	}
	if last.src == string(last.shows) {
		s.end -= s.more
	}
	return s, true
}

// stands are the templates for what stands in, and what becomes of them.
var stands = []struct{ template, plain string }{
	{"", `\[[A-E]\]`}, {"<{kind} {mask}>", `<[A-E] [0-9a-f]{8}>`}, {"«{format}»", `«[^»]*»`},
	{"{token}", `\[[A-E]#[-\w]+\]`}, {"\"\n{kind}", `"\n[A-E]`},
}

var tokenForm = regexp.MustCompile(`\[[A-E]#[-\w]+\]`)

// standsIn matches what stands in for something, as it is and in a string of JSON.
func standsIn(inJSON bool) string {
	out := make([]string, len(stands))
	for i, s := range stands {
		if out[i] = s.plain; inJSON {
			out[i] = strings.NewReplacer(`"`, `\\"`, `\n`, `\\n`).Replace(s.plain)
		}
	}
	return "(?:" + strings.Join(out, "|") + ")"
}

var inText, inJSON = standsIn(false), standsIn(true)

// newCovered makes a text, what is found in it, and what is to be done about that.
func newCovered(seed uint64) *covered {
	c := &covered{Rand: rand.New(rand.NewPCG(seed, 23))}
	if c.json = c.IntN(3) > 0; c.json {
		c.add(unit{src: "["})
		c.value(3)
		c.add(unit{src: ","})
		c.str(false)
		c.add(unit{src: "] "})
	} else {
		for range 1 + c.IntN(4) {
			c.word(false)
		}
	}
	for _, kind := range []string{"A", "B", "C", "D", "E"} {
		rule := chain.ActionRule{Kinds: []string{kind}, Action: sdk.Redact, Replacement: stands[c.IntN(len(stands))].template}
		switch {
		case kind == "D":
			rule.Action, rule.Replacement = sdk.Flag, ""
		case kind == "C" && c.IntN(2) == 0:
			rule.Action = sdk.Replace
		}
		c.actions = append(c.actions, rule)
		for range c.IntN(4) {
			s, ok := c.aim(kind)
			if !ok {
				continue
			}
			c.spots = append(c.spots, s)
			if kind < "D" { // D is flagged, E is in shadow
				c.found = append(c.found, [2]int{s.start, s.end})
			}
		}
	}
	return c
}

// chain gives the scanners in a chain. Those that find any bytes see whole texts only.
func (c *covered) chain(t *testing.T) *chain.ScanChain {
	t.Helper()
	sc := &chain.ScanChain{Budget: time.Minute, Now: steady, Actions: c.actions}
	for _, kind := range []string{"C", "A", "E", "D", "B"} {
		s := chain.ScanStep{Name: kind, OnError: sdk.Deny, Scanner: spotter{c, kind}, Shadow: kind == "E", Stream: window(1)}
		for _, p := range c.spots {
			if p.kind == kind { // just what it needs
				s.Stream.Lookbehind = max(s.Stream.Lookbehind, p.end-p.start)
			}
		}
		for _, p := range c.spots {
			if p.kind == kind && p.first == 0 {
				s.Stream = abi.Stream{Mode: abi.StreamNone}
			}
		}
		sc.Steps = append(sc.Steps, s)
	}
	if err := sc.Prepare(); err != nil {
		t.Fatal(err)
	}
	return sc
}

// removed are the bytes that must go, each with the rest of its character, as ranges in order that do not touch.
func (c *covered) removed() (out [][2]int) {
	for _, f := range c.found {
		for !utf8.RuneStart(c.text[f[0]]) {
			f[0]--
		}
		for f[1] < len(c.text) && !utf8.RuneStart(c.text[f[1]]) {
			f[1]++
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b [2]int) int { return a[0] - b[0] })
	merged := out[:0]
	for _, f := range out {
		if n := len(merged); n > 0 && f[0] <= merged[n-1][1] {
			merged[n-1][1] = max(merged[n-1][1], f[1])
			continue
		}
		merged = append(merged, f)
	}
	return merged
}

// goes tells what becomes of a unit.
func (u *unit) goes(r [2]int) bool {
	end := u.at + len(u.src)
	switch u.kind {
	case letter, scalar:
		return r[0] < end && u.at < r[1]
	case hollow:
		return r[0] <= u.at && end <= r[1]
	}
	return false
}

// want is a regular expression for what may be released. room is false where a place to remove has no value in it.
func (c *covered) want() (want *regexp.Regexp, room bool) {
	removed := c.removed()
	used := make([]bool, len(removed))
	var b strings.Builder
	b.WriteString(`\A`)
	open := -1 // the string in which something is being removed
	for i := range c.units {
		u := &c.units[i]
		gone := false
		for k, r := range removed {
			if u.goes(r) {
				gone, used[k] = true, true
			}
		}
		switch {
		case !gone:
			b.WriteString(regexp.QuoteMeta(u.src))
		case u.kind != letter:
			b.WriteString(`"(` + inJSON + `)"`)
		case open == u.of: // the one that stands in is there
		case !c.json:
			b.WriteString(`(` + inText + `)`)
		case u.name:
			b.WriteString(`((?:` + inJSON + `@\d+)+)`)
		default:
			b.WriteString(`(` + inJSON + `+)`)
		}
		if open = -1; gone && u.kind == letter {
			open = u.of
		}
	}
	return regexp.MustCompile(b.String() + `\z`), !c.json || !slices.Contains(used, false)
}

func (c *covered) String() string {
	return fmt.Sprintf("%s, spots %+v, actions %+v, to remove %v", strconv.Quote(c.text), c.spots, c.actions, c.removed())
}

// check says what is wrong with what is released; "" is nothing.
func (c *covered) check(res *chain.ScanResult, want *regexp.Regexp, room bool) string {
	switch {
	case !room && res.Outcome == chain.Denied && res.Text == "":
		return ""
	case !room:
		return "released, although JSON has no room for what is to be removed"
	case res.Outcome == chain.Denied:
		return "denied: " + res.Reason
	case c.json && !json.Valid([]byte(res.Text)):
		return "no JSON any more"
	case !utf8.ValidString(res.Text):
		return "no UTF-8 any more"
	}
	instead := want.FindStringSubmatch(res.Text)
	if instead == nil {
		return "want " + want.String()
	}
	shown := chain.Decoded(res.Text)
	for i := range c.units {
		u := &c.units[i]
		whole := c.json || u.src == string(u.shows)
		for _, r := range c.removed() {
			if u.shows != 0 && whole && u.goes(r) && strings.ContainsRune(shown, u.shows) {
				return "a character that was found is still there: " + string(u.shows)
			}
		}
	}
	for _, with := range instead[1:] {
		if fault := c.checkInstead(with); fault != "" {
			return fault
		}
	}
	return ""
}

// checkInstead says what is wrong with what stands in for something.
func (c *covered) checkInstead(with string) string {
	bare := func(s string) string { // letters and digits
		return strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
				return r
			}
			return -1
		}, s)
	}
	for rest := with; strings.Contains(rest, "«"); {
		_, form, _ := strings.Cut(rest, "«")
		form, rest, _ = strings.Cut(form, "»")
		ends := func(f [2]int) bool {
			value := bare(chain.Decoded(c.text[f[0]:f[1]]))
			return len(value) >= 12 && strings.HasSuffix(value, bare(form))
		}
		if shown := bare(form); len(shown) > 4 || shown != "" && !slices.ContainsFunc(c.found, ends) {
			return "{format} shows " + form
		}
	}
	for _, token := range tokenForm.FindAllString(with, -1) {
		for key, want := range map[string]int{"the session": 1, "another": 0} {
			value, n, unknown, err := chain.Reveal(context.Background(), []byte(key), token)
			is := func(f [2]int) bool { return c.text[f[0]:f[1]] == value }
			if err != nil || n != want || unknown != 1-want || n > 0 && !slices.ContainsFunc(c.removed(), is) {
				return fmt.Sprintf("%s reveals %d values of %s: %q %v", key, n, token, value, err)
			}
		}
	}
	return ""
}

// No byte survives of what is found and to be removed, and all that is not found stays as it is, whatever finds what:
// several scanners, in places that overlap, touch, hold each other or end within a character, in escapes, names,
// numbers, and from one string to another. JSON stays JSON of the same shape. In pieces it is the same.
func TestNothingFoundSurvives(t *testing.T) {
	denied, redacted := 0, 0
	rounds := uint64(testkit.Rounds(6000, 1000))
	for seed := range rounds {
		c := newCovered(seed)
		sc := c.chain(t)
		in := &chain.Input{Text: c.text, ToolID: "files/read", MaskKey: func() []byte { return []byte("masks") },
			TokenKey: func() []byte { return []byte("the session") }, Whole: c.json && seed%2 == 0}
		want, room := c.want()
		res := sc.Run(context.Background(), in)
		if fault := c.check(&res, want, room); fault != "" {
			t.Fatalf("seed %d: %s\nreleased %q\nof %s", seed, fault, res.Text, c)
		}
		if res.Outcome == chain.Denied {
			denied++
		} else if res.Outcome == chain.Redacted {
			redacted++
		}
		in.Whole = false
		for range 3 {
			cut := c.cut()
			if got := c.pieces(sc, in, cut); got.Outcome != res.Outcome || got.Text != res.Text {
				t.Fatalf("seed %d, cut at %v: %s %s\nreleased %q\nwant %s %q\nof %s", seed, cut, got.Outcome, got.Reason,
					got.Text, res.Outcome, res.Text, c)
			}
		}
	}
	t.Logf("%d texts: %d redacted, %d denied", rounds, redacted, denied)
	if redacted < int(rounds)/3 || denied == 0 {
		t.Errorf("of %d texts %d were redacted and %d denied: too few to say anything", rounds, redacted, denied)
	}
}

func (c *covered) cut() []int {
	cut := make([]int, c.IntN(6))
	for i := range cut {
		cut[i] = c.IntN(len(c.text) + 1)
	}
	slices.Sort(cut)
	return cut
}

// pieces is Run for a text that comes in pieces. When one is denied, what came before is not told.
func (c *covered) pieces(sc *chain.ScanChain, in *chain.Input, cut []int) (all chain.ScanResult) {
	s := sc.NewStream(in, 1<<20)
	all.Outcome = chain.Pass
	worst := []string{chain.Pass, chain.Warned, chain.Redacted, chain.Denied}
	from := 0
	for i := 0; s != nil; i++ {
		to, last := len(c.text), i == len(cut)
		if !last {
			to = cut[i]
		}
		var res chain.StreamResult
		s, res = s.Next(context.Background(), c.text[from:to], last)
		if slices.Index(worst, res.Outcome) > slices.Index(worst, all.Outcome) {
			all.Outcome, all.Reason = res.Outcome, res.Reason
		}
		all.Text += res.Text
		from = to
	}
	if all.Outcome == chain.Denied {
		all.Text = ""
	}
	return all
}
