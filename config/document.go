package config

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
	out, ok := d.appendDocument(nil, n, key, 1)
	return string(out), ok
}

func (d *reader) appendDocument(dst []byte, n *yaml.Node, key string, depth int) ([]byte, bool) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0 {
		return append(dst, "null"...), true
	}
	if !d.plain(n, key) {
		return dst, false
	}
	if depth > maxDocumentDepth {
		d.errorf(n, key, "nests deeper than %d", maxDocumentDepth)
		return dst, false
	}
	fine := true
	switch n.Kind {
	case yaml.MappingNode:
		before := len(d.report.problems) + d.report.more
		dst = append(dst, '{')
		d.members(n, key, func(name string, _, v *yaml.Node) {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(append(dst, encode(name)...), ':')
			dst, _ = d.appendDocument(dst, v, join(key, name), depth+1)
		})
		return append(dst, '}'), before == len(d.report.problems)+d.report.more
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, c := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			var ok bool
			dst, ok = d.appendDocument(dst, c, fmt.Sprintf("%s[%d]", key, i), depth+1)
			fine = fine && ok
		}
		return append(dst, ']'), fine
	}
	v, ok := d.freeScalar(n, key)
	if !ok {
		return dst, false
	}
	return append(dst, encode(v)...), true
}
