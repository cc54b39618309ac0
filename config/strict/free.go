package strict

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// values reads free settings: anything JSON can say, numbers exactly as written.
func (d *reader) values(n *yaml.Node, key string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		d.errorf(n, key, "wants a section (keys and values), not %s", shape(n))
		return nil, false
	}
	return d.free(n, key, 0)
}

// shape is what without the value, which may be secret.
func shape(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		return what(n)
	}
	return "a single value"
}

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	doubtful   = regexp.MustCompile(`^(?i:y|yes|n|no|on|off)$`)
)

func (d *reader) free(n *yaml.Node, key string, depth int) (any, bool) {
	d.origins[key] = d.layer.pos(n)
	if !d.plain(n, key) {
		return nil, false
	}
	if depth > maxDepth {
		d.errorf(n, key, "nests deeper than %d", maxDepth)
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		d.members(n, key, func(name string, k, v *yaml.Node) {
			if name == "" || strings.Contains(name, delimiter) {
				d.errorf(k, key, "a key may neither be empty nor contain %q", delimiter)
				return
			}
			if x, ok := d.free(v, Join(key, name), depth+1); ok {
				out[name] = x
			}
		})
		return out, true
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			x, _ := d.free(c, fmt.Sprintf("%s[%d]", key, i), depth+1)
			out = append(out, x)
		}
		return out, true
	}
	return d.freeScalar(n, key)
}

func (d *reader) freeScalar(n *yaml.Node, key string) (any, bool) {
	if n.Style == 0 && jsonNumber.MatchString(n.Value) {
		return json.Number(n.Value), true // beyond what a float holds, such as 1e400, YAML says it is text
	}
	switch n.ShortTag() {
	case "!!bool":
		if n.Value == "true" || n.Value == "false" {
			return n.Value == "true", true
		}
		d.errorf(n, key, "write true or false in lower case, or quote it")
		return nil, false
	case "!!int", "!!float":
		d.errorf(n, key, "is a number in a form that JSON does not have; write it in decimal, or quote it")
		return nil, false
	}
	if n.Style == 0 && doubtful.MatchString(n.Value) {
		d.errorf(n, key, "may be meant as a truth value; write true or false, or quote it")
		return nil, false
	}
	return n.Value, true
}
