package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// vectorReader reads the nodes of one file strictly: unknown and repeated keys, wrong types and aliases are mistakes.
type vectorReader struct{ file string }

// maxConfigDepth bounds the nesting of a configuration.
const maxConfigDepth = 32

func (r *vectorReader) fail(n *yaml.Node, format string, args ...any) error {
	return &VectorError{File: r.file, Line: max(n.Line, 1), Reason: fmt.Sprintf(format, args...)}
}

// syntax gives the parser's message a place: it names the line itself.
func (r *vectorReader) syntax(err error) error {
	if errors.Is(err, io.EOF) {
		return r.fail(&yaml.Node{}, "the file is empty")
	}
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if n, bad := strconv.Atoi(number); bad == nil {
			line, msg = n, what
		}
	}
	return r.fail(&yaml.Node{Line: line}, "not YAML: %s", msg)
}

// members reads a mapping. Each of its keys must be in read.
func (r *vectorReader) members(n *yaml.Node, read map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return r.fail(n, "want a mapping with some of %s", strings.Join(slices.Sorted(maps.Keys(read)), ", "))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		f := read[key]
		switch {
		case f == nil:
			return r.fail(n.Content[i], "%q: unknown key, want one of %s", Printable(key, 80),
				strings.Join(slices.Sorted(maps.Keys(read)), ", "))
		case seen[key]:
			return r.fail(n.Content[i], "%q is given twice", key)
		}
		seen[key] = true
		if err := f(n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *vectorReader) str(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return r.fail(n, "want a string; put it in quotes")
	}
	*to = n.Value
	return nil
}

func (r *vectorReader) word(n *yaml.Node, to *string, words ...string) error {
	if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
		return r.fail(n, "want one of %s", strings.Join(words, ", "))
	}
	*to = n.Value
	return nil
}

func (r *vectorReader) number(n *yaml.Node, to *int) error {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil {
		return r.fail(n, "want a whole number")
	}
	*to = v
	return nil
}

func (r *vectorReader) confidence(n *yaml.Node) (*float64, error) {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || err != nil || !(v >= 0 && v <= 1) {
		return nil, r.fail(n, "want a number from 0 to 1")
	}
	return &v, nil
}

func (r *vectorReader) severity(n *yaml.Node) (*sdk.Severity, error) {
	if s, ok := sdk.ParseSeverity(n.Value); n.Kind == yaml.ScalarNode && ok {
		return &s, nil
	}
	v := -1
	if n.Tag == "!!int" && r.number(n, &v) == nil && v >= 0 && v <= int(sdk.Critical) {
		s := sdk.Severity(v)
		return &s, nil
	}
	return nil, r.fail(n, "want one of info, low, medium, high, critical, or 0 to 4")
}

// actions are those that a finding may suggest.
var actions = map[string]sdk.Action{"flag": sdk.Flag, "redact": sdk.Redact, "replace": sdk.Replace, "deny": sdk.Drop}

func (r *vectorReader) action(n *yaml.Node) (*sdk.Action, error) {
	var s string
	if err := r.word(n, &s, "flag", "redact", "replace", "deny"); err != nil {
		return nil, err
	}
	a := actions[s]
	return &a, nil
}

var (
	effectNames = []string{"abstain", "permit", "deny", "defer"}
	effects     = map[string]sdk.Effect{"abstain": sdk.Abstain, "permit": sdk.Permit, "deny": sdk.Deny, "defer": sdk.Defer}
)

// object reads a mapping of any members as a JSON object, the members in the order of the file.
func (r *vectorReader) object(n *yaml.Node) (json.RawMessage, error) {
	if n.Kind != yaml.MappingNode {
		return nil, r.fail(n, "want a mapping")
	}
	return r.appendJSON(nil, n, maxConfigDepth)
}

func (r *vectorReader) appendJSON(b []byte, n *yaml.Node, depth int) (_ []byte, err error) {
	if depth == 0 {
		return nil, r.fail(n, "more than %d levels", maxConfigDepth)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return r.appendObject(b, n, depth)
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, e := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = r.appendJSON(b, e, depth-1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case yaml.ScalarNode:
		return r.appendScalar(b, n)
	}
	return nil, r.fail(n, "aliases are not allowed here: write the value out")
}

func (r *vectorReader) appendObject(b []byte, n *yaml.Node, depth int) (_ []byte, err error) {
	seen := map[string]bool{}
	b = append(b, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return nil, r.fail(key, "a name must be a plain string")
		}
		if seen[key.Value] {
			return nil, r.fail(key, "%q is given twice", Printable(key.Value, 80))
		}
		seen[key.Value] = true
		if i > 0 {
			b = append(b, ',')
		}
		b = append(exact.AppendString(b, key.Value), ':')
		if b, err = r.appendJSON(b, n.Content[i+1], depth-1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (r *vectorReader) appendScalar(b []byte, n *yaml.Node) ([]byte, error) {
	switch n.Tag {
	case "!!null":
		return append(b, "null"...), nil
	case "!!str", "!!timestamp":
		return exact.AppendString(b, n.Value), nil
	case "!!bool", "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return append(b, n.Value...), nil // a number as it is written
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, r.fail(n, "%s cannot be read: %v", Printable(n.Value, 80), err)
		}
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, r.fail(n, "%s is no number in JSON", n.Value)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, r.fail(n, "%s cannot be written as JSON", Printable(n.Value, 80))
		}
		return append(b, text...), nil
	}
	return nil, r.fail(n, "a value of type %s is not JSON", n.Tag)
}
