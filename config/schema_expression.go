package config

import (
	"fmt"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/yett-dev/yett/core/pattern"
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
	size, err := pattern.Size(text)
	if err != nil {
		return 0, fmt.Errorf("invalid regular expression (RE2 syntax): %s", quote.Short(err.Error(), 200))
	}
	if size > maxExpressionInstructions {
		return 0, fmt.Errorf("the regular expression %s compiles to about %d instructions: at most %d are allowed, so write "+
			"smaller repeats or use maxLength", quote.Literal(text, 80), size, maxExpressionInstructions)
	}
	return size, nil
}

// boundedExpression compiles for the library. What a schema's author wrote was bounded before; this holds for whatever
// else the library takes for an expression, such as a setting with "format": "regex".
func boundedExpression(text string) (jsonschema.Regexp, error) {
	if _, err := expressionSize(text); err != nil {
		return nil, err
	}
	return regexp.Compile(text)
}
