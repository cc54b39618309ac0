package main

import "strings"

// entry is one word or phrase of the lexicon, folded.
type entry struct {
	text    string
	concept uint32
	prefix  bool
	next    uint16 // the next one of the bucket; 0 ends it
}

// lexicon finds entries by their first three bytes.
type lexicon struct {
	entries []entry
	heads   [1 << 12]uint16
}

func bucket(a, b, c byte) uint32 {
	return (uint32(a)*0x9e37 ^ uint32(b)*0x85eb ^ uint32(c)*0xc2b3) >> 3 & (1<<12 - 1)
}

var lex = new(lexicon)

// fill reads the lists of words. Folding may consult the lexicon, which is empty then.
func (l *lexicon) fill() {
	l.entries = make([]entry, 1, 2048)
	var s segment
	for _, w := range words {
		for _, word := range strings.Fields(w.list) {
			bare, prefix := strings.CutSuffix(word, "*")
			s.fold([]byte(strings.ReplaceAll(bare, "_", " ")), 0)
			text := string(s.norm)
			if len(text) < 2 {
				panic("lexicon: too short: " + word)
			}
			l.add(entry{text: text, concept: w.concept, prefix: prefix})
		}
	}
}

func (l *lexicon) add(e entry) {
	third := byte(' ')
	if len(e.text) > 2 {
		third = e.text[2]
	}
	h := &l.heads[bucket(e.text[0], e.text[1], third)]
	e.next = *h
	*h = uint16(len(l.entries))
	l.entries = append(l.entries, e)
}

// at gives the concepts of everything that begins at norm[i], and where the longest of it ends. inWord: what
// is found
// need not end where a word ends.
func (l *lexicon) at(norm []byte, i int, inWord bool) (concepts uint32, end int) {
	if i+2 > len(norm) {
		return 0, i
	}
	third := byte(' ')
	if i+2 < len(norm) {
		third = norm[i+2]
	}
	end = i
	for k := l.heads[bucket(norm[i], norm[i+1], third)]; k != 0; k = l.entries[k].next {
		e := &l.entries[k]
		n := i + len(e.text)
		if n > len(norm) || norm[n-1] != e.text[len(e.text)-1] || string(norm[i:n]) != e.text {
			continue
		}
		if !e.prefix && !inWord && n < len(norm) && norm[n] != ' ' && norm[n] < 0xe0 {
			continue
		}
		concepts |= e.concept
		end = max(end, n)
	}
	return concepts, end
}
