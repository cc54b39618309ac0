package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// setting is one value in effect.
type setting struct {
	key     string
	text    string // as YAML
	restart bool   // takes effect after a restart only
	place   bool   // says where something is, not what it does: the content counts
}

// settings lists every value in effect, in the order of the reference file. With mask, secrets written out become
// "***".
func (c *Config) settings(mask bool) []setting {
	var out []setting
	collect(&out, reflect.ValueOf(*c), field{}, "", mask)
	return out
}

func collect(out *[]setting, v reflect.Value, f field, key string, mask bool) {
	leaf := func(key, text string) {
		*out = append(*out, setting{key: key, text: text, restart: f.restart, place: v.Type() == pathType})
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
				collect(out, fv, sub, join(key, sub.key), mask)
			}
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			collect(out, v.Index(i), f, fmt.Sprintf("%s[%d]", key, i), mask)
		}
	case v.Kind() == reflect.Map:
		for _, name := range sortedNames(v) {
			collect(out, v.MapIndex(reflect.ValueOf(name)), f, join(key, name), mask)
		}
	default:
		leaf(key, scalarText(v))
	}
}

func collectFree(out *[]setting, v any, key string) {
	switch x := v.(type) {
	case map[string]any:
		for _, name := range sortedKeys(x) {
			collectFree(out, x[name], join(key, name))
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
	*out = append(*out, setting{key: key, text: string(encode(v))})
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
	return sortedKeys(names)
}

// scalarText writes one value as YAML reads it back.
func scalarText(v reflect.Value) string {
	switch {
	case v.Type() == sizeType || v.Type() == durationType:
		return fmt.Sprint(v.Interface())
	case v.Kind() == reflect.String:
		return yamlText(v.String())
	case v.Kind() == reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// Explain gives the value in effect of a key, such as "limits.depth" or "chains.authorize.steps[0].use", and where it
// was set: "file:line:column", "env NAME", "flag NAME" or "default". For a section it gives a line for each value in
// it. Secrets are not shown. An unknown key is an error.
func (c *Config) Explain(key string) (value, origin string, err error) {
	var lines []string
	for _, s := range c.settings(true) {
		if s.key == key {
			return s.text, c.originOf(key), nil
		}
		if key != "" && (strings.HasPrefix(s.key, key+".") || strings.HasPrefix(s.key, key+"[")) {
			lines = append(lines, s.key+": "+s.text)
		}
	}
	if lines != nil {
		return strings.Join(lines, "\n"), c.originOf(key), nil
	}
	known := allKeys(configType, "")
	if contains(known, key) {
		return "", "default", nil
	}
	return "", "", fmt.Errorf("%s is no key of this configuration%s", literal(key), meant(key, known))
}

// Where is the place at which key, or the nearest thing around it, was written.
func (c *Config) Where(key string) Pos { return (&report{origins: c.origins}).at(key) }

// originOf says where exactly key was set; a default inside a section that was written is still a default.
func (c *Config) originOf(key string) string {
	return c.origins[key].String()
}

// Change is one value that differs between two configurations. Old or New is "" where there is none.
type Change struct {
	Key, Old, New string
	Restart       bool // takes effect after a restart only
}

// Diff lists what differs from c to next, in the order of the reference file, then of what only c has. Secrets are not
// shown. Rules files count by their digests.
func (c *Config) Diff(next *Config) []Change {
	before, after := c.withRules(), next.withRules()
	old := map[string]setting{}
	for _, s := range before {
		old[s.key] = s
	}
	var out []Change
	for _, s := range after {
		o, existed := old[s.key]
		delete(old, s.key)
		if !existed || o.text != s.text {
			out = append(out, Change{Key: s.key, Old: o.text, New: s.text, Restart: s.restart})
		}
	}
	for _, s := range before {
		if _, gone := old[s.key]; gone {
			out = append(out, Change{Key: s.key, Old: s.text, Restart: s.restart})
		}
	}
	return out
}

func (c *Config) withRules() []setting {
	out := c.settings(true)
	for i, step := range c.Chains.Authorize.Steps {
		for j, set := range step.Rules {
			out = append(out, setting{key: fmt.Sprintf("chains.authorize.steps[%d].rules[%d] content", i, j), text: set.Digest})
		}
	}
	return out
}
