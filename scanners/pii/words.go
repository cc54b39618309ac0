package main

// wordSet finds words by a hash that grows letter by letter, so that a word's beginnings cost no more than the word.
type wordSet struct {
	slots [4096]uint16 // index into words and 1; 0 is free
	words []string
	masks []topic
}

const (
	hashSeed  = uint32(2166136261)
	hashPrime = uint32(16777619)
)

func makeWordSet(table map[string]topic) *wordSet {
	s := &wordSet{}
	for w, mask := range table {
		s.words = append(s.words, w)
		s.masks = append(s.masks, mask)
		h := hashSeed
		for i := range len(w) {
			h = (h ^ uint32(w[i])) * hashPrime
		}
		slot := s.slot(h)
		for s.slots[slot] != 0 {
			slot = (slot + 1) % len(s.slots)
		}
		s.slots[slot] = uint16(len(s.words))
	}
	return s
}

func (s *wordSet) slot(h uint32) int { return int(h^h>>15) % len(s.slots) }

// find gives what a word with the hash h speaks of.
func (s *wordSet) find(w []byte, h uint32) topic {
	for slot := s.slot(h); s.slots[slot] != 0; slot = (slot + 1) % len(s.slots) {
		if i := s.slots[slot] - 1; s.words[i] == string(w) {
			return s.masks[i]
		}
	}
	return 0
}
