package strict

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth is how deep settings may nest.
const maxDepth = 32

// referrer is a root whose free settings may refer to secrets, and which says where those stand. No other text of it
// may look like a reference.
type referrer interface{ ReferencesIn() string }

// reader checks one layer's tree against the structs and turns it into plain values: string, bool, int64, float64 and,
// in free settings, json.Number, with lists and maps of them. It reports everything it cannot accept and leaves it out.
type reader struct {
	report  *Report
	layer   *layer
	root    reflect.Type
	origins map[string]Pos
}

func (d *reader) errorf(n *yaml.Node, key, format string, args ...any) {
	d.report.Add(d.layer.pos(n), key, format, args...)
}

// plain refuses what is YAML's but no setting: anchors, aliases, merge keys, tags of one's own and nulls.
func (d *reader) plain(n *yaml.Node, key string) bool {
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.errorf(n, key, "anchors and aliases are not read here; write the value out")
	case tag == "!!merge":
		d.errorf(n, key, "merge keys (<<) are not read here; write the keys out")
	case n.Style&yaml.TaggedStyle != 0:
		d.errorf(n, key, "has a tag (%s); write the plain value", n.Tag)
	case tag == "!!null":
		d.errorf(n, key, "has no value; give it one, or remove the key")
	default:
		return true
	}
	return false
}

// what names a node's type in messages.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	}
	return "the text " + Literal(n.Value)
}

// members walks a mapping and refuses keys that are no text or come twice.
func (d *reader) members(n *yaml.Node, key string, each func(name string, k, v *yaml.Node)) {
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if !d.plain(k, key) {
			continue
		}
		if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" {
			d.errorf(k, key, "wants names as keys, not %s", what(k))
			continue
		}
		if first, ok := seen[k.Value]; ok {
			d.errorf(k, Join(key, k.Value), "is written twice; first at %s", d.layer.pos(first))
			continue
		}
		seen[k.Value] = k
		each(k.Value, k, v)
	}
}

// section reads keys and values into what struct type t allows.
func (d *reader) section(t reflect.Type, n *yaml.Node, key string) (map[string]any, bool) {
	if !d.plain(n, key) {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		d.errorf(n, key, "wants a section (keys and values), not %s", what(n))
		return nil, false
	}
	out := map[string]any{}
	d.members(n, key, func(name string, k, v *yaml.Node) {
		f, ok := fieldOf(t, name)
		if !ok {
			d.errorf(k, Join(key, name), "%s", unknownKey(d.root, t, name))
			return
		}
		if x, ok := d.value(f, f.typ, v, Join(key, name)); ok {
			out[name] = x
		}
	})
	return out, true
}

// value reads one node as type t; f has the limits.
func (d *reader) value(f field, t reflect.Type, n *yaml.Node, key string) (any, bool) {
	if !d.plain(n, key) {
		return nil, false
	}
	d.origins[key] = d.layer.pos(n)
	switch {
	case t == valuesType:
		return d.values(n, key)
	case t == documentType:
		return d.document(n, key)
	case isSection(t) && f.short != "" && n.Kind == yaml.ScalarNode:
		short, _ := fieldOf(t, f.short)
		x, ok := d.value(short, short.typ, n, key)
		return map[string]any{f.short: x}, ok
	case isSection(t):
		return d.section(t, n, key)
	case t.Kind() == reflect.Map:
		return d.named(t.Elem(), n, key)
	case t.Kind() == reflect.Slice:
		return d.list(f, t.Elem(), n, key)
	}
	if n.Kind != yaml.ScalarNode {
		d.errorf(n, key, "wants %s, not %s", wanted(t), what(n))
		return nil, false
	}
	x, err := scalar(f, t, n)
	if err != nil {
		d.errorf(n, key, "%s", err)
		return nil, false
	}
	if s, ok := x.(string); ok && strings.Contains(s, "${") {
		if root, ok := reflect.Zero(d.root).Interface().(referrer); ok {
			d.errorf(n, key, "references (${…}) are read in %s only", root.ReferencesIn())
			return nil, false
		}
	}
	if s, ok := x.(string); ok && t == pathType && !filepath.IsAbs(s) {
		x = filepath.Join(d.layer.dir, s)
	}
	return x, true
}

// named reads a map of sections by name.
func (d *reader) named(elem reflect.Type, n *yaml.Node, key string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		d.errorf(n, key, "wants names, each with its section, not %s", what(n))
		return nil, false
	}
	out := map[string]any{}
	d.members(n, key, func(name string, k, v *yaml.Node) {
		if err := checkName(name); err != nil {
			d.errorf(k, Join(key, name), "%s", err)
			return
		}
		if x, ok := d.value(field{}, elem, v, Join(key, name)); ok {
			out[name] = x
		}
	})
	return out, true
}

func (d *reader) list(f field, elem reflect.Type, n *yaml.Node, key string) (any, bool) {
	if f.one && n.Kind != yaml.SequenceNode {
		x, ok := d.value(f, elem, n, key+"[0]")
		return []any{x}, ok
	}
	if n.Kind != yaml.SequenceNode {
		d.errorf(n, key, "wants a list, not %s", what(n))
		return nil, false
	}
	if len(n.Content) == 0 && !f.emptyOK {
		d.errorf(n, key, "is an empty list; give it an entry, or remove the key")
		return nil, false
	}
	if f.most > 0 && len(n.Content) > f.most {
		d.errorf(n, key, "has %d entries; at most %d are read", len(n.Content), f.most)
		return nil, false
	}
	out := make([]any, 0, len(n.Content))
	for i, c := range n.Content {
		x, ok := d.value(f, elem, c, fmt.Sprintf("%s[%d]", key, i))
		if !ok {
			x = nil // keeps the numbers of the entries behind it; the whole is refused anyway
		}
		out = append(out, x)
	}
	return out, true
}

// wanted names a type in messages.
func wanted(t reflect.Type) string {
	switch {
	case t == sizeType:
		return "a size with a unit, such as 64KiB"
	case t == durationType:
		return "a duration with a unit, such as 50ms"
	case t == pathType:
		return "the path of a file"
	case t == decimalType:
		return "an exact number such as 1000.50"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	}
	return "a number"
}

// scalar reads one value of type t and checks it against the limits of f.
func scalar(f field, t reflect.Type, n *yaml.Node) (any, error) {
	tag, s := n.ShortTag(), n.Value
	mismatch := fmt.Errorf("wants %s, not %s", wanted(t), what(n))
	isText := tag == "!!str" || tag == "!!timestamp"
	switch {
	case t == sizeType || t == durationType:
		if !isText {
			return nil, mismatch
		}
		return measure(f, t, s)
	case t == decimalType:
		return s, checkDecimal(s)
	case t == portType && s == "none" && isText:
		return int64(NoPort), nil
	case t == portType:
		x, err := strconv.ParseInt(s, 10, 64)
		if tag != "!!int" || err != nil || x < 1 || x > 65535 {
			return nil, fmt.Errorf("expected none or TCP ports from 1 to 65535, got %s", what(n))
		}
		return x, nil
	case t.Kind() == reflect.String:
		if !isText {
			return nil, fmt.Errorf("%w; quote it if text is meant", mismatch)
		}
		return s, checkString(f, t, s)
	case t.Kind() == reflect.Bool:
		if tag != "!!bool" || s != "true" && s != "false" {
			return nil, mismatch
		}
		return s == "true", nil
	case t.Kind() == reflect.Int:
		x, err := strconv.ParseInt(s, 10, 64)
		if tag != "!!int" || err != nil || !jsonNumber.MatchString(s) {
			return nil, mismatch
		}
		if f.enum != nil {
			return x, checkEnum(f, s)
		}
		return x, within(f, x, func(lim string) int64 { n, _ := strconv.ParseInt(lim, 10, 64); return n }, s)
	}
	x, err := strconv.ParseFloat(s, 64)
	if tag != "!!int" && tag != "!!float" || err != nil || !jsonNumber.MatchString(s) || math.IsInf(x, 0) {
		return nil, mismatch
	}
	return x, within(f, x, func(lim string) float64 { n, _ := strconv.ParseFloat(lim, 64); return n }, s)
}

// measure reads a size or a duration.
func measure(f field, t reflect.Type, s string) (any, error) {
	if t == sizeType {
		x, err := ParseSize(s)
		if err != nil {
			return nil, err
		}
		return int64(x), within(f, x, func(lim string) Size { n, _ := ParseSize(lim); return n }, s)
	}
	x, err := ParseDuration(s)
	if err != nil {
		return nil, err
	}
	return int64(x), within(f, x, func(lim string) Duration { n, _ := ParseDuration(lim); return n }, s)
}

// within checks x against the min and max tags, which parse reads.
func within[N int64 | float64 | Size | Duration](f field, x N, parse func(string) N, written string) error {
	if f.min != "" && x < parse(f.min) {
		return fmt.Errorf("%s is less than the least value, %s", written, f.min)
	}
	if f.max != "" && x > parse(f.max) {
		return fmt.Errorf("%s is more than the greatest value, %s", written, f.max)
	}
	return nil
}

func checkString(f field, t reflect.Type, s string) error {
	switch {
	case f.enum != nil:
		return checkEnum(f, s)
	case len(s) > f.maxLen && f.maxLen > 0:
		return fmt.Errorf("is %d bytes long; at most %d are read", len(s), f.maxLen)
	case s == "" && (t == pathType || !f.hasDef):
		return fmt.Errorf("is empty; give it a value, or remove the key")
	}
	return f.form.Check(s)
}

func checkEnum(f field, s string) error {
	if slices.Contains(f.enum, s) {
		return nil
	}
	if f.typ.Kind() == reflect.Int {
		return fmt.Errorf("%s is not one of %s", s, strings.Join(f.enum, ", "))
	}
	if slices.Contains(f.later, s) {
		return fmt.Errorf("%s is not in this version; wants %s", Literal(s), strings.Join(f.enum, " or "))
	}
	return fmt.Errorf("%s is not one of %s%s", Literal(s), strings.Join(f.enum, ", "), Meant(s, f.enum))
}
