package jsontext

import (
	"bytes"
	"cmp"
	"encoding/json"
	"unicode/utf8"
)

// Parse reads a text.
func Parse(text []byte, dialect Dialect) (*Doc, error) {
	r := &reader{text: text, dialect: dialect}
	d := &Doc{Text: text, dialect: dialect}
	if mark := bom(text); mark != nil {
		if !dialect.BOM {
			return nil, r.fail(0, "a byte order mark: "+r.reader()+" does not read a file that begins with one")
		}
		r.at = len(mark)
	}
	if !utf8.Valid(text) {
		at := 0
		for at < len(text) {
			c, n := utf8.DecodeRune(text[at:])
			if c == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return nil, r.fail(at, "the text is not UTF-8")
	}
	r.last = r.at
	r.space()
	if r.err == nil && r.at < len(text) {
		d.Root = r.value(0)
		r.space()
		if r.err == nil && r.at < len(text) {
			r.fail(r.at, "more text behind the value")
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	d.end, d.endCmt = r.last, r.lineCmt
	return d, nil
}

// reader goes once over a text. After the first error it stands still.
type reader struct {
	text    []byte
	dialect Dialect
	at      int
	last    int  // the end of the last thing that is not a space
	lineCmt bool // that thing is a line comment
	err     error
}

func (r *reader) fail(at int, what string) error {
	if r.err == nil {
		r.err = errorAt(r.text, at, what)
	}
	r.at = len(r.text)
	return r.err
}

func (r *reader) reader() string { return cmp.Or(r.dialect.Reader, "this program") }

// took says that the last thing ends here.
func (r *reader) took() { r.last, r.lineCmt = r.at, false }

// space goes over spaces and comments.
func (r *reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
			continue
		case '/':
		default:
			return
		}
		rest := r.text[r.at:]
		switch {
		case !bytes.HasPrefix(rest, []byte("//")) && !bytes.HasPrefix(rest, []byte("/*")):
			r.fail(r.at, "expected a value, got /")
			return
		case !r.dialect.Comments:
			r.fail(r.at, "a comment: "+r.reader()+" throws away a file with comments, and the hooks in it")
			return
		case rest[1] == '*' && r.dialect.LinesOnly:
			r.fail(r.at, "a block comment: "+r.reader()+" reads comments behind // only")
			return
		case rest[1] == '*':
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				r.fail(r.at, "the comment has no end")
				return
			}
			r.at += n + 4
			r.took()
		default:
			n := bytes.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			} else if n > 0 && rest[n-1] == '\r' {
				n--
			}
			r.at += n
			r.last, r.lineCmt = r.at, true
		}
	}
}

func (r *reader) value(depth int) *Node {
	n := &Node{Start: r.at}
	if r.at == len(r.text) {
		r.fail(r.at, "the text ends where a value should be")
		return n
	}
	switch c := r.text[r.at]; {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			r.fail(r.at, "nested too deep: at most 128 arrays and objects in each other")
			return n
		}
		r.items(n, depth+1)
	case c == '"':
		n.Kind = String
		r.str()
	case c == '-' || c >= '0' && c <= '9':
		n.Kind = Number
		r.word()
	default:
		switch r.word() {
		case "null":
		case "true", "false":
			n.Kind = Bool
		default:
			r.fail(n.Start, "expected a value")
		}
	}
	n.End = r.at
	if n.Kind == Number && r.err == nil && !json.Valid(r.text[n.Start:n.End]) {
		r.fail(n.Start, "this is not a number")
	}
	r.took()
	return n
}

// word goes over a number, true, false or null.
func (r *reader) word() string {
	start := r.at
	for r.at < len(r.text) {
		c := r.text[r.at]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '-' || c == '.' {
			r.at++
			continue
		}
		break
	}
	return string(r.text[start:r.at])
}

func (r *reader) str() {
	start := r.at
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '\\':
			r.at++
		case c == '\n' || c == '\r':
			r.fail(start, "the string has no end in its line")
			return
		case c < 0x20:
			r.fail(r.at, "a control character in a string: write it as an escape")
			return
		case c == '"':
			r.at++
			if !json.Valid(r.text[start:r.at]) {
				r.fail(start, "an unknown escape in this string")
			}
			return
		}
	}
	r.fail(start, "the string has no end")
}

// items reads the elements of an array or the members of an object.
func (r *reader) items(n *Node, depth int) {
	n.Kind = Array
	closing := byte(']')
	if r.text[r.at] == '{' {
		n.Kind, closing = Object, '}'
	}
	r.at++
	r.took()
	for {
		r.space()
		if r.at == len(r.text) {
			r.fail(n.Start, "this bracket is never closed")
			return
		}
		if r.text[r.at] == closing {
			if k := len(n.items); k > 0 && n.items[k-1].comma >= 0 && !r.dialect.TrailingCommas {
				r.fail(n.items[k-1].comma, "a comma before a closing bracket: "+r.reader()+" throws away a file with one, "+
					"and the hooks in it")
				return
			}
			n.lastEnd, n.lastIsCmt = r.last, r.lineCmt
			r.at++
			return
		}
		if k := len(n.items); k > 0 && n.items[k-1].comma < 0 {
			r.fail(r.at, "expected a comma or a closing bracket")
			return
		}
		r.item(n, depth)
		if r.err != nil {
			return
		}
	}
}

// item reads one element or member and the comma behind it.
func (r *reader) item(n *Node, depth int) {
	it := item{start: r.at, before: r.last, lineCmt: r.lineCmt, comma: -1}
	if n.Kind == Object {
		if r.text[r.at] != '"' {
			r.fail(r.at, "expected the name of a member, in double quotes")
			return
		}
		r.str()
		if r.err != nil || json.Unmarshal(r.text[it.start:r.at], &it.name) != nil {
			r.fail(it.start, "the name of this member cannot be read")
			return
		}
		if !r.dialect.Duplicates && n.Find(it.name) >= 0 {
			r.fail(it.start, "this member stands here for the second time: take one of the two out")
			return
		}
		r.took()
		r.space()
		if r.at == len(r.text) || r.text[r.at] != ':' {
			r.fail(r.at, "expected a colon behind the name")
			return
		}
		r.at++
		r.took()
		r.space()
	}
	it.value = r.value(depth)
	r.space()
	if r.err == nil && r.at < len(r.text) && r.text[r.at] == ',' {
		it.comma = r.at
		r.at++
		r.took()
	}
	n.items = append(n.items, it)
}
