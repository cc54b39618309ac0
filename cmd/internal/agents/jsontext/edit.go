package jsontext

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// What an edit writes: Fields, List, string, int or bool.
type (
	// Fields is an object, with its members in this order.
	Fields []Field
	// Field is one member.
	Field struct {
		Name  string
		Value any
	}
	// List is an array.
	List []any
)

// splice replaces the bytes from..to by text.
type splice struct {
	from, to int
	text     string
}

// apply carries splices out. Of two at one place the first in the list comes first.
func apply(text []byte, splices ...splice) []byte {
	slices.SortStableFunc(splices, func(a, b splice) int { return a.from - b.from })
	out := make([]byte, 0, len(text)+256)
	at := 0
	for _, s := range splices {
		out = append(append(out, text[at:s.from]...), s.text...)
		at = s.to
	}
	return append(out, text[at:]...)
}

// Start gives the text with a first value, for a Doc without Root.
func (d *Doc) Start(v any) []byte {
	s := d.style()
	text := s.render(v, "", false)
	if len(d.Text) == len(bom(d.Text)) || d.end == len(bom(d.Text)) { // nothing but spaces: they are replaced
		return append(slices.Clone(d.Text[:d.end]), text+s.newline...)
	}
	return apply(d.Text, splice{d.end, len(d.Text), s.newline + text + s.newline})
}

// Add gives the text with a member more, behind all others. With a nil object it is Start.
func (d *Doc) Add(obj *Node, name string, v any) []byte {
	return d.insert(obj, func(s style, indent string, flat bool) string { return s.member(name, v, indent, flat) })
}

// Append gives the text with an element more, behind all others.
func (d *Doc) Append(arr *Node, v any) []byte {
	return d.insert(arr, func(s style, indent string, flat bool) string { return s.render(v, indent, flat) })
}

// Replace gives the text with another value in a value's place.
func (d *Doc) Replace(n *Node, v any) []byte {
	s := d.style()
	flat := s.flat || bytes.IndexByte(d.Text[n.Start:n.End], '\n') < 0 && n.Len() > 0
	return apply(d.Text, splice{n.Start, n.End, s.render(v, d.indentOf(n.Start), flat)})
}

// insert puts an item behind the last one. A comment stays where it is: behind what it stood behind.
func (d *Doc) insert(n *Node, write func(s style, indent string, flat bool) string) []byte {
	s := d.style()
	var splices []splice
	oneLine := bytes.IndexByte(d.Text[n.Start:n.End], '\n') < 0
	flat := s.flat || oneLine && n.Len() > 0
	between, tail := "", ""
	if k := len(n.items); k > 0 {
		between = s.comma
		if n.items[k-1].comma >= 0 {
			tail = ","
			if between == "," {
				between = ""
			} else {
				between = strings.TrimPrefix(between, ",")
			}
		} else if !flat || n.lastEnd != n.items[k-1].value.End {
			splices = append(splices, splice{n.items[k-1].value.End, n.items[k-1].value.End, ","})
			between = strings.TrimPrefix(between, ",")
		}
	}
	if flat && !n.lastIsCmt {
		return apply(d.Text, append(splices, splice{n.lastEnd, n.lastEnd, between + write(s, "", true) + tail})...)
	}
	own := d.indentOf(n.Start)
	indent := own + s.unit
	if k := len(n.items); k > 0 && d.startsLine(n.items[k-1].start) {
		indent = d.indentOf(n.items[k-1].start)
	}
	text := s.newline + indent + write(s, indent, false) + tail
	end := n.lastEnd
	if bytes.IndexByte(d.Text[n.lastEnd:n.End], '\n') < 0 { // the bracket gets a line of its own
		text, end = text+s.newline+own, n.End-1
	}
	return apply(d.Text, append(splices, splice{n.lastEnd, end, text})...)
}

// Remove gives the text without an element or member. Comments around it stay.
func (d *Doc) Remove(n *Node, i int) []byte {
	it := n.items[i]
	splices := []splice{{it.before, it.value.End, ""}}
	if it.comma >= 0 {
		splices[0].to = it.comma + 1
		if bytes.IndexByte(d.Text[it.value.End:it.comma], '/') >= 0 { // a comment before the comma: keep it
			splices[0].to = it.value.End
			splices = append(splices, splice{it.comma, it.comma + 1, ""})
		}
	} else if i > 0 {
		splices = append(splices, splice{n.items[i-1].comma, n.items[i-1].comma + 1, ""})
	}
	if it.lineCmt && !d.endsLine(splices[0].to) { // what follows must not slip into the comment
		splices[0].from += bytes.IndexByte(d.Text[it.before:], '\n') + 1
	}
	return apply(d.Text, splices...)
}

// startsLine says whether only spaces stand before a place in its line.
func (d *Doc) startsLine(at int) bool {
	line := d.Text[bytes.LastIndexByte(d.Text[:at], '\n')+1 : at]
	return len(bytes.TrimLeft(line, " \t")) == 0 && len(line) < at
}

// endsLine says whether only spaces stand behind a place in its line.
func (d *Doc) endsLine(at int) bool {
	rest := bytes.TrimLeft(d.Text[at:], " \t\r")
	return len(rest) == 0 || rest[0] == '\n'
}

// indentOf is the indentation of the line of a place.
func (d *Doc) indentOf(at int) string {
	line := bytes.TrimPrefix(d.Text[bytes.LastIndexByte(d.Text[:at], '\n')+1:at], []byte("\ufeff"))
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// style is how a text is written.
type style struct {
	newline, unit, comma, colon string
	flat                        bool // all of it stands in one line
}

func (d *Doc) style() style {
	s := style{newline: "\n", unit: "  ", comma: ", ", colon: ": "}
	if i := bytes.IndexByte(d.Text, '\n'); i > 0 && d.Text[i-1] == '\r' {
		s.newline = "\r\n"
	}
	if d.Root == nil || len(d.Root.items) == 0 {
		return s
	}
	if first := d.Root.items[0].start; d.startsLine(first) {
		own := d.indentOf(d.Root.Start)
		if in, is := strings.CutPrefix(d.indentOf(first), own); is && in != "" {
			s.unit = in
		}
	}
	whole := d.Text[d.Root.Start:d.Root.End]
	if s.flat = bytes.IndexByte(whole, '\n') < 0; s.flat && !bytes.Contains(whole, []byte(`": `)) {
		s.comma, s.colon = ",", ":"
	}
	return s
}

// render writes a value, each line behind the first with indent in front.
func (s style) render(v any, indent string, flat bool) string {
	var items []string
	inner := indent + s.unit
	brackets := "[]"
	switch v := v.(type) {
	case string:
		return string(appendString(nil, v))
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	case List:
		for _, e := range v {
			items = append(items, s.render(e, inner, flat))
		}
	case Fields:
		brackets = "{}"
		for _, f := range v {
			items = append(items, s.member(f.Name, f.Value, inner, flat))
		}
	}
	switch {
	case len(items) == 0:
		return brackets
	case flat:
		return brackets[:1] + strings.Join(items, s.comma) + brackets[1:]
	}
	return brackets[:1] + s.newline + inner + strings.Join(items, ","+s.newline+inner) + s.newline + indent + brackets[1:]
}

func (s style) member(name string, v any, indent string, flat bool) string {
	colon := ": "
	if flat {
		colon = s.colon
	}
	return string(appendString(nil, name)) + colon + s.render(v, indent, flat)
}

// CompactOf is what Doc.Compact gives for a value that was written.
func CompactOf(v any) []byte {
	return []byte(style{comma: ",", colon: ":"}.render(v, "", true))
}

func appendString(dst []byte, s string) []byte { return exact.AppendString(dst, s) }
