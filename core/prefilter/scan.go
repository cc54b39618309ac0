package prefilter

import "math/bits"

// A text is read in stretches, so that its bytes are still near when the next filter comes.
const (
	stretch = 16 << 10 // bytes
	// patience is the work that a filter may have with its candidates for each byte, in comparisons. On a text that is
	// made to look like triggers the automaton is faster; it reads the next relief stretches.
	patience = 3
	relief   = 8
)

// foundAt gives the offset at which a filter comes upon the literal that starts at start.
func (l *literal) foundAt(start int) int {
	step := int(l.step)
	return (start + int(l.at) + step - 1) / step * step
}

// findLiterals reports all hits of literals.
func (a *Automaton) findLiterals(text string, f *Found) {
	for from := 0; from < len(text) && f.live > 0; {
		to := min(from+stretch, len(text))
		if !a.filtered(text, from, to, f) {
			to = min(from+relief*stretch, len(text))
			a.exactly(text, from, to, f)
		}
		from = to
	}
}

// filtered reports what the filters find at [from, to), where from is even. It is false, and nothing was reported, when
// that is too much work for them.
func (a *Automaton) filtered(text string, from, to int, f *Found) bool {
	if !a.filter(text, from, to, f) {
		return false
	}
	for _, p := range f.pairs {
		f.report(p.Trigger, p.Offset)
	}
	return true
}

// exactly reports the same as filtered would, in a time that no text can make longer.
func (a *Automaton) exactly(text string, from, to int, f *Found) {
	for _, t := range a.exact {
		t.find(text, from, to, a.longest, f)
	}
}

// filter leaves in f.pairs what all filters find at [from, to). It gives up, and says so, when that is too much work.
func (a *Automaton) filter(text string, from, to int, f *Found) bool {
	f.pairs, f.work = f.pairs[:0], patience*stretch
	for i := range a.filters {
		fl := &a.filters[i]
		at := from
		switch fl.width {
		case 2:
			at = fl.scanPairs(text, from, to, f)
		case 3:
			at = fl.scanEvery(text, from, to, f)
		default:
			at = fl.scanEven(text, from, to, f)
		}
		for ; at < to && f.work > 0; at += fl.step {
			fl.check(text, at, window(text, at)&fl.mask|fl.fold, f)
		}
		if f.work <= 0 {
			return false
		}
	}
	return true
}

// check compares the literals whose gram has this value with the text at an offset.
func (f *filter) check(text string, at int, value uint64, found *Found) {
	b := value * hashFactor >> f.small
	bucket := f.grams[f.heads[b]:f.heads[b+1]]
	found.work -= 2 + len(bucket)
	for i := range bucket {
		g := &bucket[i]
		if (window(text, at-int(g.before))^g.want)&g.mask != 0 {
			continue
		}
		l := &found.a.patterns.literals[g.literal]
		start := at - int(g.at)
		if start < 0 || len(l.text) > len(text)-start {
			continue
		}
		found.work -= len(l.text) / 8
		if l.matchAt(text, start) {
			found.pairs = append(found.pairs, Hit{g.literal, uint32(start)})
		}
	}
}

// window reads eight bytes; outside the text there are zeros.
func window(text string, from int) uint64 {
	if from >= 0 && from+8 <= len(text) {
		return le64(text[from : from+8])
	}
	v := uint64(0)
	for i := max(0, -from); i < min(8, len(text)-from); i++ {
		v |= uint64(text[from+i]) << (8 * i)
	}
	return v
}

// scanEven checks the candidates at even offsets of [from, to) and gives the offset it came to: the end, or where work
// or text run out.
func (f *filter) scanEven(text string, from, to int, found *Found) int {
	table, shift, mask := f.table, f.shift&63, f.mask
	at := from
	for ; at < to && at+16 <= len(text); at += 8 {
		s := text[at : at+16]
		v, w := le64(s)|foldBits, le64(s[4:])|foldBits
		a, b := table[(v&mask)*hashFactor>>shift], table[(v>>16&mask)*hashFactor>>shift]
		c, d := table[(w&mask)*hashFactor>>shift], table[(w>>16&mask)*hashFactor>>shift]
		if a|b|c|d != 0 && !f.candidates(text, at, to, a|b<<1|c<<2|d<<3, found) {
			break
		}
	}
	return at
}

// scanEvery is scanEven for grams of three bytes as they are spelled and all offsets.
func (f *filter) scanEvery(text string, from, to int, found *Found) int {
	table, shift := f.table, f.shift&63
	const mask = 1<<24 - 1
	at := from
	for ; at < to && at+8 <= len(text); at += 4 {
		v := le64(text[at : at+8])
		a, b := table[(v&mask)*hashFactor>>shift], table[(v>>8&mask)*hashFactor>>shift]
		c, d := table[(v>>16&mask)*hashFactor>>shift], table[(v>>24&mask)*hashFactor>>shift]
		if a|b|c|d != 0 && !f.candidates(text, at, to, a|b<<1|c<<2|d<<3, found) {
			break
		}
	}
	return at
}

// scanPairs is scanEvery for two bytes.
func (f *filter) scanPairs(text string, from, to int, found *Found) int {
	table := (*[1 << 16]uint8)(f.table)
	at := from
	for ; at < to && at+8 <= len(text); at += 4 {
		v := le64(text[at : at+8])
		a, b, c, d := table[uint16(v)], table[uint16(v>>8)], table[uint16(v>>16)], table[uint16(v>>24)]
		if a|b|c|d != 0 && !f.candidates(text, at, to, a|b<<1|c<<2|d<<3, found) {
			break
		}
	}
	return at
}

// candidates checks those of the four next offsets whose bit is set. It tells whether there is work left to do with.
func (f *filter) candidates(text string, at, to int, set uint8, found *Found) bool {
	for m := uint(set); m != 0; m &= m - 1 {
		if p := at + f.step*bits.TrailingZeros(m); p < to {
			f.check(text, p, window(text, p)&f.mask|f.fold, found)
		}
	}
	return found.work > 0
}

// le64 reads the first eight bytes, the first one lowest.
func le64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
