package plugin

import (
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/yett-dev/yett/sdk/exact"
)

// plain appends the text of v, with each integer that goes to an integer of Go's written as encoding/json wants it. A
// schema's "integer" takes 1000.0 and 1e3, which are one, and encoding/json does not. What has a fraction or does not
// fit stays as it is, for encoding/json to refuse; so does what goes elsewhere, such as to a json.Number, which keeps
// its digits. v is one that strictly let through.
func plain(dst []byte, v exact.Value, t reflect.Type) []byte {
	if t = target(v, t); t == nil {
		return append(dst, v.Raw()...)
	}
	if v.Kind() == exact.Number {
		return append(dst, whole(v, t)...)
	}
	open, end := byte('['), byte(']')
	if v.Kind() == exact.Object {
		open, end = '{', '}'
	}
	begin, n := len(dst), 0
	for m := range members(v, t, "") {
		sep := byte(',')
		if n == 0 {
			sep = open
		}
		dst = append(dst, sep)
		n++
		if open == '{' {
			name, err := json.Marshal(m.name)
			if err != nil {
				return append(dst[:begin], v.Raw()...) // never: a name is a string
			}
			dst = append(append(dst, name...), ':')
		}
		if m.quoted {
			dst = append(dst, m.v.Raw()...)
		} else {
			dst = plain(dst, m.v, m.t)
		}
	}
	if n == 0 || n != v.Len() {
		return append(dst[:begin], v.Raw()...) // a scalar, an empty one, or one that does not go there
	}
	return append(dst, end)
}

// whole is the text of a number for a place of type t.
func whole(v exact.Value, t reflect.Type) string {
	text, err := v.Decimal().String(), error(nil) // short, whatever the exponent
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err = strconv.ParseInt(text, 10, t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		_, err = strconv.ParseUint(text, 10, t.Bits())
	default:
		return v.Raw()
	}
	if err != nil {
		return v.Raw()
	}
	return text
}
