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
	outs     [][]uint16   // by state-firstOut: triggers that end there
	runs     []int        // indexes of triggers that are byte classes
	classes  []*[256]bool // by trigger: its bytes, nil for a literal
	words    words
}

const maxStates = 1 << 16

func newFinder(triggers []Trigger) (*finder, error) {
	f := &finder{triggers: triggers}
	if len(triggers) >= maxStates {
		return nil, errors.New("too many triggers")
	}
	f.classes = make([]*[256]bool, len(triggers))
	var literals []int
	for i, t := range triggers {
		f.classes[i] = classOf(t.Class)
		switch {
		case (t.Literal != "") == (t.Class != ""):
			return nil, errors.New("trigger " + strconv.Itoa(i) + ": exactly one of Literal and Class")
		case t.Class != "" && (f.classes[i] == nil || t.Min < 1):
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
	t, err := newTrie(f, literals)
	if err != nil {
		return err
	}
	f.link(t)
	return nil
}

// trie holds the literals' prefixes. A guest's memory is never given back, so it is small: the table of all states and
// classes is made once, when their numbers are known.
type trie struct {
	nodes []node
	ends  [][]uint16 // by state: triggers that end there
}

type node struct {
	child, sibling uint16 // the first child, and the next one of the parent; 0: none, for the root is neither
	class          uint8  // of the byte that leads here
}

func newTrie(f *finder, literals []int) (*trie, error) {
	total := 1
	for _, i := range literals {
		total += len(f.triggers[i].Literal)
	}
	total = min(total, maxStates)
	t := &trie{nodes: make([]node, 1, total), ends: make([][]uint16, 1, total)}
	for _, i := range literals {
		s := uint16(0)
		for _, c := range []byte(f.triggers[i].Literal) {
			class := f.class[fold(c)]
			to := t.child(s, class)
			if to == 0 {
				if len(t.nodes) == maxStates {
					return nil, errors.New("triggers are too long in total")
				}
				to = uint16(len(t.nodes))
				t.nodes = append(t.nodes, node{sibling: t.nodes[s].child, class: class})
				t.nodes[s].child = to
				t.ends = append(t.ends, nil)
			}
			s = to
		}
		t.ends[s] = append(t.ends[s], uint16(i))
	}
	return t, nil
}

// child is the state that a class leads to within the trie, 0 if there is none.
func (t *trie) child(s uint16, class uint8) uint16 {
	for to := t.nodes[s].child; to != 0; to = t.nodes[to].sibling {
		if t.nodes[to].class == class {
			return to
		}
	}
	return 0
}

// breadthFirst lists the states but the root, the nearer ones first, and gives for each the longest shorter suffix that
// is a state too. The triggers of that state end in it as well.
func (t *trie) breadthFirst() (queue, fail []uint16) {
	fail = make([]uint16, len(t.nodes))
	queue = make([]uint16, 0, len(t.nodes))
	for to := t.nodes[0].child; to != 0; to = t.nodes[to].sibling {
		queue = append(queue, to)
	}
	for head := 0; head < len(queue); head++ {
		s := queue[head]
		t.ends[s] = append(t.ends[s], t.ends[fail[s]]...)
		for to := t.nodes[s].child; to != 0; to = t.nodes[to].sibling {
			class := t.nodes[to].class
			back := fail[s]
			for back != 0 && t.child(back, class) == 0 {
				back = fail[back]
			}
			fail[to] = t.child(back, class)
			queue = append(queue, to)
		}
	}
	return queue, fail
}

// link makes the complete automaton of a trie, with the states that end a literal numbered last.
func (f *finder) link(t *trie) {
	queue, fail := t.breadthFirst()
	number := make([]uint16, len(t.nodes))
	n := uint16(0)
	for s := range t.ends {
		if len(t.ends[s]) == 0 {
			number[s] = n
			n++
		}
	}
	f.firstOut = n
	for s := range t.ends {
		if len(t.ends[s]) != 0 {
			number[s] = n
			f.outs = append(f.outs, t.ends[s])
			n++
		}
	}
	f.next = make([]uint16, len(t.nodes)<<f.shift)
	row := func(s uint16) []uint16 {
		at := int(number[s]) << f.shift
		return f.next[at : at+1<<f.shift]
	}
	root := row(0)
	for i := range root {
		root[i] = number[0]
	}
	fill := func(s uint16) {
		for to := t.nodes[s].child; to != 0; to = t.nodes[to].sibling {
			row(s)[t.nodes[to].class] = number[to]
		}
	}
	fill(0)
	for _, s := range queue {
		copy(row(s), row(fail[s]))
		fill(s)
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
	in, least := f.classes[t], f.triggers[t].Min
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

// classAt is the class of trigger t, nil for a literal.
func (f *finder) classAt(t int) *[256]bool {
	if t < len(f.classes) { // words of the configuration, behind all others, are literals
		return f.classes[t]
	}
	return nil
}

// matchAt tells whether trigger t has a hit that starts at the given offset, and where it ends.
func (f *finder) matchAt(t int, text []byte, at int) (end int, ok bool) {
	trig := &f.triggers[t]
	if in := f.classAt(t); in != nil {
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
