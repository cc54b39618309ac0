package prefilter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk/abi"
)

func TestCompileRefuses(t *testing.T) {
	many := make([]abi.Trigger, maxTriggers)
	for i := range many {
		many[i] = lit("x")
	}
	var long []abi.Trigger
	for i := range maxLiteralBytes/maxLiteral + 1 {
		long = append(long, lit(fmt.Sprintf("%0*d", maxLiteral, i)))
	}
	good := set(lit("a"), runOf("digits", 1))
	for _, c := range []struct {
		name string
		sets [][]abi.Trigger
		want string
	}{
		{"neither", [][]abi.Trigger{good, {lit("a"), {}}}, "prefilter: set 1, trigger 1: exactly one of literal and class must be set"},
		{"both", [][]abi.Trigger{{{Literal: "a", Class: "digits", Min: 1}}}, "prefilter: set 0, trigger 0: exactly one of literal and class must be set"},
		{"class", [][]abi.Trigger{{runOf("letters", 1)}}, `prefilter: set 0, trigger 0: unknown class "letters"`},
		{"min", [][]abi.Trigger{good, nil, {runOf("hex", 0)}}, `prefilter: set 2, trigger 0: min of class "hex" is 0, must be at least 1`},
		{"long", [][]abi.Trigger{{lit(strings.Repeat("x", maxLiteral+1))}}, "prefilter: set 0, trigger 0: literal of 1025 bytes, at most 1024 are allowed"},
		{"total", [][]abi.Trigger{good, long}, "prefilter: set 1, trigger 4095: the literals are longer than 4194304 bytes in total"},
		{"many", [][]abi.Trigger{many, {lit("x")}}, "prefilter: more than 200000 triggers in all sets together"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Compile(c.sets); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := Compile([][]abi.Trigger{many}); err != nil {
		t.Errorf("as many triggers as allowed: %v", err)
	}
	if _, err := Compile([][]abi.Trigger{long[:len(long)-1]}); err != nil {
		t.Errorf("as many bytes as allowed: %v", err)
	}
}

// TestCap goes just to and beyond the cap of one set while others go on.
func TestCap(t *testing.T) {
	sets := [][]abi.Trigger{{lit("ab")}, {fold("AB"), runOf("digits", 3)}, {lit("zebra")}, nil, {runOf("at", 1)},
		{lit("abababab")}}
	a := compile(t, sets...)
	var f Found
	for _, c := range []struct {
		text string
		over string // sets beyond the cap
	}{
		{strings.Repeat("ab", Cap) + "zebra@", ""},
		{strings.Repeat("ab", Cap) + "123zebra@", "1"},
		{strings.Repeat("ab", Cap) + "Ab zebra@", "1"},
		{strings.Repeat("ab", Cap+1) + "zebra@", "0 1"},
		{strings.Repeat("ab", 3*stretch) + strings.Repeat(" ", 3*stretch) + "zebra@", "0 1 5"},
		{strings.Repeat("@", Cap) + "zebra", ""},
		{strings.Repeat("@ ", Cap) + "zebra", ""},
		{strings.Repeat("@ ", Cap+1) + "zebra", "4"},
		{"no more zebra@", ""},
	} {
		a.Find(c.text, &f)
		wanted := make([][]Hit, len(sets))
		var over []string
		for s := range sets {
			wanted[s] = naive(sets[s], c.text)
			if _, complete := f.Hits(s); !complete {
				over = append(over, fmt.Sprint(s))
			}
		}
		same(t, &f, wanted, c.text[len(c.text)-8:])
		if got := strings.Join(over, " "); got != c.over {
			t.Errorf("…%s: sets %q are over, want %q", c.text[len(c.text)-8:], got, c.over)
		}
	}
}

// TestHitsWithoutAnAnswer asks where there is none: that is never "nothing found".
func TestHitsWithoutAnAnswer(t *testing.T) {
	var f Found
	if hits, complete := f.Hits(0); complete || hits != nil {
		t.Error("complete before the first Find")
	}
	a := compile(t, set(lit("a")), nil)
	a.Find("a", &f)
	for _, s := range []int{-1, 2} {
		if hits, complete := f.Hits(s); complete || hits != nil {
			t.Errorf("set %d, which is not there, is complete", s)
		}
	}
	f.giveUp() // what a text does that is too long for 32 bits
	if hits, complete := f.Hits(0); complete || hits != nil {
		t.Error("complete after giving up")
	}
	if _, complete := f.Hits(1); !complete {
		t.Error("a set without triggers has no hits in any text")
	}
	compile(t, nil, nil, set(lit("b"))).Find("abb", &f)
	same(t, &f, [][]Hit{nil, nil, {{0, 1}, {0, 2}}}, "after another automaton")
}

// hostile are triggers and texts that are meant to cost time. The filters must give up on each.
func hostile(r *rand.Rand) []struct {
	name string
	sets [][]abi.Trigger
	text string
} {
	const n = 3 * stretch
	var nested, shared, variants []abi.Trigger
	for i := range 24 {
		nested = append(nested, lit(strings.Repeat("a", i+1)))
	}
	for i := range 256 {
		shared = append(shared, lit(strings.Repeat("a", 8)+fmt.Sprintf("%03dx", i)))
		v := []byte("abcdefgh")
		for k := range v {
			if i>>k&1 == 1 {
				v[k] &^= 0x20
			}
		}
		variants = append(variants, lit(string(v)+"!"))
	}
	tail := set(lit("zebra"), fold("Q9"))
	mixed := strings.Repeat(strings.Repeat("a", stretch-3)+"zebra"+strings.Repeat("a", 2*maxLiteral)+"q9Q9", relief+3)
	return []struct {
		name string
		sets [][]abi.Trigger
		text string
	}{
		{"nested", [][]abi.Trigger{nested, tail}, mixed},
		{"shared gram", [][]abi.Trigger{shared, tail}, mixed},
		{"long", [][]abi.Trigger{{lit(strings.Repeat("a", maxLiteral-1) + "b")}, tail}, mixed},
		{"long folded", [][]abi.Trigger{{fold(strings.Repeat("a", maxLiteral-1) + "b")}, tail}, strings.ToUpper(mixed)},
		{"spellings", [][]abi.Trigger{variants, tail}, strings.Repeat("abcdefgh", n/8) + "zebra ABCDEFGH!"},
		{"near misses", [][]abi.Trigger{shared, variants}, nearMisses(r, append(shared[:100:100], variants[:100]...), n)},
	}
}

// TestHostile reads texts on which the filters give up, where the automaton has to go on without a gap or an overlap.
func TestHostile(t *testing.T) {
	testkit.Long(t, "texts that take long")
	var f Found
	r := rand.New(rand.NewPCG(3, 4))
	for _, h := range hostile(r) {
		t.Run(h.name, func(t *testing.T) {
			a := compile(t, h.sets...)
			f.reset(a)
			if a.filter(h.text, 0, stretch, &f) {
				t.Error("the filters did not give up, so this is not hostile")
			}
			a.Find(h.text, &f)
			wanted := make([][]Hit, len(h.sets))
			for i, s := range h.sets {
				wanted[i] = asScanner(t, s)(h.text)
			}
			same(t, &f, wanted, h.name)
		})
	}
}

// TestStretches compares where texts go over the ends of stretches, read by filters, by the automaton, or by turns.
func TestStretches(t *testing.T) {
	var f Found
	for seed := range 12 {
		m := maker{rand.New(rand.NewPCG(uint64(seed), 5)), "abcdeABCDE01 @"}
		sets := [][]abi.Trigger{m.set(40, 12), m.set(40, 40), m.set(5, 200)}
		a := compile(t, sets...)
		b := []byte(strings.Repeat(" .", stretch*3/2+m.IntN(9)))
		for end := stretch; end < len(b); end += stretch {
			for k := range 8 {
				s := sets[k%3]
				l := s[m.IntN(len(s))].Literal
				copy(b[min(end-m.IntN(len(l)+2), len(b)):], l)
			}
		}
		if seed%2 == 1 { // the first stretch is too much for the filters
			copy(b, m.text(stretch/2))
		}
		text := string(b)
		a.Find(text, &f)
		wanted := make([][]Hit, len(sets))
		for i, s := range sets {
			wanted[i] = asScanner(t, s)(text)
		}
		same(t, &f, wanted, fmt.Sprint("seed ", seed))
	}
}

// TestFindDoesNotAllocate covers clean, dirty and hostile texts with a Found that has seen them.
func TestFindDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	clean := cleanText(r, 8<<10)
	literals := literals5000(r, clean)
	a := compile(t, literals, builtinClasses, nil)
	var f Found
	for _, text := range []string{clean, dirtyText(r, literals, clean, 50), nearMisses(r, literals, 2*stretch),
		strings.Repeat("@ ", 2*Cap)} {
		run := func() {
			a.Find(text, &f)
			for s := range 3 {
				f.Hits(s)
			}
		}
		run()
		if n := testing.AllocsPerRun(10, run); n != 0 {
			t.Errorf("%v allocations for a text that begins with %.20q", n, text)
		}
	}
}

// TestMemory adds up what an automaton of 5 000 literals holds.
func TestMemory(t *testing.T) {
	a := compile(t, literals5000(rand.New(rand.NewPCG(1, 2)), ""))
	total := 0
	for _, f := range a.filters {
		total += len(f.table) + 4*len(f.heads) + 24*cap(f.grams)
	}
	for _, e := range a.exact {
		total += 4*cap(e.rows) + 16*cap(e.nodes) + 12*cap(e.outputs)
	}
	total += 40*cap(a.patterns.literals) + 8*cap(a.patterns.owners) + 4*cap(a.patterns.first)
	if total > 5<<20 {
		t.Errorf("%d bytes for 5 000 literals", total)
	}
	t.Logf("%d KiB", total>>10)
}

// TestConcurrent uses one automaton from several goroutines; the race detector watches.
func TestConcurrent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	clean := cleanText(r, 4<<10)
	literals := literals5000(r, clean)
	text := dirtyText(r, literals, clean, 200)
	a := compile(t, literals)
	want := naive(literals, text)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var f Found
			for range 20 {
				a.Find(text, &f)
				if got, complete := f.Hits(0); !complete || len(got) != len(want) {
					t.Errorf("%d hits, complete %v, want %d", len(got), complete, len(want))
				}
			}
		})
	}
	wg.Wait()
}

// FuzzFind compares with the naive search. The first bytes choose the triggers.
func FuzzFind(f *testing.F) {
	f.Add([]byte("key\x00secret\x01AB\x00a\x01"), "KEY secrets ab 123 a@b")
	f.Add([]byte("aaaa\x00aaaaaaa\x01aaaaaaaaaa\x00"), strings.Repeat("a", 70))
	f.Add([]byte("\xff\xfe\xfd\x00\x00\x80\x01"), "\xff\xfe\xfd\x00\x80")
	f.Add([]byte("!\x02a0\x02//////\x02"), "0123456789abcdef+/@@")
	f.Fuzz(func(t *testing.T, spec []byte, text string) {
		if len(spec) > 200 || len(text) > 2000 {
			return
		}
		var sets [2][]abi.Trigger
		for from, i := 0, 0; i < len(spec); i++ {
			if spec[i] > 2 {
				continue
			}
			if word := string(spec[from:i]); word != "" {
				trigger := abi.Trigger{Literal: word, Fold: spec[i] == 1}
				if spec[i] == 2 {
					trigger = runOf(classes[int(word[0])%len(classes)].name, len(word))
				}
				s := &sets[int(word[0])>>4&1]
				*s = append(*s, trigger)
			}
			from = i + 1
		}
		a, err := Compile(sets[:])
		if err != nil {
			t.Fatal(err)
		}
		var found Found
		a.Find(text, &found)
		same(t, &found, [][]Hit{naive(sets[0], text), naive(sets[1], text)}, "fuzz")
	})
}
