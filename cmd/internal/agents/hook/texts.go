package hook

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// Strings gives every text in a JSON value that a model could read: strings and member names, decoded, in order.
func Strings(json []byte) ([]string, error) {
	var doc exact.Doc
	if err := doc.Parse(string(json), exact.DefaultLimits); err != nil {
		return nil, fmt.Errorf("read the output's texts: %w", err)
	}
	var out []string
	replaceTexts(nil, doc.Root(), "", func(_, s string, _ bool) string {
		out = append(out, s)
		return s
	})
	return out, nil
}

// PutBack gives the JSON value with other texts, in the order of Strings. Everything else keeps its bytes.
func PutBack(json []byte, texts []string) ([]byte, error) {
	var doc, made exact.Doc
	if err := doc.Parse(string(json), exact.DefaultLimits); err != nil {
		return nil, fmt.Errorf("put the texts back: %w", err)
	}
	i := 0
	out, _ := replaceTexts(nil, doc.Root(), "", func(_, s string, _ bool) string {
		if i++; i > len(texts) {
			return s
		}
		return texts[i-1]
	})
	if i != len(texts) {
		return nil, fmt.Errorf("put the texts back: expected %d texts, got %d", i, len(texts))
	}
	if err := made.Parse(string(out), exact.DefaultLimits); err != nil {
		return nil, errors.New("put the texts back: two members would have the same name")
	}
	return out, nil
}

// replaceTexts appends v with what f makes of its texts. f gets the name of the member that holds the string, and
// whether the text is a member's name. A value in which nothing changed keeps its bytes.
func replaceTexts(dst []byte, v exact.Value, name string, f func(name, s string, isName bool) string) ([]byte, bool) {
	start, changed, first := len(dst), false, true
	switch v.Kind() {
	case exact.String:
		s := v.Str()
		if now := f(name, s, false); now != s {
			return exact.AppendString(dst, now), true
		}
	case exact.Array:
		dst = append(dst, '[')
		for elem := range v.Elements() {
			if !first {
				dst = append(dst, ',')
			}
			var c bool
			dst, c = replaceTexts(dst, elem, name, f)
			changed, first = changed || c, false
		}
		dst = append(dst, ']')
	case exact.Object:
		dst = append(dst, '{')
		for member, val := range v.Members() {
			if !first {
				dst = append(dst, ',')
			}
			now := f(member, member, true)
			dst = append(exact.AppendString(dst, now), ':')
			var c bool
			dst, c = replaceTexts(dst, val, member, f)
			changed, first = changed || c || now != member, false
		}
		dst = append(dst, '}')
	}
	if !changed {
		return append(dst[:start], v.Raw()...), false
	}
	return dst, true
}

// shape says in what two values of one shape may differ.
type shape struct {
	strings bool
	names   bool
	numbers bool
	bools   bool
	fixed   map[string]bool // members whose strings are words of the agent, which it would not recognise changed
}

// differs says where b has another shape than a, "" if nowhere.
func differs(a, b exact.Value, may shape) string { return differsAt(a, b, "", may) }

func differsAt(a, b exact.Value, name string, may shape) string {
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return "a value of another kind or length"
	}
	switch a.Kind() {
	case exact.String:
		if a.Str() != b.Str() && (!may.strings || may.fixed[name]) {
			return "another string in " + strconv.Quote(name)
		}
	case exact.Number:
		if a.Raw() != b.Raw() && !may.numbers {
			return "another number"
		}
	case exact.Bool:
		if a.Bool() != b.Bool() && !may.bools {
			return "another boolean"
		}
	case exact.Array:
		next := collect(b)
		i := 0
		for elem := range a.Elements() {
			if why := differsAt(elem, next[i], name, may); why != "" {
				return why
			}
			i++
		}
	case exact.Object:
		names, values := members(b)
		i := 0
		for member, val := range a.Members() {
			if names[i] != member && !may.names {
				return "another member"
			}
			if why := differsAt(val, values[i], member, may); why != "" {
				return why
			}
			i++
		}
	}
	return ""
}

func collect(v exact.Value) []exact.Value {
	out := make([]exact.Value, 0, v.Len())
	for elem := range v.Elements() {
		out = append(out, elem)
	}
	return out
}

func members(v exact.Value) (names []string, values []exact.Value) {
	for name, val := range v.Members() {
		names, values = append(names, name), append(values, val)
	}
	return names, values
}

// redacts reports whether b is a with other texts, and with at least one of them changed.
func redacts(a, b []byte) bool {
	var was, now exact.Doc
	if was.Parse(string(a), exact.DefaultLimits) != nil || now.Parse(string(b), exact.DefaultLimits) != nil {
		return false
	}
	if differs(was.Root(), now.Root(), shape{strings: true, names: true}) != "" {
		return false
	}
	return differs(was.Root(), now.Root(), shape{}) != ""
}

// fitsShape reports whether b is a with other strings, and with the same names and the same words in fixed members.
func fitsShape(a, b []byte, fixed map[string]bool) bool {
	var was, now exact.Doc
	if was.Parse(string(a), exact.DefaultLimits) != nil || now.Parse(string(b), exact.DefaultLimits) != nil {
		return false
	}
	return differs(was.Root(), now.Root(), shape{strings: true, fixed: fixed}) == ""
}

// covers reports whether now names every member that was names, at every depth, so that a merge leaves nothing behind.
func covers(now, was exact.Value) bool {
	for name, val := range was.Members() {
		other := now.Get(name)
		if !other.Exists() {
			return false
		}
		if val.Kind() == exact.Object && (other.Kind() != exact.Object || !covers(other, val)) {
			return false
		}
		if val.Kind() == exact.Array && holdsObjects(val) && val.Raw() != other.Raw() {
			return false
		}
	}
	return true
}

func holdsObjects(v exact.Value) bool {
	for elem := range v.Elements() {
		if elem.Kind() == exact.Object || elem.Kind() == exact.Array && holdsObjects(elem) {
			return true
		}
	}
	return false
}

// roundedNumber finds a number in now that an agent which keeps numbers as float64 would change. A number that was in
// the call already is one that the agent can hold.
func roundedNumber(was, now exact.Value) (string, bool) {
	known := map[string]bool{}
	numbers(was, func(raw string) bool {
		known[raw] = true
		return true
	})
	found := ""
	numbers(now, func(raw string) bool {
		if !known[raw] && !survivesFloat(raw) {
			found = raw
		}
		return found == ""
	})
	return found, found != ""
}

// numbers calls f with each number of v until f returns false.
func numbers(v exact.Value, f func(raw string) bool) bool {
	switch v.Kind() {
	case exact.Number:
		return f(v.Raw())
	case exact.Array:
		for elem := range v.Elements() {
			if !numbers(elem, f) {
				return false
			}
		}
	case exact.Object:
		for _, val := range v.Members() {
			if !numbers(val, f) {
				return false
			}
		}
	}
	return true
}

func survivesFloat(raw string) bool {
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return false
	}
	back, err := exact.ParseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	if err != nil {
		return false
	}
	sent, err := exact.ParseDecimal(raw)
	return err == nil && sent.Cmp(back) == 0
}

// plainText is a JSON value as a model reads it: a string, the texts of a list of text parts, or else the JSON.
func plainText(json []byte) string {
	var doc exact.Doc
	if doc.Parse(string(json), exact.DefaultLimits) != nil {
		return notPutBack
	}
	root := doc.Root()
	if content := root.Get("content"); content.Kind() == exact.Array && root.Len() == 1 {
		root = content
	}
	switch root.Kind() {
	case exact.String:
		return root.Str()
	case exact.Array:
		var texts []string
		for part := range root.Elements() {
			text := part.Get("text")
			alone := part.Len() == 1 || part.Len() == 2 && part.Get("type").Str() == "text"
			if text.Kind() != exact.String || !alone {
				return doc.Root().Raw()
			}
			texts = append(texts, text.Str())
		}
		return strings.Join(texts, "\n")
	}
	return doc.Root().Raw()
}
