package tomltext

import (
	"bytes"
	"slices"
	"strings"
)

// Mark names what one program writes into a file: comments with it stand around its block and behind its line.
type Mark string

func (m Mark) begin() string { return "# " + string(m) + ": begin" }
func (m Mark) end() string   { return "# " + string(m) + ": end" }
func (m Mark) tail() string  { return " # " + string(m) }

// Block gives the text with lines of tables in a marked block at its end.
func (d *Doc) Block(m Mark, lines []string) []byte {
	nl := d.newline()
	text := m.begin() + nl + strings.Join(lines, nl) + nl + m.end() + nl
	if len(d.Text) > len(bom(d.Text)) { // Clear takes exactly one line end away in front of the block
		text = nl + text
	}
	return append(slices.Clone(d.Text), text...)
}

// Set gives the text with a marked line at its top, which is in front of all tables.
func (d *Doc) Set(m Mark, line string) []byte {
	at := len(bom(d.Text))
	return slices.Concat(d.Text[:at], []byte(line+m.tail()+d.newline()), d.Text[at:])
}

// Clear gives the text without what is marked: the block, which it returns too, and the line. It is an error if one of
// the block's two marks is missing.
func (d *Doc) Clear(m Mark) (rest []byte, block string, err error) {
	type cut struct{ from, to int }
	var cuts []cut
	begin := -1
	for _, st := range d.Statements {
		switch {
		case st.Kind == Comment && st.Text == m.begin():
			if begin >= 0 || block != "" {
				return nil, "", d.ErrorAt(st.Start, "%q stands here for the second time: take one of the blocks out", m.begin())
			}
			begin = st.Start
		case st.Kind == Comment && st.Text == m.end():
			if begin < 0 {
				return nil, "", d.ErrorAt(st.Start, "%q has no %q above it: take the rest of the block out", m.end(), m.begin())
			}
			block = string(d.Text[begin:st.End])
			from := begin
			if nl := d.newline(); from > len(bom(d.Text)) && bytes.HasSuffix(d.Text[:from], []byte(nl)) {
				from -= len(nl)
			}
			cuts = append(cuts, cut{from, st.End})
			begin = -1
		case st.Kind == Pair && begin < 0 && strings.HasSuffix(d.line(st), m.tail()):
			cuts = append(cuts, cut{st.Start, st.End})
		}
	}
	if begin >= 0 {
		return nil, "", d.ErrorAt(begin, "%q has no %q below it: take the rest of the block out", m.begin(), m.end())
	}
	at := 0
	for _, c := range cuts {
		rest = append(rest, d.Text[at:max(at, c.from)]...)
		at = c.to
	}
	return append(rest, d.Text[at:]...), block, nil
}

func (d *Doc) line(st Statement) string {
	return strings.TrimRight(string(d.Text[st.Start:st.End]), "\r\n")
}

// Open says why tables cannot be added below a top-level name, nil if they can: TOML closes a table that was written
// as a value, or with dots in a key.
func (d *Doc) Open(name, below string) error {
	var table []string
	for _, st := range d.Statements {
		path := st.Path
		switch st.Kind {
		case Comment:
			continue
		case Pair:
			path = append(slices.Clone(table), st.Path...)
			closes := len(path) > 0 && path[0] == name &&
				(len(table) == 0 || len(table) == 1 && len(path) > 1 && path[1] == below)
			if closes {
				return d.ErrorAt(st.Start, "%s is written as a value, and TOML lets nobody add tables to that: write it as "+
					"[[%s.%s]] tables", strings.Join(path, "."), name, below)
			}
			continue
		case ArrayTable:
			if len(path) == 1 && path[0] == name {
				return d.ErrorAt(st.Start, "[[%s]] is a list, expected the table [%s]", name, name)
			}
		case Table:
			if len(path) == 2 && path[0] == name && path[1] == below {
				return d.ErrorAt(st.Start, "[%s.%s] is one table, expected a list of [[%s.%s]]", name, below, name, below)
			}
		}
		table = path
	}
	return nil
}

func (d *Doc) newline() string {
	if i := bytes.IndexByte(d.Text, '\n'); i > 0 && d.Text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// String is a text as a basic string.
func String(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			const hex = "0123456789abcdef"
			b.WriteString(`\u00` + string(hex[r>>4]) + string(hex[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
