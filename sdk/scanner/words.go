package scanner

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/sdk/abi"
)

// Lengths of what becomes a trigger, bytes.
const maxEntry = 256

// addTriggers makes triggers of the lists that Spec.TriggersFrom names, in that order, numbered behind Spec.Triggers.
// It keeps to the rules of the host, which may not have seen the configuration yet.
func (m *machine) addTriggers(config []byte) error {
	for _, from := range m.spec.TriggersFrom {
		names := strings.Split(from.Path[1:], "/")
		field := strings.Join(names, ".")
		list, err := stringsAt(config, names)
		if err != nil {
			return errors.New(field + ": " + err.Error())
		}
		if len(m.find.triggers)-len(m.spec.Triggers)+len(list) > abi.MaxConfigTriggers {
			return errors.New(field + ": more than " + strconv.Itoa(abi.MaxConfigTriggers) +
				" entries in all lists of triggers together")
		}
		for i, entry := range list {
			if len(entry) == 0 || len(entry) > maxEntry {
				return errors.New(field + "[" + strconv.Itoa(i) + "]: must have 1 to " + strconv.Itoa(maxEntry) + " bytes")
			}
			m.find.addWord(Trigger{Literal: entry, Fold: from.Fold})
		}
	}
	return nil
}

// stringsAt reads the array of strings at a path of names in an object; none where nothing is.
func stringsAt(object []byte, names []string) (list []string, err error) {
	err = Members(object, func(name string, v Value) (err error) {
		if name != names[0] {
			return nil
		}
		if len(names) == 1 {
			list, err = v.Strings()
		} else {
			list, err = stringsAt(v.raw, names[1:])
		}
		return err
	})
	return list, err
}

// words are the literals that came with the configuration. There may be thousands, in letters of every script, for
// which a complete automaton is too large: they are found by their first bytes.
type words struct {
	first  [256]bool           // bytes that one may begin with, in either case
	places map[uint32][]uint32 // by the first bytes, three at most, folded, and their number: indexes of triggers
	short  [3]bool             // there is one of so many bytes
	long   bool                // there is one of three or more
}

// addWord adds a literal behind all triggers there are.
func (f *finder) addWord(t Trigger) {
	w := &f.words
	if w.places == nil {
		w.places = map[uint32][]uint32{}
		f.triggers = slices.Clone(f.triggers)
	}
	n := uint32(len(f.triggers))
	f.triggers = append(f.triggers, t)
	head := min(len(t.Literal), 3)
	if head < 3 {
		w.short[head] = true
	} else {
		w.long = true
	}
	c := fold(t.Literal[0])
	w.first[c] = true
	if 'a' <= c && c <= 'z' {
		w.first[c&^0x20] = true
	}
	at := headOf(t.Literal, head)
	w.places[at] = append(w.places[at], n)
}

// headOf is the key of the first n bytes.
func headOf[T string | []byte](text T, n int) uint32 {
	key := uint32(n)
	for i := range n {
		key = key<<8 | uint32(fold(text[i]))
	}
	return key
}

// searchWords appends every hit of a word.
func (f *finder) searchWords(text []byte, hits []Hit) []Hit {
	w := &f.words
	if w.places == nil {
		return hits
	}
	for i, c := range text {
		if !w.first[c] {
			continue
		}
		for head := 1; head <= min(3, len(text)-i); head++ {
			if head < 3 && !w.short[head] || head == 3 && !w.long {
				continue
			}
			for _, t := range w.places[headOf(text[i:], head)] {
				if end, ok := f.matchAt(int(t), text, i); ok {
					hits = append(hits, Hit{int(t), i, end})
				}
			}
		}
	}
	return hits
}
