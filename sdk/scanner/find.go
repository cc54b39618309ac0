package scanner

import (
	"errors"
	"math/bits"
	"strconv"
)

// finder looks for all triggers in one pass: literals with an Aho-Corasick automaton over letter-folded byte classes
// (case is compared at a hit, where it matters), byte classes as runs. States that end a literal are numbered last, so
// that the loop needs one comparison to know that nothing happened.
type finder struct {
	triggers []Trigger
	class    [256]uint8
	shift    uint
	next     []uint16 // state<<shift | class → state
	firstOut uint16
	outs     [][]uint16 // by state-firstOut: triggers that end there
	runs     []int      // indexes of triggers that are byte classes
	words    words
}

const maxStates = 1 << 16

func newFinder(triggers []Trigger) (*finder, error) {
	f := &finder{triggers: triggers}
	if len(triggers) >= maxStates {
		return nil, errors.New("too many triggers")
	}
	var literals []int
	for i, t := range triggers {
		switch {
		case (t.Literal != "") == (t.Class != ""):
			return nil, errors.New("trigger " + strconv.Itoa(i) + ": exactly one of Literal and Class")
		case t.Class != "" && (classOf(t.Class) == nil || t.Min < 1):
			return nil, errors.New("trigger " + strconv.Itoa(i) + ": unknown class or Min below 1: " + t.Class)
		case t.Class != "":
			f.runs = append(f.runs, i)
		default:
			literals = append(literals, i)
		}
	}
	return f, f.build(literals)
}

// build makes the automaton.
func (f *finder) build(literals []int) error {
	classes := 1
	for _, i := range literals {
		for _, c := range []byte(f.triggers[i].Literal) {
			if c = fold(c); f.class[c] == 0 {
				if classes == 255 {
					return errors.New("triggers use too many different bytes")
				}
				f.class[c] = uint8(classes)
				classes++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		f.class[c] = f.class[c|0x20]
	}
	f.shift = uint(bits.Len(uint(classes - 1)))
	width := 1 << f.shift
	trie := make([]uint16, width)
	ends := [][]uint16{nil}
	for _, i := range literals {
		s := 0
		for _, c := range []byte(f.triggers[i].Literal) {
			at := s<<f.shift | int(f.class[fold(c)])
			if trie[at] == 0 {
				if len(ends) == maxStates {
					return errors.New("triggers are too long in total")
				}
				trie[at] = uint16(len(ends))
				trie = append(trie, make([]uint16, width)...)
				ends = append(ends, nil)
			}
			s = int(trie[at])
		}
		ends[s] = append(ends[s], uint16(i))
	}
	f.link(trie, ends)
	return nil
}

// link turns the trie into a complete automaton, breadth first, and renumbers its states.
func (f *finder) link(trie []uint16, ends [][]uint16) {
	width := 1 << f.shift
	fail := make([]uint16, len(ends))
	queue := make([]uint16, 0, len(ends))
	for _, s := range trie[:width] {
		if s != 0 {
			queue = append(queue, s)
		}
	}
	for head := 0; head < len(queue); head++ {
		s := int(queue[head])
		back := int(fail[s])
		ends[s] = append(ends[s], ends[back]...)
		for c := range width {
			to := &trie[s<<f.shift|c]
			if *to == 0 {
				*to = trie[back<<f.shift|c]
				continue
			}
			fail[*to] = trie[back<<f.shift|c]
			queue = append(queue, *to)
		}
	}
	number := make([]uint16, len(ends))
	n := uint16(0)
	for s := range ends {
		if len(ends[s]) == 0 {
			number[s] = n
			n++
		}
	}
	f.firstOut = n
	for s := range ends {
		if len(ends[s]) != 0 {
			number[s] = n
			f.outs = append(f.outs, ends[s])
			n++
		}
	}
	f.next = make([]uint16, len(trie))
	for s := range ends {
		for c := range width {
			f.next[int(number[s])<<f.shift|c] = number[trie[s<<f.shift|c]]
		}
	}
}

// search appends every hit in text.
func (f *finder) search(text []byte, hits []Hit) []Hit {
	if len(f.outs) > 0 {
		state, shift, next, first := uint(0), f.shift&15, f.next, uint(f.firstOut)
		for i, c := range text {
			state = uint(next[state<<shift|uint(f.class[c])])
			if state < first {
				continue
			}
			for _, t := range f.outs[state-first] {
				lit := &f.triggers[t]
				start := i + 1 - len(lit.Literal)
				if lit.Fold || string(text[start:i+1]) == lit.Literal {
					hits = append(hits, Hit{int(t), start, i + 1})
				}
			}
		}
	}
	for _, t := range f.runs {
		hits = f.searchRuns(t, text, hits)
	}
	return f.searchWords(text, hits)
}

func (f *finder) searchRuns(t int, text []byte, hits []Hit) []Hit {
	in, least := classOf(f.triggers[t].Class), f.triggers[t].Min
	for i := 0; i < len(text); i++ {
		if !in[text[i]] {
			continue
		}
		start := i
		for i < len(text) && in[text[i]] {
			i++
		}
		if i-start >= least {
			hits = append(hits, Hit{t, start, i})
		}
	}
	return hits
}

// matchAt tells whether trigger t has a hit that starts at the given offset, and where it ends.
func (f *finder) matchAt(t int, text []byte, at int) (end int, ok bool) {
	trig := &f.triggers[t]
	if trig.Class != "" {
		in := classOf(trig.Class)
		for end = at; end < len(text) && in[text[end]]; end++ {
		}
		return end, end-at >= trig.Min && (at == 0 || !in[text[at-1]])
	}
	end = at + len(trig.Literal)
	if end > len(text) {
		return 0, false
	}
	for i := range len(trig.Literal) {
		a, b := text[at+i], trig.Literal[i]
		if a != b && (!trig.Fold || fold(a) != fold(b)) {
			return 0, false
		}
	}
	return end, true
}

func fold(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

var (
	classDigits = tableOf("0123456789")
	classHex    = tableOf("0123456789abcdefABCDEF")
	classBase64 = tableOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_")
	classAt     = tableOf("@")
)

func tableOf(bytes string) *[256]bool {
	var t [256]bool
	for i := range len(bytes) {
		t[bytes[i]] = true
	}
	return &t
}

func classOf(name string) *[256]bool {
	switch name {
	case "digits":
		return classDigits
	case "hex":
		return classHex
	case "base64":
		return classBase64
	case "at":
		return classAt
	}
	return nil
}
