package config

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/yett-dev/yett/core/quote"
)

// Bounds of the regular expressions in a schema. An instruction is 40 bytes of a compiled expression, and one step of a
// match for each byte of a text.
const (
	maxExpression             = 1 << 10 // bytes of one
	maxExpressionInstructions = 10_000  // of one, compiled
	maxSchemaInstructions     = 100_000 // of all in a schema, each as often as it stands there
)

// expressionSize estimates how many instructions an expression compiles to, before it is compiled: 29 KB of text may
// stand for gigabytes.
func expressionSize(text string) (int, error) {
	if len(text) > maxExpression {
		return 0, fmt.Errorf("the regular expression has %d bytes: at most %d are allowed", len(text), maxExpression)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("invalid regular expression (RE2 syntax): %s", quote.Short(err.Error(), 200))
	}
	size := instructions(tree)
	if size > maxExpressionInstructions {
		return 0, fmt.Errorf("the regular expression %s compiles to about %d instructions: at most %d are allowed, so write "+
			"smaller repeats or use maxLength", quote.Literal(text, 80), size, maxExpressionInstructions)
	}
	return size, nil
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

// boundedExpression compiles for the library. What a schema's author wrote was bounded before; this holds for whatever
// else the library takes for an expression, such as a setting with "format": "regex".
func boundedExpression(text string) (jsonschema.Regexp, error) {
	if _, err := expressionSize(text); err != nil {
		return nil, err
	}
	return regexp.Compile(text)
}
