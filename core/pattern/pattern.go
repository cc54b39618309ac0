// Package pattern estimates what a regular expression costs before anything compiles it: a few bytes of text with
// repeats may stand for gigabytes. It owns the estimate; the limits are those of whoever reads the expression. It must
// never compile one.
package pattern

import "regexp/syntax"

// Size estimates from above how many instructions an expression compiles to, of 40 bytes each. The caller bounds the
// length of the text.
func Size(text string) (int, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return instructions(tree), nil
}

// runesPerInstruction is how many bounds of a character class take the memory of one instruction: \pL has 1292.
const runesPerInstruction = 16

// instructions estimates from above what a tree compiles to. Each copy that a repeat makes counts.
func instructions(re *syntax.Regexp) int {
	size := 1
	for _, sub := range re.Sub {
		size += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size += len(re.Rune) / runesPerInstruction
	case syntax.OpCapture, syntax.OpStar, syntax.OpAlternate:
		size += len(re.Sub)
	case syntax.OpRepeat:
		size *= max(re.Min, re.Max, 1)
	case syntax.OpConcat:
		size--
	}
	return min(max(size, 1), 1<<30) // nested repeats multiply
}
