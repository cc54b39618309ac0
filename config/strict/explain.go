package strict

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Setting is one value in effect.
type Setting struct {
	Key     string
	Text    string // as YAML
	Restart bool   // takes effect after a restart only
	Place   bool   // says where something is, not what it does: the content counts
}

// Settings lists every value in effect of root, a struct, in the order of its fields. With mask, secrets written out
// become "***".
func Settings(root any, mask bool) []Setting {
	var out []Setting
	collect(&out, reflect.ValueOf(root), field{}, "", mask)
	return out
}

func collect(out *[]Setting, v reflect.Value, f field, key string, mask bool) {
	leaf := func(key, text string) {
		*out = append(*out, Setting{Key: key, Text: text, Restart: f.restart, Place: v.Type() == pathType})
	}
	switch {
	case v.Type() == valuesType:
		values := v.Interface().(Values)
		tree := any(values.written)
		if mask {
			tree = values.masked(key)
		}
		collectFree(out, tree, key)
	case isSection(v.Type()):
		for _, sub := range fieldsOf(v.Type()) {
			sub.restart = sub.restart || f.restart
			if fv := v.Field(sub.index); !unset(sub, fv) {
				collect(out, fv, sub, Join(key, sub.key), mask)
			}
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			collect(out, v.Index(i), f, fmt.Sprintf("%s[%d]", key, i), mask)
		}
	case v.Kind() == reflect.Map:
		for _, name := range sortedNames(v) {
			collect(out, v.MapIndex(reflect.ValueOf(name)), f, Join(key, name), mask)
		}
	default:
		leaf(key, scalarText(v))
	}
}

func collectFree(out *[]Setting, v any, key string) {
	switch x := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			collectFree(out, x[name], Join(key, name))
		}
		if len(x) > 0 {
			return
		}
	case []any:
		for i, e := range x {
			collectFree(out, e, fmt.Sprintf("%s[%d]", key, i))
		}
		if len(x) > 0 {
			return
		}
	}
	*out = append(*out, Setting{Key: key, Text: string(encode(v))})
}

// unset says that a key was not given and has no default to show.
func unset(f field, v reflect.Value) bool {
	if f.typ == valuesType {
		return v.Interface().(Values).written == nil
	}
	return v.IsZero() && (f.idle || !f.hasDef && !isSection(f.typ))
}

func sortedNames(v reflect.Value) []string {
	names := map[string]bool{}
	for _, k := range v.MapKeys() {
		names[k.String()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// scalarText writes one value as YAML reads it back.
func scalarText(v reflect.Value) string {
	switch {
	case v.Type() == sizeType || v.Type() == durationType:
		return fmt.Sprint(v.Interface())
	case v.Kind() == reflect.String:
		return YAMLText(v.String())
	case v.Kind() == reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// Explain gives the value in effect of a key of root, such as "limits.depth" or "plugins.a.config", and where exactly
// it was set: "file:line:column", "env NAME", "flag NAME" or "default"; a default inside a section that was written is
// still a default. For a section it gives a line for each value in it. Secrets are not shown. An unknown key is an
// error.
func Explain(root any, origins Origins, key string) (value, origin string, err error) {
	var lines []string
	for _, s := range Settings(root, true) {
		if s.Key == key {
			return s.Text, origins[key].String(), nil
		}
		if key != "" && (strings.HasPrefix(s.Key, key+".") || strings.HasPrefix(s.Key, key+"[")) {
			lines = append(lines, s.Key+": "+s.Text)
		}
	}
	if lines != nil {
		return strings.Join(lines, "\n"), origins[key].String(), nil
	}
	known := allKeys(reflect.TypeOf(root), "")
	if slices.Contains(known, key) {
		return "", "default", nil
	}
	return "", "", fmt.Errorf("%s is no key of this configuration%s", Literal(key), Meant(key, known))
}

// Change is one value that differs. Old or New is "" where there is none.
type Change struct {
	Key, Old, New string
	Restart       bool // takes effect after a restart only
}

// Diff lists what differs from before to after, in the order of after, then of what only before has.
func Diff(before, after []Setting) []Change {
	old := map[string]Setting{}
	for _, s := range before {
		old[s.Key] = s
	}
	var out []Change
	for _, s := range after {
		o, existed := old[s.Key]
		delete(old, s.Key)
		if !existed || o.Text != s.Text {
			out = append(out, Change{Key: s.Key, Old: o.Text, New: s.Text, Restart: s.Restart})
		}
	}
	for _, s := range before {
		if _, gone := old[s.Key]; gone {
			out = append(out, Change{Key: s.Key, Old: s.Text, Restart: s.Restart})
		}
	}
	return out
}
