package rules

import "slices"

// entry is one tool pattern of one rule. glob is nil where being found already proves the match.
type entry struct {
	rule int
	glob *Glob
}

// anchors holds patterns by the literal at one of their ends, and the lengths of those literals, ascending.
type anchors struct {
	byText map[string][]entry
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

// index finds the rules whose tool pattern can match a name without looking at the others: exact names by hash, the
// rest by the longer of the literals at their two ends. Every list is in rule order.
type index struct {
	exact  map[string][]entry
	prefix anchors
	suffix anchors
}

func newIndex(rules []compiled) *index {
	x := &index{
		exact:  map[string][]entry{},
		prefix: anchors{byText: map[string][]entry{}},
		suffix: anchors{byText: map[string][]entry{}},
	}
	for i := range rules {
		if len(rules[i].tools) == 0 {
			x.prefix.add("", entry{rule: i})
		}
		for _, g := range rules[i].tools {
			switch {
			case g.exact:
				x.exact[g.text] = append(x.exact[g.text], entry{rule: i})
			case len(g.suffix) > len(g.prefix):
				x.suffix.add(g.suffix, entry{i, g})
			default:
				x.prefix.add(g.prefix, entry{i, g})
			}
		}
	}
	return x
}

func (a *anchors) add(text string, e entry) {
	at, found := slices.BinarySearchFunc(a.sizes, len(text), func(s size, n int) int { return s.n - n })
	if !found {
		a.sizes = slices.Insert(a.sizes, at, size{n: len(text)})
	}
	word, mask := bit(text)
	a.sizes[at].seen[word] |= mask
	a.byText[text] = append(a.byText[text], e)
}

// candidates walks the rules that cover one tool, in rule order and each once. Its memory is reused.
type candidates struct {
	lists [][]entry
	last  int
}

// start makes c ready to walk the rules that cover tool.
func (x *index) start(c *candidates, tool string) {
	c.lists, c.last = c.lists[:0], -1
	c.push(x.exact[tool])
	for i := range x.prefix.sizes {
		s := &x.prefix.sizes[i]
		if s.n > len(tool) {
			break
		}
		if text := tool[:s.n]; s.mayHave(text) {
			c.push(x.prefix.byText[text])
		}
	}
	for i := range x.suffix.sizes {
		s := &x.suffix.sizes[i]
		if s.n > len(tool) {
			break
		}
		if text := tool[len(tool)-s.n:]; s.mayHave(text) {
			c.push(x.suffix.byText[text])
		}
	}
}

func (c *candidates) push(list []entry) {
	if len(list) > 0 {
		c.lists = append(c.lists, list)
	}
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
