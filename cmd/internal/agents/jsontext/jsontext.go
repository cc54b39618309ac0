// Package jsontext edits JSON as text. It owns a reader that keeps the place of every value, and edits that insert,
// replace or remove one value and leave every other byte as it is: comments, order, indentation, line ends, a byte
// order mark and a missing final newline. It must never rewrite what it was not told to, and never guess what a broken
// text means: it refuses, with the line and column. It reads no files; text comes from the caller and goes back to it.
package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 128

// Dialect says what a program reads besides strict JSON. Text that it does not read is refused, so that an edit never
// makes a file look right that the program throws away.
type Dialect struct {
	Reader         string // the program, for errors
	Comments       bool   // line and block comments
	LinesOnly      bool   // with Comments: no block comments
	TrailingCommas bool   // a comma before a closing bracket
	BOM            bool   // a byte order mark in front
	Duplicates     bool   // a member twice in an object; an edit below such a member is refused all the same
}

// Kind is the kind of a value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// Node is a value and its place.
type Node struct {
	Kind       Kind
	Start, End int // the bytes of the value

	items     []item
	lastEnd   int  // the end of the last thing before the closing bracket
	lastIsCmt bool // that thing is a line comment
}

// item is an element of an array or a member of an object.
type item struct {
	name    string // of a member
	start   int    // of the name or the value
	value   *Node
	before  int  // the end of the last thing before it: a bracket, a comma or a comment
	lineCmt bool // that thing is a line comment
	comma   int  // the comma behind it, -1 if there is none
}

// Len is the number of elements or members.
func (n *Node) Len() int { return len(n.items) }

// At is an element, or the value of a member.
func (n *Node) At(i int) *Node { return n.items[i].value }

// Name is the name of a member.
func (n *Node) Name(i int) string { return n.items[i].name }

// Find gives the index of a member, -1 if there is none.
func (n *Node) Find(name string) int {
	for i, it := range n.items {
		if it.name == name {
			return i
		}
	}
	return -1
}

// Error says where a text is not what was expected.
type Error struct {
	Line, Column int
	Text         string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// Doc is a text that was read. Root is nil where the text holds no value at all: it is empty, or holds comments only.
type Doc struct {
	Text    []byte
	Root    *Node
	dialect Dialect
	end     int // the end of the last thing in the text
	endCmt  bool
}

// ErrorAt is an error about a place in the text.
func (d *Doc) ErrorAt(offset int, format string, args ...any) *Error {
	return errorAt(d.Text, offset, fmt.Sprintf(format, args...))
}

func errorAt(text []byte, offset int, what string) *Error {
	offset = min(offset, len(text))
	start := bytes.LastIndexByte(text[:offset], '\n') + 1
	if start == 0 {
		start = len(bom(text))
	}
	return &Error{Line: 1 + bytes.Count(text[:offset], []byte("\n")),
		Column: 1 + utf8.RuneCount(text[min(start, offset):offset]), Text: what}
}

// Str is the text of a string, "" for anything else.
func (d *Doc) Str(n *Node) string {
	var s string
	if n == nil || n.Kind != String || json.Unmarshal(d.Text[n.Start:n.End], &s) != nil {
		return ""
	}
	return s
}

// Raw is the bytes of a value.
func (d *Doc) Raw(n *Node) []byte { return d.Text[n.Start:n.End] }

// Get follows members from the root. It gives nil where one is missing. It is an error if something on the way is not
// an object, or has the member twice.
func (d *Doc) Get(path ...string) (*Node, error) {
	n := d.Root
	for _, name := range path {
		if n == nil {
			return nil, nil
		}
		if n.Kind != Object {
			return nil, d.ErrorAt(n.Start, "expected an object with %q, got %s", name, n.Kind)
		}
		i := n.Find(name)
		if i < 0 {
			return nil, nil
		}
		for j := i + 1; j < len(n.items); j++ {
			if n.items[j].name == name {
				return nil, d.ErrorAt(n.items[j].start, "%q stands here for the second time: take one of the two out", name)
			}
		}
		n = n.items[i].value
	}
	return n, nil
}

// Compact is a value without spaces, comments and escapes that it does not need: equal values have equal bytes.
func (d *Doc) Compact(n *Node) []byte { return d.compact(nil, n) }

func (d *Doc) compact(dst []byte, n *Node) []byte {
	switch n.Kind {
	case Array, Object:
		dst = append(dst, d.Text[n.Start])
		for i, it := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			if n.Kind == Object {
				dst = append(appendString(dst, it.name), ':')
			}
			dst = d.compact(dst, it.value)
		}
		return append(dst, d.Text[n.End-1])
	case String:
		return appendString(dst, d.Str(n))
	}
	return append(dst, d.Text[n.Start:n.End]...)
}

func bom(text []byte) []byte {
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return text[:3]
	}
	return nil
}
