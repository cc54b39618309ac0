// Package prefilter finds the triggers of all scanners of a chain in one reading of a text, so that a scanner which can
// find nothing is never called. It owns the compiled automaton and the exact meaning of a hit, which is that of
// sdk/scanner: every occurrence of a literal, every maximal run of a byte class. It must never miss a hit or invent
// one, whatever the text, and its time must stay proportional to the text's length. Triggers come from the metadata of
// the modules, texts from the calls; hits go to core/wasm/host, which hands them to the guests. It does no I/O.
package prefilter

import "github.com/yett-dev/yett/sdk/abi"

// Cap is the most hits that are reported for one set and text. Beyond it the guest has to read everything itself.
const Cap = 4096

// Limits of Compile, over all sets together; the last two count distinct literals only once.
const (
	maxTriggers     = 200_000
	maxLiteral      = 1 << 10 // bytes of one literal
	maxLiteralBytes = 4 << 20 // bytes of all literals
)

// Hit is one occurrence of a trigger: its index in the set, and the offset in bytes at which the literal or run starts.
type Hit struct{ Trigger, Offset uint32 }

// Automaton is what Compile makes of the triggers of all scanners. It does not change and is safe for concurrent use.
type Automaton struct {
	sets     int
	asked    []int // sets that have triggers
	patterns patterns
	runs     []classRuns
	filters  []filter
	exact    []*trie // case-sensitive and folded literals; reads what the filters give up on
	longest  int     // bytes of the longest literal
}

// Compile makes the automaton of one set of triggers for each scanner. A set may be empty; it never has hits. A trigger
// that occurs in several sets is looked for once. It refuses, naming set and trigger by index, what sdk/scanner refuses
// (not exactly one of literal and class, an unknown class, a minimum below 1) and sets beyond the limits.
func Compile(sets [][]abi.Trigger) (*Automaton, error) {
	a := &Automaton{sets: len(sets)}
	for i, set := range sets {
		if len(set) > 0 {
			a.asked = append(a.asked, i)
		}
	}
	if err := a.patterns.add(sets); err != nil {
		return nil, err
	}
	a.runs = groupRuns(a.patterns.runs, len(a.patterns.literals))
	a.filters = newFilters(a.patterns.literals)
	a.build(rowRoom)
	for _, l := range a.patterns.literals {
		a.longest = max(a.longest, len(l.text))
	}
	return a, nil
}

// build makes the tries.
func (a *Automaton) build(room uint32) {
	a.exact = nil
	outputs := uint32(0)
	for _, fold := range []bool{false, true} {
		if t := newTrie(a.patterns.literals, fold, room); t != nil {
			t.base = outputs
			outputs += uint32(len(t.outputs))
			a.exact = append(a.exact, t)
		}
	}
}

// Find looks for all triggers in text and leaves the hits in f, replacing what was there. Once f has seen texts of the
// kind it does not allocate. A text of 4 GiB or more has offsets that do not fit and counts as one with too many hits.
func (a *Automaton) Find(text string, f *Found) {
	f.reset(a)
	if uint64(len(text)) > maxText {
		f.giveUp()
		return
	}
	for i := range a.runs {
		a.runs[i].find(text, f)
	}
	a.findLiterals(text, f)
}

// maxText keeps every offset, and every offset plus a literal's length, within 32 bits.
const maxText = 1<<32 - 1 - 2*maxLiteral
