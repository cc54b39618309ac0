package strict

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// Print gives root, a struct that was read, as YAML that reads back to the same, secrets as they are referred to and
// those written out masked as "***". With docs it writes every key with its documentation; without, only what some
// source set.
func Print(root any, origins Origins, docs bool) []byte {
	p := &printer{origins: origins, docs: docs}
	p.section(reflect.ValueOf(root), 0, "")
	return p.buf.Bytes()
}

// Example gives every key of root, a struct, with its documentation, in comments.
func Example(root any) []byte {
	p := &printer{docs: true}
	for _, f := range fieldsOf(reflect.TypeOf(root)) {
		p.example(f, 0)
	}
	return p.buf.Bytes()
}

type printer struct {
	origins Origins
	docs    bool // document every key and show examples of what is not set
	prefix  string
	buf     bytes.Buffer
}

func (p *printer) line(indent int, format string, args ...any) {
	p.buf.WriteString(p.prefix + strings.Repeat(" ", indent) + fmt.Sprintf(format, args...) + "\n")
}

// doc writes a field's documentation, cut at spaces into lines of readable length.
func (p *printer) doc(indent int, text string) {
	const width = 110
	for text != "" {
		cut := len(text)
		if cut > width {
			if cut = strings.LastIndexByte(text[:width], ' '); cut <= 0 {
				cut = len(text)
			}
		}
		p.line(indent, "# %s", text[:cut])
		text = strings.TrimPrefix(text[cut:], " ")
	}
}

func (p *printer) section(v reflect.Value, indent int, key string) {
	for _, f := range fieldsOf(v.Type()) {
		at, fv := Join(key, f.key), v.Field(f.index)
		if !p.docs && !p.origins.Written(at) {
			continue
		}
		if p.docs {
			if indent == 0 {
				p.buf.WriteString("\n")
			}
			p.doc(indent, f.doc)
		}
		if p.docs && (unset(f, fv) || f.typ.Kind() == reflect.Slice && !p.origins.Written(at)) {
			p.example(f, indent)
			continue
		}
		p.member(f, fv, indent, at)
	}
}

func (p *printer) member(f field, v reflect.Value, indent int, key string) {
	switch {
	case f.typ == valuesType:
		p.line(indent, "%s: %s", f.key, encode(v.Interface().(Values).masked(key)))
	case isSection(f.typ) && p.docs && v.IsZero():
		p.line(indent, "# %s:", f.key)
		p.commented(indent, func() { p.examples(f.typ, indent+2) })
	case isSection(f.typ):
		before := p.buf.Len()
		p.line(indent, "%s:", f.key)
		head := p.buf.Len()
		p.section(v, indent+2, key)
		if p.buf.Len() == head {
			p.buf.Truncate(before)
			p.line(indent, "%s: {}", f.key)
		}
	case f.typ.Kind() == reflect.Map && v.Len() == 0:
		p.line(indent, "%s: {}", f.key)
	case f.typ.Kind() == reflect.Slice && v.Len() == 0:
		p.line(indent, "%s: []", f.key)
	case f.typ.Kind() == reflect.Map:
		p.line(indent, "%s:", f.key)
		for _, name := range sortedNames(v) {
			p.line(indent+2, "%s:", name)
			p.entry(v.MapIndex(reflect.ValueOf(name)), indent+4, Join(key, name), "")
		}
	case f.typ.Kind() == reflect.Slice && isSection(f.typ.Elem()):
		p.line(indent, "%s:", f.key)
		for i := range v.Len() {
			p.entry(v.Index(i), indent+4, fmt.Sprintf("%s[%d]", key, i), "- ")
		}
	case f.typ.Kind() == reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, scalarText(v.Index(i)))
		}
		p.line(indent, "%s: [%s]", f.key, strings.Join(items, ", "))
	default:
		p.line(indent, "%s: %s", f.key, scalarText(v))
	}
}

// entry writes one entry of a list or a map, always in full and without documentation.
func (p *printer) entry(v reflect.Value, indent int, key, bullet string) {
	sub := &printer{origins: p.origins}
	for _, f := range fieldsOf(v.Type()) {
		if fv := v.Field(f.index); !unset(f, fv) && !(isSection(f.typ) && fv.IsZero()) {
			sub.nested(f, fv, indent, Join(key, f.key))
		}
	}
	text := sub.buf.String()
	if bullet != "" && len(text) >= indent {
		text = text[:indent-len(bullet)] + bullet + text[indent:]
	}
	for _, line := range strings.SplitAfter(text, "\n") {
		if line != "" {
			p.buf.WriteString(p.prefix + line)
		}
	}
}

func (p *printer) nested(f field, v reflect.Value, indent int, key string) {
	if !isSection(f.typ) {
		p.member(f, v, indent, key)
		return
	}
	p.line(indent, "%s:", f.key)
	p.entry(v, indent+2, key, "")
}

// example shows a key that has no value, in a comment.
func (p *printer) example(f field, indent int) {
	t := f.typ
	switch {
	case t == valuesType:
		p.line(indent, "# %s: {}", f.key)
	case t.Kind() == reflect.Map:
		p.line(indent, "# %s:", f.key)
		p.line(indent, "#   NAME:")
		p.commented(indent, func() { p.examples(t.Elem(), indent+4) })
	case t.Kind() == reflect.Slice && isSection(t.Elem()):
		p.line(indent, "# %s:", f.key)
		p.line(indent, "#   -")
		p.commented(indent, func() { p.examples(t.Elem(), indent+4) })
	default:
		p.line(indent, "# %s: %s", f.key, f.example)
	}
}

// examples shows every key of a section that is not there.
func (p *printer) examples(t reflect.Type, indent int) {
	for _, f := range fieldsOf(t) {
		p.doc(indent, f.doc)
		switch {
		case isSection(f.typ):
			p.line(indent, "%s:", f.key)
			p.examples(f.typ, indent+2)
		case f.one && isSection(f.typ.Elem()):
			p.line(indent, "%s:", f.key)
			p.examples(f.typ.Elem(), indent+2)
		case f.typ == valuesType:
			p.line(indent, "%s: {}", f.key)
		case f.typ.Kind() == reflect.Map:
			p.line(indent, "%s:", f.key)
			p.line(indent+2, "NAME:")
			p.examples(f.typ.Elem(), indent+4)
		case f.typ.Kind() == reflect.Slice && isSection(f.typ.Elem()):
			p.line(indent, "%s:", f.key)
			p.line(indent+2, "-")
			p.examples(f.typ.Elem(), indent+4)
		case f.hasDef:
			p.line(indent, "%s: %s", f.key, yamlDefault(f))
		default:
			p.line(indent, "%s: %s", f.key, f.example)
		}
	}
}

// commented writes what f writes as comments, keeping its shape.
func (p *printer) commented(indent int, f func()) {
	outer := p.buf
	p.buf = bytes.Buffer{}
	f()
	inner := p.buf.String()
	p.buf = outer
	for _, line := range strings.SplitAfter(inner, "\n") {
		if line != "" {
			p.buf.WriteString(line[:indent] + "# " + line[indent:])
		}
	}
}

func yamlDefault(f field) string {
	if f.typ.Kind() == reflect.String {
		return YAMLText(f.def)
	}
	return f.def
}

// plainText is what reads back as text without quotes. Words that read as something else are sorted out beside it.
var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*(:[0-9]+)?$|^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+:[0-9]+$`)

// YAMLText writes a text so that YAML reads it back as this text.
func YAMLText(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "y", "n":
		return string(encode(s))
	}
	if plainText.MatchString(s) {
		return s
	}
	return string(encode(s))
}
