// Package tomltext edits TOML as text. It owns a reader that finds where each statement of a valid file stands, and
// edits that append a marked block of tables, set one marked line, and take both out again, and leave every other byte
// as it is. It must never change what others wrote, and refuses what TOML does not let it add to. It reads no files;
// text comes from the caller and goes back to it. What is valid TOML is decided by a library.
package tomltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// Error says where a text is not what was expected.
type Error struct {
	Line, Column int
	Text         string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// Kind is the kind of a statement.
type Kind uint8

// The kinds.
const (
	Pair       Kind = iota // key = value
	Table                  // [a.b]
	ArrayTable             // [[a.b]]
	Comment                // a line that holds nothing else
)

// Statement is one statement and its place, with the end of its last line.
type Statement struct {
	Kind       Kind
	Path       []string // of a table; of a pair, below the table it stands in
	Start, End int
	Text       string // of a comment
}

// Doc is a valid text.
type Doc struct {
	Text       []byte
	Statements []Statement
	Values     map[string]any
}

// Parse reads a text.
func Parse(text []byte) (*Doc, error) {
	d := &Doc{Text: text, Values: map[string]any{}}
	skip := len(bom(text))
	if err := toml.Unmarshal(text[skip:], &d.Values); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return nil, &Error{row, column, "this is not TOML: " + strings.TrimPrefix(at.Error(), "toml: ")}
		}
		return nil, fmt.Errorf("this is not TOML: %w", err)
	}
	s := scanner{text: text, at: skip}
	for {
		st, ok := s.next()
		if !ok {
			return d, nil
		}
		if s.lost {
			return nil, d.ErrorAt(st.Start, "this statement cannot be followed")
		}
		d.Statements = append(d.Statements, st)
	}
}

// ErrorAt is an error about a place in the text.
func (d *Doc) ErrorAt(offset int, format string, args ...any) *Error {
	start := max(bytes.LastIndexByte(d.Text[:offset], '\n')+1, min(offset, len(bom(d.Text))))
	return &Error{1 + bytes.Count(d.Text[:offset], []byte("\n")), 1 + utf8.RuneCount(d.Text[start:offset]),
		fmt.Sprintf(format, args...)}
}

// scanner goes once over a text that is known to be valid.
type scanner struct {
	text []byte
	at   int
	lost bool // the text is not as valid TOML is: the scanner has a mistake, or the library has
}

// next gives the next statement.
func (s *scanner) next() (Statement, bool) {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
	if s.at == len(s.text) {
		return Statement{}, false
	}
	st := Statement{Start: s.at}
	switch {
	case s.text[s.at] == '#':
		st.Kind = Comment
		s.line()
		st.Text = strings.TrimRight(string(s.text[st.Start:s.at]), "\r\n")
	case bytes.HasPrefix(s.text[s.at:], []byte("[[")):
		s.at += 2
		st.Kind, st.Path = ArrayTable, s.key()
		s.line()
	case s.text[s.at] == '[':
		s.at++
		st.Kind, st.Path = Table, s.key()
		s.line()
	default:
		st.Path = s.key()
		s.lost = s.lost || s.at >= len(s.text) || s.text[s.at] != '='
		s.value()
	}
	st.End = s.at
	return st, true
}

// line goes over the rest of the line, and its end.
func (s *scanner) line() {
	if n := bytes.IndexByte(s.text[s.at:], '\n'); n >= 0 {
		s.at += n + 1
		return
	}
	s.at = len(s.text)
}

// key reads a dotted key.
func (s *scanner) key() []string {
	var path []string
	for s.at < len(s.text) {
		s.blanks()
		start := s.at
		if s.at == len(s.text) {
			break
		}
		switch c := s.text[s.at]; c {
		case '"', '\'':
			s.str()
			raw := s.text[start:s.at]
			name := string(raw[1:max(len(raw)-1, 1)])
			if c == '"' && json.Unmarshal(raw, &name) != nil { // an escape that JSON lacks
				var v struct{ K string }
				if toml.Unmarshal(append([]byte("K="), raw...), &v) != nil {
					s.lost = true
				}
				name = v.K
			}
			path = append(path, name)
		default:
			for s.at < len(s.text) && bytes.IndexByte([]byte(" \t\r\n.=]"), s.text[s.at]) < 0 {
				s.at++
			}
			path = append(path, string(s.text[start:s.at]))
		}
		s.blanks()
		if s.at == len(s.text) || s.text[s.at] != '.' {
			break
		}
		s.at++
	}
	return path
}

func (s *scanner) blanks() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
}

// str goes over a string of any of the four kinds.
func (s *scanner) str() {
	c := s.text[s.at]
	quote := string(c)
	if triple := strings.Repeat(quote, 3); bytes.HasPrefix(s.text[s.at:], []byte(triple)) {
		quote = triple
	}
	for s.at += len(quote); s.at < len(s.text); s.at++ {
		switch {
		case c == '"' && s.text[s.at] == '\\':
			s.at++
		case bytes.HasPrefix(s.text[s.at:], []byte(quote)):
			s.at += len(quote)
			for n := 0; len(quote) == 3 && n < 2 && s.at < len(s.text) && s.text[s.at] == c; n++ {
				s.at++ // up to two quotes more belong to the text
			}
			return
		}
	}
	s.lost = true
	s.at = len(s.text)
}

// value goes over a value, a comment behind it and the end of the line.
func (s *scanner) value() {
	depth := 0
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"' || c == '\'':
			s.str()
			continue
		case c == '#':
			s.line()
			if depth == 0 {
				return
			}
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '\n' && depth == 0:
			s.at++
			return
		}
		s.at++
	}
}

func bom(text []byte) []byte {
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return text[:3]
	}
	return nil
}
