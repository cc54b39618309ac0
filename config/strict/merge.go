package strict

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// delimiter joins keys inside koanf. Names of plugins and free settings may hold dots, so a dot would split them.
const delimiter = "::"

// tree hands a checked layer to koanf.
type tree map[string]any

// Read gives the layer.
func (t tree) Read() (map[string]any, error) { return t, nil }

// ReadBytes is never asked for: the layer is parsed already.
func (t tree) ReadBytes() ([]byte, error) { return nil, errors.New("a parsed layer has no bytes") }

// merger lays checked layers over one another, later ones winning, and decodes the result into a struct.
type merger struct {
	report *Report
	root   reflect.Type
	k      *koanf.Koanf
	lists  map[string]bool // lists that a file defines
}

func newMerger(r *Report, root reflect.Type) *merger {
	return &merger{report: r, root: root, k: koanf.New(delimiter), lists: map[string]bool{}}
}

// add checks one layer and lays it over what is there.
func (m *merger) add(l *layer) {
	d := &reader{report: m.report, layer: l, root: m.root, origins: map[string]Pos{}}
	values, ok := d.section(m.root, l.root, "")
	if !ok {
		return
	}
	over := &overlay{merger: m, layer: l, origins: d.origins}
	m.load(values, koanf.WithMergeFunc(over.merge))
	for key, pos := range d.origins {
		if !over.refused(key) {
			m.report.Origins[key] = pos
		}
	}
}

// load fails only if koanf does, which reads no bytes here; it is reported all the same.
func (m *merger) load(values map[string]any, opts ...koanf.Option) {
	if err := m.k.Load(tree(values), nil, opts...); err != nil {
		m.report.Add(Pos{}, "", "merge: %s", err)
	}
}

// overlay merges one layer. Unlike koanf's own merge it replaces no list of another file and turns no section into a
// value.
type overlay struct {
	*merger
	layer   *layer
	origins map[string]Pos
	bad     []string
}

func (o *overlay) merge(src, dest map[string]any) error {
	o.into(src, dest, "")
	return nil
}

func (o *overlay) into(src, dest map[string]any, key string) {
	for name, v := range src {
		at := Join(key, name)
		sub, isMap := v.(map[string]any)
		old, exists := dest[name]
		oldMap, wasMap := old.(map[string]any)
		_, isList := v.([]any)
		_, wasList := old.([]any)
		switch {
		case isMap && exists && wasMap:
			o.into(sub, oldMap, at)
			continue
		case exists && (isMap != wasMap || isList != wasList):
			o.refuse(at, "is a section, a list or a value here and another of these at %s", o.report.Origins.At(at))
			continue
		case isList && wasList && o.layer.isFile && o.lists[at]:
			o.refuse(at, "the list is defined at %s already; a list belongs in one file", o.report.Origins.At(at))
			continue
		case isMap:
			fresh := map[string]any{}
			dest[name] = fresh
			o.into(sub, fresh, at)
			continue
		}
		dest[name] = v
		if wasList {
			o.report.Origins.forget(at)
		}
		if isList {
			o.lists[at] = o.layer.isFile
		}
	}
}

func (o *overlay) refuse(key, format string, args ...any) {
	o.bad = append(o.bad, key)
	o.report.Add(o.origins[key], key, format, args...)
}

func (o *overlay) refused(key string) bool {
	for _, b := range o.bad {
		if key == b || strings.HasPrefix(key, b+".") || strings.HasPrefix(key, b+"[") {
			return true
		}
	}
	return false
}

// decode fills in the defaults, wants what is required and puts the result into out, a pointer to the root struct. What
// is wrong goes into the report, and out is then not to be used.
func (m *merger) decode(out any) {
	whole := m.k.Raw()
	m.fill(m.root, whole, "")
	if len(m.report.problems) > 0 {
		return
	}
	final := koanf.New(delimiter)
	err := final.Load(tree(whole), nil)
	if err == nil {
		err = final.UnmarshalWithConf("", out, koanf.UnmarshalConf{DecoderConfig: strict()})
	}
	if err != nil {
		m.report.Add(Pos{}, "", "decode: %s", err)
	}
}

// strict is the opposite of koanf's default: nothing is converted, nothing is left over, case counts.
func strict() *mapstructure.DecoderConfig {
	return &mapstructure.DecoderConfig{
		TagName:          "koanf",
		ErrorUnused:      true,
		WeaklyTypedInput: false,
		MatchName:        func(key, field string) bool { return key == field },
		DecodeHook: func(_, to reflect.Type, data any) (any, error) {
			if m, ok := data.(map[string]any); ok && to == valuesType {
				return Values{written: m}, nil
			}
			return data, nil
		},
	}
}

// fill sets what is missing in m, a section of type t, to its default, also in the entries of lists and maps.
func (m *merger) fill(t reflect.Type, in map[string]any, key string) {
	for _, f := range fieldsOf(t) {
		at := Join(key, f.key)
		v, exists := in[f.key]
		switch {
		case isSection(f.typ):
			sub, _ := v.(map[string]any)
			if sub == nil {
				sub = map[string]any{}
				in[f.key] = sub
			}
			m.fill(f.typ, sub, at)
		case exists:
			m.fillEntries(f.typ, v, at)
		case f.hasDef:
			in[f.key] = defaultOf(f)
		case f.required && !m.reported(at):
			m.report.Add(m.report.Origins.At(key), at, "is required")
		}
	}
}

func (m *merger) fillEntries(t reflect.Type, v any, key string) {
	switch entries := v.(type) {
	case []any:
		for i, e := range entries {
			if sub, ok := e.(map[string]any); ok {
				m.fill(t.Elem(), sub, fmt.Sprintf("%s[%d]", key, i))
			}
		}
	case map[string]any:
		if t.Kind() == reflect.Map {
			for name, e := range entries {
				if sub, ok := e.(map[string]any); ok {
					m.fill(t.Elem(), sub, Join(key, name))
				}
			}
		}
	}
}

// reported says whether something is wrong with key already, so that it does not count as missing too.
func (m *merger) reported(key string) bool {
	for _, p := range m.report.problems {
		if p.Key == key {
			return true
		}
	}
	return false
}

// defaultOf reads a default tag. One that cannot be read is a mistake in this package, and every test would meet it.
func defaultOf(f field) any {
	tag := "!!str"
	switch f.typ.Kind() {
	case reflect.Int:
		tag = "!!int"
	case reflect.Bool:
		tag = "!!bool"
	case reflect.Float64:
		tag = "!!float"
	}
	v, err := scalar(f, f.typ, &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: f.def})
	if err != nil {
		panic("strict: the default of " + f.key + " " + err.Error())
	}
	return v
}
