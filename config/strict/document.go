package strict

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Document is a JSON object as text, every number as it was written; "" if not given.
type Document string

// maxDocumentDepth is how deep a document may nest.
const maxDocumentDepth = 64

// document reads a section as a JSON object. Unlike free settings it may hold anything that a call may, null included.
func (d *reader) document(n *yaml.Node, key string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		d.errorf(n, key, "wants a section (keys and values), not %s", what(n))
		return nil, false
	}
	return string(d.appendDocument(nil, n, key, 1)), true
}

// appendDocument appends one value. What it cannot read goes into the report, which refuses the whole.
func (d *reader) appendDocument(dst []byte, n *yaml.Node, key string, depth int) []byte {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0:
		return append(dst, "null"...)
	case !d.plain(n, key):
		return dst
	case depth > maxDocumentDepth:
		d.errorf(n, key, "nests deeper than %d", maxDocumentDepth)
		return dst
	}
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		first := true
		d.members(n, key, func(name string, _, v *yaml.Node) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = d.appendDocument(append(append(dst, encode(name)...), ':'), v, Join(key, name), depth+1)
		})
		return append(dst, '}')
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, c := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendDocument(dst, c, fmt.Sprintf("%s[%d]", key, i), depth+1)
		}
		return append(dst, ']')
	}
	if v, ok := d.freeScalar(n, key); ok {
		dst = append(dst, encode(v)...)
	}
	return dst
}
