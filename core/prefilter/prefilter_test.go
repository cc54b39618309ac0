package prefilter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/scanner"
)

// naive finds the hits of one set by trying every trigger at every offset.
func naive(set []abi.Trigger, text string) []Hit {
	var found []Hit
	for at := range len(text) {
		for t := range set {
			if naiveHit(&set[t], text, at) {
				found = append(found, Hit{uint32(t), uint32(at)})
			}
		}
	}
	return found
}

func naiveHit(t *abi.Trigger, text string, at int) bool {
	if t.Class != "" {
		in := classes[classNamed(t.Class)].bytes
		if at > 0 && strings.IndexByte(in, text[at-1]) >= 0 {
			return false
		}
		end := at
		for end < len(text) && strings.IndexByte(in, text[end]) >= 0 {
			end++
		}
		return end-at >= t.Min
	}
	if len(t.Literal) > len(text)-at {
		return false
	}
	for i := range len(t.Literal) {
		a, b := text[at+i], t.Literal[i]
		if t.Fold {
			a, b = lowerCase(a), lowerCase(b)
		}
		if a != b {
			return false
		}
	}
	return true
}

// asScanner finds the hits of one set as a guest does that has to read everything.
func asScanner(tb testing.TB, set []abi.Trigger) func(text string) []Hit {
	var found []Hit
	r, err := scanner.New(scanner.Spec{
		Name: "probe", Version: "1.0.0", Triggers: set,
		Scan: func(in *scanner.In, _ *scanner.Out) error {
			hits, err := in.Hits()
			found = found[:0]
			for _, h := range hits {
				found = append(found, Hit{uint32(h.Trigger), uint32(h.Start)})
			}
			return err
		},
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return func(text string) []Hit {
		if _, err := r.Scan([]byte(text)); err != nil {
			tb.Fatal(err)
		}
		return found
	}
}

func compile(tb testing.TB, sets ...[]abi.Trigger) *Automaton {
	tb.Helper()
	a, err := Compile(sets)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// same fails unless every set has the hits that are wanted, or none and complete=false where there are too many.
func same(tb testing.TB, f *Found, wanted [][]Hit, context string) {
	tb.Helper()
	for s, want := range wanted {
		got, complete := f.Hits(s)
		if len(want) > Cap {
			if complete || len(got) > 0 {
				tb.Fatalf("%s: set %d has %d hits, got %d, complete %v", context, s, len(want), len(got), complete)
			}
			continue
		}
		if !complete || !slices.Equal(got, want) {
			tb.Fatalf("%s: set %d: complete %v\n got %v\nwant %v", context, s, complete, got, want)
		}
	}
}

func lit(s string) abi.Trigger           { return abi.Trigger{Literal: s} }
func fold(s string) abi.Trigger          { return abi.Trigger{Literal: s, Fold: true} }
func runOf(c string, n int) abi.Trigger  { return abi.Trigger{Class: c, Min: n} }
func set(t ...abi.Trigger) []abi.Trigger { return t }

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []abi.Trigger
		text string
		want string // trigger@offset
	}{
		{"empty set", nil, "anything", ""},
		{"empty text", set(lit("a"), runOf("digits", 1)), "", ""},
		{"one byte", set(lit("a")), "abca", "0@0 0@3"},
		{"two bytes at the end", set(lit("ab")), "xxab", "0@2"},
		{"half at the end", set(lit("ab"), lit("abc"), lit("abcd"), lit("abcdefgh")), "xxa", ""},
		{"overlaps", set(lit("aa"), lit("aaa"), lit("aaaaa")), "aaaaa", "0@0 1@0 2@0 0@1 1@1 0@2 1@2 0@3"},
		{"inside another", set(lit("he"), lit("she"), lit("hers")), "ushers", "1@1 0@2 2@2"},
		{"case matters", set(lit("Key"), fold("Key"), lit("key")), "KEY Key key", "1@0 0@4 1@4 1@8 2@8"},
		{"only letters fold", set(fold("a@["), fold("{`")), "A@[ A`{ {` [@ {@", "0@0 1@8"},
		{"fold without letters", set(fold("://"), lit("://")), "a://b", "0@1 1@1"},
		{"twice the same", set(lit("abcd"), lit("abcd"), fold("ABCD")), "abcd", "0@0 1@0 2@0"},
		{"zero bytes", set(lit("\x00\x00"), lit("\x00\x00\x00\x00\x00\x00")), "a\x00\x00\x00", "0@1 0@2"},
		{"not UTF-8", set(lit("\xff\xfe\xfd\xfc\xfb")), "x\xff\xfe\xfd\xfc\xfb", "0@1"},
		{"runs are maximal", set(runOf("digits", 2), runOf("digits", 4)), "1 22 333 4444 5", "0@2 0@5 0@9 1@9"},
		{"run at both ends", set(runOf("hex", 3)), "abcxFF0", "0@0 0@4"},
		{"at", set(runOf("at", 1), runOf("at", 2)), "a@b@@c@", "0@1 0@3 1@3 0@6"},
		{"base64", set(runOf("base64", 8)), "x abcd+/=-_ y", "0@2"},
		{"literal and run at one offset", set(runOf("digits", 1), lit("12")), "12", "0@0 1@0"},
		{"a huge minimum", set(runOf("digits", 1<<40)), "12", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Found
			a := compile(t, c.set)
			for range 2 { // the second time in a Found that was used
				a.Find(c.text, &f)
				hits, complete := f.Hits(0)
				var got []string
				for _, h := range hits {
					got = append(got, fmt.Sprintf("%d@%d", h.Trigger, h.Offset))
				}
				if s := strings.Join(got, " "); s != c.want || !complete {
					t.Errorf("got %q, complete %v, want %q", s, complete, c.want)
				}
			}
			same(t, &f, [][]Hit{naive(c.set, c.text)}, "naive")
		})
	}
}

// maker makes random triggers and texts of few different bytes, so that they meet and overlap.
type maker struct {
	*rand.Rand
	bytes string
}

func (m maker) text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = m.bytes[m.IntN(len(m.bytes))]
	}
	return string(b)
}

func (m maker) set(n, longest int) []abi.Trigger {
	var s []abi.Trigger
	for range n {
		if m.IntN(8) == 0 {
			s = append(s, runOf(classes[m.IntN(len(classes))].name, 1+m.IntN(12)))
			continue
		}
		s = append(s, abi.Trigger{Literal: m.text(1 + m.IntN(longest)), Fold: m.IntN(2) == 0})
	}
	return s
}

// weave puts literals of the sets into a text, whole, cut and with one byte changed.
func (m maker) weave(text string, sets [][]abi.Trigger) string {
	b := []byte(text)
	for range m.IntN(20) {
		s := sets[m.IntN(len(sets))]
		if len(s) == 0 {
			continue
		}
		l := s[m.IntN(len(s))].Literal
		if len(l) == 0 || len(l) > len(b) {
			continue
		}
		at := m.IntN(len(b) - len(l) + 1)
		copy(b[at:], l)
		if m.IntN(3) == 0 {
			b[at+m.IntN(len(l))] ^= 0x20
		}
	}
	return string(b)
}

// TestFindAsOthersDo compares with the naive search, and with what a guest finds that reads everything itself.
func TestFindAsOthersDo(t *testing.T) {
	alphabets := []string{"ab", "aAbB", "aA1@", "abcABC012+@ ", "\x00\xff",
		"etaoinshrdlcumwfgypbvkjxqz ETAOIN_-0123456789@.:/"}
	rounds := 1500
	if testing.Short() {
		rounds = 300
	}
	var f Found
	for seed := range rounds {
		m := maker{rand.New(rand.NewPCG(uint64(seed), 1)), alphabets[seed%len(alphabets)]}
		sets := make([][]abi.Trigger, 1+m.IntN(4))
		for i := range sets {
			sets[i] = m.set(m.IntN(30), 1+m.IntN(24))
		}
		a := compile(t, sets...)
		for range 4 {
			text := m.weave(m.text(m.IntN(300)), sets)
			a.Find(text, &f)
			wanted := make([][]Hit, len(sets))
			for i := range sets {
				wanted[i] = naive(sets[i], text)
				if guest := asScanner(t, sets[i])(text); !slices.Equal(guest, wanted[i]) {
					t.Fatalf("seed %d: sdk/scanner finds %v, naive %v", seed, guest, wanted[i])
				}
			}
			same(t, &f, wanted, fmt.Sprintf("seed %d, text %q, sets %v", seed, text, sets))
		}
	}
}

// TestParts reads a text in parts of any even length, each by the filters or by the automaton as it comes. Every hit
// has to be found in exactly one part.
func TestParts(t *testing.T) {
	alphabets := []string{"ab", "aAbB", "abcABC012+@ "}
	rounds := 1500
	if testing.Short() {
		rounds = 400
	}
	var f Found
	for seed := range rounds {
		m := maker{rand.New(rand.NewPCG(uint64(seed), 7)), alphabets[seed%len(alphabets)]}
		literals := slices.DeleteFunc(m.set(20, 1+m.IntN(20)), func(t abi.Trigger) bool { return t.Class != "" })
		sets := [][]abi.Trigger{literals}
		a := compile(t, literals)
		a.build(uint32(m.IntN(200))) // most states without a row, as in large sets
		text := m.weave(m.text(200), append(sets, nil))
		f.reset(a)
		for from := 0; from < len(text); {
			to := min(from+2*m.IntN(40)+2, len(text))
			if m.IntN(2) == 0 {
				a.exactly(text, from, to, &f)
			} else if !a.filtered(text, from, to, &f) {
				t.Fatalf("seed %d: the filters gave up", seed)
			}
			from = to
		}
		same(t, &f, [][]Hit{naive(literals, text)}, fmt.Sprintf("seed %d, text %q, literals %v", seed, text, literals))
	}
}
