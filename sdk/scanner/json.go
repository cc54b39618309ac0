package scanner

import (
	"errors"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Value is one JSON value of a configuration, as it was written. Its methods refuse a value of another type.
type Value struct{ raw []byte }

const maxDepth = 128

var errNotJSON = errors.New("not a JSON document")

// Members calls f for every member of the JSON object doc, in order. It refuses what is not one JSON object: trailing
// data, repeated names, bad UTF-8, more than 32 levels. An error of f ends it and is returned.
func Members(doc []byte, f func(name string, v Value) error) error {
	if !utf8.Valid(doc) {
		return errors.New("not UTF-8")
	}
	r := reader{b: doc}
	if r.space(); !r.eat('{') {
		return errors.New("not a JSON object")
	}
	var seen []string
	err := r.list('}', func() error {
		name, err := r.member()
		if err != nil {
			return err
		}
		if slices.Contains(seen, name) {
			return errors.New(name + ": given twice")
		}
		seen = append(seen, name)
		start := r.i
		if err := r.value(1); err != nil {
			return err
		}
		return f(name, Value{doc[start:r.i]})
	})
	if err != nil {
		return err
	}
	if r.space(); r.i != len(doc) {
		return errors.New("data after the JSON object")
	}
	return nil
}

// Raw gives the JSON text of the value.
func (v Value) Raw() []byte { return v.raw }

// Str reads a string.
func (v Value) Str() (string, error) {
	r := reader{b: v.raw}
	if len(v.raw) == 0 || v.raw[0] != '"' {
		return "", errors.New("must be a string")
	}
	return r.str()
}

// Bool reads true or false.
func (v Value) Bool() (bool, error) {
	switch string(v.raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// Float reads a number.
func (v Value) Float() (float64, error) {
	if len(v.raw) == 0 || v.raw[0] != '-' && (v.raw[0] < '0' || v.raw[0] > '9') {
		return 0, errors.New("must be a number")
	}
	n, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil {
		return 0, errors.New("number out of range")
	}
	return n, nil
}

// Strings reads an array of strings.
func (v Value) Strings() ([]string, error) {
	r := reader{b: v.raw}
	if !r.eat('[') {
		return nil, errors.New("must be an array of strings")
	}
	var all []string
	err := r.list(']', func() error {
		if r.i == len(r.b) || r.b[r.i] != '"' {
			return errors.New("must be an array of strings")
		}
		s, err := r.str()
		all = append(all, s)
		return err
	})
	return all, err
}

type reader struct {
	b []byte
	i int
}

func (r *reader) space() {
	for r.i < len(r.b) && (r.b[r.i] == ' ' || r.b[r.i] == '\t' || r.b[r.i] == '\n' || r.b[r.i] == '\r') {
		r.i++
	}
}

func (r *reader) eat(c byte) bool {
	if r.i < len(r.b) && r.b[r.i] == c {
		r.i++
		return true
	}
	return false
}

// list reads comma-separated items up to the closing byte; the opening one is read already.
func (r *reader) list(closing byte, item func() error) error {
	if r.space(); r.eat(closing) {
		return nil
	}
	for {
		r.space()
		if err := item(); err != nil {
			return err
		}
		r.space()
		if r.eat(closing) {
			return nil
		}
		if !r.eat(',') {
			return errNotJSON
		}
	}
}

// member reads a name and its colon.
func (r *reader) member() (string, error) {
	name, err := r.str()
	if err != nil {
		return "", err
	}
	if r.space(); !r.eat(':') {
		return "", errNotJSON
	}
	r.space()
	return name, nil
}

// value reads over one value.
func (r *reader) value(depth int) error {
	if depth > maxDepth {
		return errors.New("more than " + strconv.Itoa(maxDepth) + " levels")
	}
	if r.i == len(r.b) {
		return errNotJSON
	}
	switch c := r.b[r.i]; c {
	case '{':
		r.i++
		return r.list('}', func() error {
			if _, err := r.member(); err != nil {
				return err
			}
			return r.value(depth + 1)
		})
	case '[':
		r.i++
		return r.list(']', func() error { return r.value(depth + 1) })
	case '"':
		_, err := r.str()
		return err
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	}
	return r.number()
}

func (r *reader) word(w string) error {
	if len(r.b)-r.i < len(w) || string(r.b[r.i:r.i+len(w)]) != w {
		return errNotJSON
	}
	r.i += len(w)
	return nil
}

func (r *reader) digits() bool {
	start := r.i
	for r.i < len(r.b) && '0' <= r.b[r.i] && r.b[r.i] <= '9' {
		r.i++
	}
	return r.i > start
}

func (r *reader) number() error {
	r.eat('-')
	if !r.eat('0') && !r.digits() {
		return errNotJSON
	}
	if r.eat('.') && !r.digits() {
		return errNotJSON
	}
	if r.eat('e') || r.eat('E') {
		if !r.eat('+') {
			r.eat('-')
		}
		if !r.digits() {
			return errNotJSON
		}
	}
	return nil
}

// str reads a string, escapes undone.
func (r *reader) str() (string, error) {
	if !r.eat('"') {
		return "", errNotJSON
	}
	var s []byte
	for r.i < len(r.b) {
		c := r.b[r.i]
		r.i++
		switch {
		case c == '"':
			return string(s), nil
		case c < 0x20:
			return "", errNotJSON
		case c != '\\':
			s = append(s, c)
		default:
			var err error
			if s, err = r.escape(s); err != nil {
				return "", err
			}
		}
	}
	return "", errNotJSON
}

func (r *reader) escape(s []byte) ([]byte, error) {
	if r.i == len(r.b) {
		return nil, errNotJSON
	}
	c := r.b[r.i]
	r.i++
	for i, e := range []byte(`"\/bfnrt`) {
		if c == e {
			return append(s, "\"\\/\b\f\n\r\t"[i]), nil
		}
	}
	if c != 'u' {
		return nil, errNotJSON
	}
	u, err := r.hex4()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(u) {
		if !r.eat('\\') || !r.eat('u') {
			return nil, errNotJSON
		}
		low, err := r.hex4()
		if err != nil {
			return nil, err
		}
		if u = utf16.DecodeRune(u, low); u == utf8.RuneError {
			return nil, errNotJSON
		}
	}
	return utf8.AppendRune(s, u), nil
}

func (r *reader) hex4() (rune, error) {
	if len(r.b)-r.i < 4 {
		return 0, errNotJSON
	}
	u, err := strconv.ParseUint(string(r.b[r.i:r.i+4]), 16, 16)
	if err != nil {
		return 0, errNotJSON
	}
	r.i += 4
	return rune(u), nil
}

// configOf takes the configuration object out of an abi.InitConfig document.
func configOf(doc []byte) ([]byte, error) {
	config := []byte("{}")
	version := false
	err := Members(doc, func(name string, v Value) error {
		switch name {
		case "abi":
			version = string(v.raw) == "1"
		case "name":
			_, err := v.Str()
			return err
		case "config":
			if string(v.raw) != "null" {
				config = v.raw
			}
		default:
			return errors.New(name + ": unknown member of the init document")
		}
		return nil
	})
	if err == nil && !version {
		err = errors.New("abi: must be 1")
	}
	return config, err
}
