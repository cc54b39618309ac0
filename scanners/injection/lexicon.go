package main

import (
	"strings"
	"unicode/utf8"
)

// entry is one word or phrase of the lexicon, folded.
type entry struct {
	text    string
	concept uint32
	prefix  bool
	next    uint16 // the next one of the bucket; 0 ends it
}

// lexicon finds words by their first three bytes, and phrases by their first two words.
type lexicon struct {
	entries []entry
	heads   [1 << 12]uint16
	phrases [1 << 12]uint16
}

// pair is where phrases are kept that begin with two words of these hashes.
func pair(first, second uint32) uint32 { return (first*0x9e3779b1 ^ second*0x85ebca6b) >> 20 }

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
			e := entry{text: text, concept: w.concept, prefix: prefix}
			last, _ := utf8.DecodeLastRuneInString(text)
			if len(s.tokens) > 2 || len(s.tokens) == 2 && (!prefix && last < utf8.RuneSelf || unspaced(last)) {
				l.put(&l.phrases[pair(s.tokens[0].hash, s.tokens[1].hash)], e)
				continue
			}
			l.add(e)
		}
	}
}

func (l *lexicon) add(e entry) {
	third := byte(' ')
	if len(e.text) > 2 {
		third = e.text[2]
	}
	l.put(&l.heads[bucket(e.text[0], e.text[1], third)], e)
}

func (l *lexicon) put(head *uint16, e entry) {
	e.next = *head
	*head = uint16(len(l.entries))
	l.entries = append(l.entries, e)
}

// at gives the concepts of the words that begin at norm[i], and where the longest of them ends. inWord: what is found
// need not end where a word ends.
func (l *lexicon) at(norm []byte, i int, inWord bool) (concepts uint32, end int) {
	if i+2 > len(norm) {
		return 0, i
	}
	third := byte(' ')
	if i+2 < len(norm) {
		third = norm[i+2]
	}
	return l.chain(l.heads[bucket(norm[i], norm[i+1], third)], norm, i, inWord)
}

// chain compares what stands at norm[i] with the entries of one place.
func (l *lexicon) chain(k uint16, norm []byte, i int, inWord bool) (concepts uint32, end int) {
	end = i
	for k != 0 {
		e := &l.entries[k]
		k = e.next
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
