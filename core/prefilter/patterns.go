package prefilter

import (
	"fmt"
	"strings"

	"github.com/yett-dev/yett/sdk/abi"
)

// patterns are the distinct triggers of all sets. A pattern's number is its index in literals, or len(literals) plus
// its index in runs.
type patterns struct {
	literals []literal
	runs     []run
	first    []uint32 // pattern n is wanted by owners[first[n]:first[n+1]]
	owners   []owner
}

type literal struct {
	text string // in lower case when folded
	fold bool   // holds letters that stand for both cases
	at   uint32 // offset of the gram by which a filter finds it
	step uint32 // of that filter
}

type run struct {
	class int // index into classes
	min   int
}

// owner is a trigger of a set.
type owner struct{ set, trigger uint32 }

// add checks and numbers the triggers of all sets.
func (p *patterns) add(sets [][]abi.Trigger) error {
	total := 0
	for _, set := range sets {
		if total += len(set); total > maxTriggers {
			return fmt.Errorf("prefilter: more than %d triggers in all sets together", maxTriggers)
		}
	}
	literals, runs := map[literal]uint32{}, map[run]uint32{}
	literalOf, runOf := make([]uint32, 0, total), make([]uint32, 0, total)
	bytes := 0
	const none = ^uint32(0)
	for s, set := range sets {
		for i, t := range set {
			l, r, err := read(t)
			if err != nil {
				return fmt.Errorf("prefilter: set %d, trigger %d: %w", s, i, err)
			}
			if l.text == "" {
				literalOf, runOf = append(literalOf, none), append(runOf, number(runs, r, &p.runs))
				continue
			}
			before := len(p.literals)
			literalOf, runOf = append(literalOf, number(literals, l, &p.literals)), append(runOf, none)
			if len(p.literals) > before {
				bytes += len(l.text)
			}
			if bytes > maxLiteralBytes {
				return fmt.Errorf("prefilter: set %d, trigger %d: the literals are longer than %d bytes in total", s, i,
					maxLiteralBytes)
			}
		}
	}
	for i, r := range runOf {
		if r != none {
			literalOf[i] = uint32(len(p.literals)) + r
		}
	}
	p.own(sets, literalOf)
	return nil
}

// own fills first and owners; pattern holds the number of each trigger, set after set.
func (p *patterns) own(sets [][]abi.Trigger, pattern []uint32) {
	p.first = make([]uint32, len(p.literals)+len(p.runs)+1)
	p.owners = make([]owner, len(pattern))
	for _, n := range pattern {
		p.first[n+1]++
	}
	for n := range len(p.first) - 1 {
		p.first[n+1] += p.first[n]
	}
	next := append([]uint32(nil), p.first...)
	k := 0
	for s, set := range sets {
		for i := range set {
			n := pattern[k]
			p.owners[next[n]] = owner{uint32(s), uint32(i)}
			next[n]++
			k++
		}
	}
}

// number gives the index of v in list, where it appends v if it is new.
func number[T comparable](known map[T]uint32, v T, list *[]T) uint32 {
	n, ok := known[v]
	if !ok {
		n = uint32(len(*list))
		known[v] = n
		*list = append(*list, v)
	}
	return n
}

// read checks one trigger and gives it as a literal, or as a run when the literal is empty.
func read(t abi.Trigger) (literal, run, error) {
	switch {
	case (t.Literal != "") == (t.Class != ""):
		return literal{}, run{}, fmt.Errorf("exactly one of literal and class must be set")
	case t.Class != "":
		class := classNamed(t.Class)
		if class < 0 {
			return literal{}, run{}, fmt.Errorf("unknown class %.40q", t.Class)
		}
		if t.Min < 1 {
			return literal{}, run{}, fmt.Errorf("min of class %q is %d, must be at least 1", t.Class, t.Min)
		}
		return literal{}, run{class, t.Min}, nil
	case len(t.Literal) > maxLiteral:
		return literal{}, run{}, fmt.Errorf("literal of %d bytes, at most %d are allowed", len(t.Literal), maxLiteral)
	case !t.Fold:
		return literal{text: t.Literal}, run{}, nil
	}
	// Two spellings of one folded literal are one pattern, and without letters folding means nothing.
	lower, letters := []byte(t.Literal), false
	for i, c := range lower {
		lower[i] = lowerCase(c)
		letters = letters || isLetter(c)
	}
	if !letters {
		return literal{text: t.Literal}, run{}, nil
	}
	return literal{text: string(lower), fold: true}, run{}, nil
}

func lowerCase(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func isLetter(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z'
}

// matchAt tells whether the literal is text[start:start+len(l.text)]. The caller has checked that this is inside.
func (l *literal) matchAt(text string, start int) bool {
	if !l.fold {
		return strings.HasPrefix(text[start:], l.text)
	}
	window := text[start : start+len(l.text)]
	for i := range len(window) {
		if lowerCase(window[i]) != l.text[i] {
			return false
		}
	}
	return true
}
