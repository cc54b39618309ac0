package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// strictly finds what encoding/json would take and an operator cannot have meant: a member whose name fits a field in
// another case only ("Limit" and "limit" could both be given, and the last one would hold), a member that no field
// takes, null where it would silently leave zero, and a quoted number for a json.Number. nil: there is none.
func strictly(v exact.Value, t reflect.Type, at string) *Problem {
	if t = target(v, t); t == nil {
		return nil
	}
	switch {
	case v.Kind() == exact.Null && !nilable(t):
		return &Problem{at, "null does not fit: expected " + t.String()}
	case v.Kind() == exact.String && t == reflect.TypeFor[json.Number]():
		return &Problem{at, "a string does not fit: expected a number"}
	case v.Kind() == exact.Object && t.Kind() == reflect.Struct:
		fields := jsonFields(t)
		for name := range v.Members() {
			if _, known := fields[name]; !known {
				return unknown(name, fields, at)
			}
		}
	}
	for m := range members(v, t, at) {
		if m.quoted {
			continue
		}
		if p := strictly(m.v, m.t, m.at); p != nil {
			return p
		}
	}
	return nil
}

func unknown(name string, fields map[string]field, at string) *Problem {
	at += "/" + escaped(name)
	for known := range fields {
		if strings.EqualFold(known, name) {
			return &Problem{at, "unknown member; " + known + " is one"}
		}
	}
	return &Problem{at, "unknown member"}
}

// misfit names the innermost value that encoding/json cannot put into its field. err is what it said of the whole: its
// own place leaves out the indices of lists.
func misfit(v exact.Value, t reflect.Type, at string, err error) Problem {
	if t = target(v, t); t != nil {
		for m := range members(v, t, at) {
			if m.quoted {
				continue
			}
			if inner := json.Unmarshal([]byte(m.v.Raw()), reflect.New(m.t).Interface()); inner != nil {
				return misfit(m.v, m.t, m.at, inner)
			}
		}
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return Problem{at, fmt.Sprintf("a %s does not fit: expected %s", wrong.Value, wrong.Type)}
	}
	return Problem{at, strings.TrimPrefix(err.Error(), "json: ")}
}

// target is what encoding/json fills for v in a place of type t; nil when that is not ours to look into, since the type
// reads itself or v is a null that a pointer takes.
func target(v exact.Value, t reflect.Type) reflect.Type {
	own := reflect.TypeFor[json.Unmarshaler]()
	for t != nil && t.Kind() == reflect.Pointer && !t.Implements(own) {
		if v.Kind() == exact.Null {
			return nil
		}
		t = t.Elem()
	}
	if t == nil || t.Implements(own) || reflect.PointerTo(t).Implements(own) {
		return nil
	}
	return t
}

func nilable(t reflect.Type) bool {
	return t.Kind() == reflect.Map || t.Kind() == reflect.Slice || t.Kind() == reflect.Interface
}

// member is one value inside another one, and the type that it goes to.
type member struct {
	v      exact.Value
	t      reflect.Type
	at     string
	name   string // in an object
	quoted bool   // by the option "string" of its tag: what is written is not what the type says
}

// members ranges over what encoding/json would put into the members or elements of a t. Unknown members are left out.
func members(v exact.Value, t reflect.Type, at string) func(yield func(member) bool) {
	return func(yield func(member) bool) {
		switch {
		case v.Kind() == exact.Object && t.Kind() == reflect.Struct:
			fields := jsonFields(t)
			for name, inner := range v.Members() {
				if f, known := fields[name]; known && !yield(member{inner, f.t, at + "/" + escaped(name), name, f.quoted}) {
					return
				}
			}
		case v.Kind() == exact.Object && t.Kind() == reflect.Map:
			for name, inner := range v.Members() {
				if !yield(member{inner, t.Elem(), at + "/" + escaped(name), name, false}) {
					return
				}
			}
		case v.Kind() == exact.Array && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
			i := 0
			for inner := range v.Elements() {
				if !yield(member{inner, t.Elem(), at + "/" + strconv.Itoa(i), "", false}) {
					return
				}
				i++
			}
		}
	}
}

// escaped is a member's name as a part of a JSON pointer.
func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// field is one that encoding/json fills.
type field struct {
	t      reflect.Type
	quoted bool
}

// jsonFields gathers the names under which encoding/json fills a struct.
func jsonFields(t reflect.Type) map[string]field {
	into := map[string]field{}
	gatherFields(t, into, map[reflect.Type]bool{})
	return into
}

// gatherFields adds the fields of t. Those of embedded structs come after its own, which hide them.
func gatherFields(t reflect.Type, into map[string]field, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	var embedded []reflect.Type
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		inner := f.Type
		if f.Anonymous && inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-" || !f.IsExported() && (!f.Anonymous || inner.Kind() != reflect.Struct):
			continue
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded = append(embedded, inner)
			continue
		case name == "":
			name = f.Name
		}
		if _, hidden := into[name]; !hidden {
			into[name] = field{f.Type, strings.Contains(","+options+",", ",string,")}
		}
	}
	for _, inner := range embedded {
		gatherFields(inner, into, seen)
	}
}

// placeOf is the JSON pointer of what stands at a byte of a text; "" where the text cannot be read so far.
func placeOf(text []byte, offset int64) string {
	type level struct {
		object, named bool // named: the next token is the value of at
		at            string
		n             int
	}
	var open []level
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 {
			switch in := &open[n-1]; {
			case !in.object:
				in.at = strconv.Itoa(in.n)
				in.n++
			case !in.named:
				in.at, _ = token.(string)
				in.named = true
			default:
				in.named = false
			}
		}
		if d.InputOffset() > offset {
			var where strings.Builder
			for _, in := range open {
				where.WriteString("/" + escaped(in.at))
			}
			return where.String()
		}
		if delim != 0 {
			open = append(open, level{object: delim == '{'})
		}
	}
}
