package prefilter

import "math/bits"

// filter finds literals by one gram of each: two to six bytes at a fixed offset in the literal. A table tells of
// almost every offset of a text that no gram is there; the few others are looked up and compared.
type filter struct {
	width  int     // bytes of a gram
	step   int     // it looks at every offset (1) or at even ones (2)
	fold   uint64  // set in every gram, so that both cases of a letter are one; 0: a gram for each spelling
	mask   uint64  // the bytes of a gram
	table  []uint8 // 1 where a gram may be
	shift  uint    // hash → index into table
	heads  []uint32
	small  uint // hash → bucket
	grams  []gram
	values []uint64 // of the grams, until they are indexed
}

// gram is what to compare where the table has it: at bytes behind the start of a literal. Bucket b of them is
// grams[heads[b]:heads[b+1]].
type gram struct {
	want, mask uint64 // eight bytes of the text, of which those of the literal count
	literal    uint32
	at         uint16
	before     uint16 // where these begin: so many bytes before the gram
}

const (
	hashFactor = 0x9E3779B97F4A7C15
	foldBits   = 0x2020202020202020
)

// The filters, by the length of what they find. Short literals are found by spelling, since short grams that stand for
// both cases are everywhere; long ones by two neighbouring grams, so that every second offset can be left out.
var shapes = [...]struct{ most, width, step int }{{2, 2, 1}, {4, 3, 1}, {6, 4, 2}, {maxLiteral, 6, 2}}

// newFilters divides the literals among filters by length and sets in each how it will be found.
func newFilters(literals []literal) []filter {
	var filters []filter
	shortest := 1
	for _, s := range shapes {
		f := filter{width: s.width, step: s.step, mask: 1<<(8*s.width) - 1}
		if s.step > 1 {
			f.fold = foldBits & f.mask
		}
		for i := range literals {
			if l := &literals[i]; shortest <= len(l.text) && len(l.text) <= s.most {
				f.add(l, uint32(i))
			}
		}
		if len(f.grams) > 0 {
			f.index()
			filters = append(filters, f)
		}
		shortest = s.most + 1
	}
	return filters
}

// add chooses the grams of a literal: those that are rarest in what people and programs write.
func (f *filter) add(l *literal, n uint32) {
	l.step = uint32(f.step)
	rarest := 1 << 30
	for at := 0; at+f.width+f.step-1 <= len(l.text); at++ {
		common := commonness(l.text[at : at+f.width])
		if f.step > 1 {
			common = max(common, commonness(l.text[at+1:at+1+f.width]))
		}
		if common < rarest {
			rarest, l.at = common, uint32(at)
		}
	}
	for at := int(l.at); at < int(l.at)+f.step; at++ {
		f.spell(gramOf(l, n, at, f.width), l, at, 0, 0)
	}
}

// gramOf gives what to compare where the gram at an offset of the literal was found.
func gramOf(l *literal, n uint32, at, width int) gram {
	start := max(0, min(at-(8-width)/2, len(l.text)-8))
	g := gram{literal: n, at: uint16(at), before: uint16(at - start)}
	for i := range min(8, len(l.text)-start) {
		c, m := l.text[start+i], byte(0xff)
		if l.fold && isLetter(c) {
			m &^= 0x20
		}
		g.want |= uint64(c&m) << (8 * i)
		g.mask |= uint64(m) << (8 * i)
	}
	return g
}

// spell adds the gram at an offset of the literal under each value that the text may have there. value holds the bytes
// before byte i.
func (f *filter) spell(g gram, l *literal, at, i int, value uint64) {
	for ; i < f.width; i++ {
		if at+i == len(l.text) { // one byte, looked for as a pair
			for c := range uint64(256) {
				f.put(g, value|c<<(8*i))
			}
			return
		}
		c := uint64(l.text[at+i])
		if l.fold && f.fold == 0 && isLetter(l.text[at+i]) {
			f.spell(g, l, at, i+1, value|(c&^0x20)<<(8*i))
		}
		value |= c << (8 * i)
	}
	f.put(g, value|f.fold)
}

func (f *filter) put(g gram, value uint64) {
	if f.fold == 0 { // each spelling compares itself, or a text would have one literal several times
		g.mask |= f.mask << (8 * g.before)
		g.want = g.want&^(f.mask<<(8*g.before)) | value<<(8*g.before)
	}
	f.values = append(f.values, value)
	f.grams = append(f.grams, g)
}

// index makes the tables.
func (f *filter) index() {
	width := bits.Len(uint(len(f.grams)))
	f.small = uint(64 - width - 1)
	// A table four times as large, beyond a few thousand grams, costs more in missed caches than it saves.
	f.shift = uint(64 - max(12, min(width+6, 19), min(width+3, 22)))
	if f.width == 2 {
		f.shift = 48
	}
	f.table = make([]uint8, 1<<(64-f.shift))
	f.heads = make([]uint32, 1<<(64-f.small)+1)
	for _, v := range f.values {
		f.table[f.slot(v)] = 1
		f.heads[v*hashFactor>>f.small+1]++
	}
	for b := range len(f.heads) - 1 {
		f.heads[b+1] += f.heads[b]
	}
	next, sorted := append([]uint32(nil), f.heads...), make([]gram, len(f.grams))
	for i, v := range f.values {
		b := v * hashFactor >> f.small
		sorted[next[b]] = f.grams[i]
		next[b]++
	}
	f.grams, f.values = sorted, nil
}

// slot gives the index of a gram in the table: the pair itself, or a hash.
func (f *filter) slot(value uint64) uint64 {
	if f.width == 2 {
		return value
	}
	return value * hashFactor >> f.shift
}
