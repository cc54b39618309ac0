package prefilter

import (
	"slices"
	"sort"
)

// trie is an Aho-Corasick automaton in little room: the states nearest to the root have a full row of transitions, the
// others their children and a failure link. It reads any text in time proportional to its length.
type trie struct {
	class   [256]uint8 // byte → class; bytes that no literal holds share one
	width   uint32     // classes
	rows    []uint32   // complete rows of the first states
	dense   uint32     // states with a row
	nodes   []node     // breadth first, so that the children of a state follow one another; one more at the end
	outputs []output   // the first is unused
	base    uint32     // where this trie's outputs begin in Found.mute
}

type node struct {
	child  uint32 // first child; the next node's is the end
	fail   uint32
	output uint32 // index into outputs of the longest literal that ends here, 0 for none
	class  uint8  // on the way from the parent
}

// output is a literal that ends at a state; next is the longest other one that ends there as well, 0 for none.
type output struct{ pattern, length, next uint32 }

// rowRoom is the most transitions in the rows of one trie; 4 bytes each.
const rowRoom = 1 << 18

// span is the literals [from, to) of a sorted list that share their first depth bytes.
type span struct{ from, to, depth int }

// newTrie makes the automaton of those literals that are folded, or of those that are not; nil if there are none. Its
// rows have room transitions at most, but the root always has one.
func newTrie(literals []literal, fold bool, room uint32) *trie {
	var order []int
	for i := range literals {
		if literals[i].fold == fold {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortFunc(order, func(a, b int) int {
		if literals[a].text < literals[b].text {
			return -1
		}
		return 1
	})
	t := &trie{outputs: make([]output, 1, len(order)+1)}
	t.classify(literals, order, fold)
	t.grow(literals, order)
	t.link(room)
	return t
}

// classify numbers the bytes that occur, in ascending order.
func (t *trie) classify(literals []literal, order []int, fold bool) {
	var used [256]bool
	for _, i := range order {
		for _, c := range []byte(literals[i].text) {
			used[c] = true
		}
	}
	if slices.Contains(used[:], false) {
		t.width = 1
	}
	for c := range used {
		if used[c] {
			t.class[c] = uint8(t.width)
			t.width++
		}
	}
	for c := 'A'; fold && c <= 'Z'; c++ {
		t.class[c] = t.class[c|0x20]
	}
}

// grow makes the nodes, breadth first.
func (t *trie) grow(literals []literal, order []int) {
	t.nodes = append(t.nodes, node{})
	spans := []span{{0, len(order), 0}}
	for s := 0; s < len(spans); s++ {
		at := spans[s]
		if l := literals[order[at.from]].text; len(l) == at.depth {
			t.nodes[s].output = uint32(len(t.outputs))
			t.outputs = append(t.outputs, output{pattern: uint32(order[at.from]), length: uint32(len(l))})
			at.from++
		}
		t.nodes[s].child = uint32(len(t.nodes))
		for at.from < at.to {
			c := literals[order[at.from]].text[at.depth]
			to := at.from + sort.Search(at.to-at.from, func(i int) bool {
				return literals[order[at.from+i]].text[at.depth] > c
			})
			t.nodes = append(t.nodes, node{class: t.class[c]})
			spans = append(spans, span{at.from, to, at.depth + 1})
			at.from = to
		}
	}
	t.nodes = append(t.nodes, node{child: uint32(len(t.nodes))})
}

// link sets failure links, chains of outputs and rows, all of which need only states nearer to the root.
func (t *trie) link(room uint32) {
	states := uint32(len(t.nodes) - 1)
	rows := min(states, max(1, room/t.width))
	t.rows = make([]uint32, rows*t.width)
	for s := range states {
		n := &t.nodes[s]
		if s < rows {
			row := t.rows[s*t.width:][:t.width]
			if s > 0 {
				copy(row, t.rows[n.fail*t.width:][:t.width])
			}
			for k := n.child; k < t.nodes[s+1].child; k++ {
				row[t.nodes[k].class] = k
			}
			t.dense = s + 1
		}
		for k := n.child; k < t.nodes[s+1].child; k++ {
			kid := &t.nodes[k]
			if s > 0 {
				kid.fail = t.step(n.fail, kid.class)
			}
			rest := t.nodes[kid.fail].output
			if kid.output == 0 {
				kid.output = rest
			} else {
				t.outputs[kid.output].next = rest
			}
		}
	}
}

// step gives the state after s and a byte of class c.
func (t *trie) step(s uint32, c uint8) uint32 {
	for s >= t.dense {
		from, to := t.nodes[s].child, t.nodes[s+1].child
		for to-from > 8 {
			if mid := (from + to) / 2; t.nodes[mid].class > c {
				to = mid
			} else {
				from = mid
			}
		}
		for ; from < to; from++ {
			if t.nodes[from].class == c {
				return from
			}
		}
		s = t.nodes[s].fail
	}
	return t.rows[s*t.width+uint32(c)]
}

// find reports the hits in text that a filter would find at [from, to). literals are those of the automaton.
func (t *trie) find(text string, from, to, longest int, f *Found) {
	state := uint32(0)
	for i := max(0, from-longest); i < min(len(text), to+longest); i++ {
		state = t.step(state, t.class[text[i]])
		if o := t.nodes[state].output; o != 0 {
			t.report(o, i+1, from, to, f)
			if f.live == 0 {
				return
			}
		}
	}
}

// report reports the literals that end at end. A chain of outputs that nobody wants any more is walked only once.
func (t *trie) report(o uint32, end, from, to int, f *Found) {
	wanted, top := false, o
	for ; o != 0 && !f.isMute(t.base+o); o = t.outputs[o].next {
		out := &t.outputs[o]
		if f.isDead(out.pattern) {
			continue
		}
		wanted = true
		start := end - int(out.length)
		if at := f.a.patterns.literals[out.pattern].foundAt(start); from <= at && at < to {
			f.report(out.pattern, uint32(start))
		}
	}
	if !wanted {
		for o = top; o != 0 && !f.isMute(t.base+o); o = t.outputs[o].next {
			f.setMute(t.base + o)
		}
	}
}
