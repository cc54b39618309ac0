package prefilter

import (
	"cmp"
	"slices"
)

// Found holds the hits of one text and is reused for the next. The zero value is ready for Find. It is not for
// concurrent use.
type Found struct {
	a     *Automaton
	sets  []hits
	live  int      // sets with triggers that are still within Cap
	dead  []uint64 // patterns that no such set wants, as bits
	mute  []uint64 // outputs of tries behind which all patterns are dead, as bits, trie after trie
	dirty bool     // dead or mute hold bits
	pairs []Hit    // what the filters found in the stretch at hand; Trigger is a pattern's number
	work  int      // what they may still do there
}

type hits struct {
	list   []Hit
	sorted bool
	over   bool
}

// Hits gives the hits of a set, ordered by offset and then by trigger, valid until the next Find. complete is false
// when there were more than Cap: then there are none here and the scanner has to read the whole text. It is false as
// well for a set that the automaton does not have and before the first Find.
func (f *Found) Hits(set int) (list []Hit, complete bool) {
	if f.a == nil || set < 0 || set >= len(f.sets) || f.sets[set].over {
		return nil, false
	}
	s := &f.sets[set]
	if !s.sorted {
		slices.SortFunc(s.list, func(x, y Hit) int {
			return cmp.Compare(uint64(x.Offset)<<32|uint64(x.Trigger), uint64(y.Offset)<<32|uint64(y.Trigger))
		})
		s.sorted = true
	}
	return s.list, true
}

func (f *Found) reset(a *Automaton) {
	if f.a != a {
		outputs := 0
		for _, t := range a.exact {
			outputs += len(t.outputs)
		}
		f.a, f.sets = a, slices.Grow(f.sets[:0], a.sets)[:a.sets]
		f.dead = make([]uint64, (len(a.patterns.first)+63)/64)
		f.mute = make([]uint64, (outputs+63)/64)
		f.dirty = false
	}
	for i := range f.sets {
		f.sets[i] = hits{list: f.sets[i].list[:0]}
	}
	if f.dirty {
		clear(f.dead)
		clear(f.mute)
		f.dirty = false
	}
	f.live = len(a.asked)
}

// giveUp leaves every set that has triggers without an answer.
func (f *Found) giveUp() {
	for _, s := range f.a.asked {
		f.sets[s] = hits{list: f.sets[s].list[:0], over: true}
	}
	f.live = 0
}

// report adds a hit of a pattern to every set that wants it and is not over.
func (f *Found) report(pattern, offset uint32) {
	if f.isDead(pattern) {
		return
	}
	p, wanted := &f.a.patterns, false
	for _, o := range p.owners[p.first[pattern]:p.first[pattern+1]] {
		s := &f.sets[o.set]
		switch {
		case s.over:
		case len(s.list) == Cap:
			s.over, s.list = true, s.list[:0]
			f.live--
		default:
			s.list = append(s.list, Hit{o.trigger, offset})
			s.sorted = false
			wanted = true
		}
	}
	if !wanted {
		f.dead[pattern/64] |= 1 << (pattern % 64)
		f.dirty = true
	}
}

// isDead tells whether nobody wants hits of the pattern any more.
func (f *Found) isDead(pattern uint32) bool {
	return f.dead[pattern/64]&(1<<(pattern%64)) != 0
}

// isMute tells whether nobody wants the literals from this output on.
func (f *Found) isMute(output uint32) bool {
	return f.mute[output/64]&(1<<(output%64)) != 0
}

func (f *Found) setMute(output uint32) {
	f.mute[output/64] |= 1 << (output % 64)
	f.dirty = true
}
