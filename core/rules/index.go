package rules

import "slices"

// entry is one pattern of one rule. glob is the rule's tool pattern, nil where being found already proves the match.
type entry struct {
	rule int
	glob *Glob
}

// bucket holds the entries whose pattern has one literal at its end, in rule order. Where there are many, agents finds
// those that an agent can match, again without looking at the others.
type bucket struct {
	all    []entry
	agents *index
}

// crowded is how many entries a bucket has before it is worth looking for the agent too.
const crowded = 4

// anchors holds patterns by the literal at one of their ends, and the lengths of those literals, ascending.
type anchors struct {
	byText map[string]*bucket
	sizes  []size
}

// size is one length of literals, with a small filter that saves most of the look-ups that would find nothing: the
// time of a call then hardly depends on how many lengths other tools' patterns have.
type size struct {
	n    int
	seen [4]uint64
}

// bit picks three bytes that tend to differ between names.
func bit(text string) (word, mask uint64) {
	if text == "" {
		return 0, 1
	}
	h := uint64(text[0]) + 7*uint64(text[len(text)/2]) + 31*uint64(text[len(text)-1])
	return h >> 6 & 3, 1 << (h & 63)
}

func (s *size) mayHave(text string) bool {
	word, mask := bit(text)
	return s.seen[word]&mask != 0
}

// index finds the entries whose pattern can match a name without looking at the others: exact names by hash, the rest
// by the longer of the literals at their two ends.
type index struct {
	exact  map[string]*bucket
	prefix anchors
	suffix anchors
}

func emptyIndex() *index {
	return &index{
		exact:  map[string]*bucket{},
		prefix: anchors{byText: map[string]*bucket{}},
		suffix: anchors{byText: map[string]*bucket{}},
	}
}

// newIndex indexes rules by tool and, where many share one literal, by agent below that.
func newIndex(rules []compiled) *index {
	x := emptyIndex()
	for i := range rules {
		if len(rules[i].tools) == 0 {
			x.prefix.add("", entry{rule: i})
		}
		for _, g := range rules[i].tools {
			e := entry{i, g}
			if g.exact {
				e.glob = nil
			}
			x.add(g, e)
		}
	}
	for _, in := range []map[string]*bucket{x.exact, x.prefix.byText, x.suffix.byText} {
		for _, b := range in {
			b.byAgent(rules)
		}
	}
	return x
}

// byAgent indexes a crowded bucket's entries by their rules' agents. An entry that a look-up finds still has to be
// compared with all of its rule's agents.
func (b *bucket) byAgent(rules []compiled) {
	if len(b.all) < crowded {
		return
	}
	x := emptyIndex()
	for _, e := range b.all {
		if len(rules[e.rule].agents) == 0 {
			x.prefix.add("", e)
		}
		for _, g := range rules[e.rule].agents {
			x.add(g, e)
		}
	}
	b.agents = x
}

// add files an entry under the pattern g.
func (x *index) add(g *Glob, e entry) {
	switch {
	case g.exact:
		b := x.exact[g.text]
		if b == nil {
			b = &bucket{}
			x.exact[g.text] = b
		}
		b.all = append(b.all, e)
	case len(g.suffix) > len(g.prefix):
		x.suffix.add(g.suffix, e)
	default:
		x.prefix.add(g.prefix, e)
	}
}

func (a *anchors) add(text string, e entry) {
	at, found := slices.BinarySearchFunc(a.sizes, len(text), func(s size, n int) int { return s.n - n })
	if !found {
		a.sizes = slices.Insert(a.sizes, at, size{n: len(text)})
	}
	word, mask := bit(text)
	a.sizes[at].seen[word] |= mask
	b := a.byText[text]
	if b == nil {
		b = &bucket{}
		a.byText[text] = b
	}
	b.all = append(b.all, e)
}

// find appends the buckets whose literal name has.
func (x *index) find(name string, out []*bucket) []*bucket {
	if b := x.exact[name]; b != nil {
		out = append(out, b)
	}
	for i := range x.prefix.sizes {
		s := &x.prefix.sizes[i]
		if s.n > len(name) {
			break
		}
		if text := name[:s.n]; s.mayHave(text) {
			out = appendFound(out, x.prefix.byText[text])
		}
	}
	for i := range x.suffix.sizes {
		s := &x.suffix.sizes[i]
		if s.n > len(name) {
			break
		}
		if text := name[len(name)-s.n:]; s.mayHave(text) {
			out = appendFound(out, x.suffix.byText[text])
		}
	}
	return out
}

func appendFound(out []*bucket, b *bucket) []*bucket {
	if b == nil {
		return out
	}
	return append(out, b)
}

// candidates walks the rules that cover one tool, in rule order and each once. Its memory is reused.
type candidates struct {
	lists [][]entry
	found []*bucket
	last  int
}

// start makes c ready to walk the rules that cover tool and may cover agent.
func (x *index) start(c *candidates, tool, agent string) {
	c.lists, c.last = c.lists[:0], -1
	c.found = x.find(tool, c.found[:0])
	for i, n := 0, len(c.found); i < n; i++ {
		b := c.found[i]
		if b.agents == nil {
			c.lists = append(c.lists, b.all)
			continue
		}
		c.found = b.agents.find(agent, c.found)
		for _, sub := range c.found[n:] {
			c.lists = append(c.lists, sub.all)
		}
		c.found = c.found[:n]
	}
}

// startAll is start without regard to the agent.
func (x *index) startAll(c *candidates, tool string) {
	c.lists, c.last = c.lists[:0], -1
	c.found = x.find(tool, c.found[:0])
	for _, b := range c.found {
		c.lists = append(c.lists, b.all)
	}
}

// release drops what c refers to: a rule set that a reload has replaced must not be kept alive.
func (c *candidates) release() {
	clear(c.lists[:cap(c.lists)])
	clear(c.found[:cap(c.found)])
}

// next is the number of the next rule that covers tool, or -1 when there are no more.
func (c *candidates) next(tool string) int {
	for {
		best := -1
		for i, list := range c.lists {
			if len(list) > 0 && (best < 0 || list[0].rule < c.lists[best][0].rule) {
				best = i
			}
		}
		if best < 0 {
			return -1
		}
		e := c.lists[best][0]
		c.lists[best] = c.lists[best][1:]
		if e.rule == c.last || e.glob != nil && !e.glob.Match(tool) {
			continue
		}
		c.last = e.rule
		return e.rule
	}
}
