// Package wire owns what travels: request and response types, how JSON becomes a request, how a response becomes JSON,
// and which HTTP status an error code has. Server and clients share it, so neither can drift. It must never decide
// anything, know a transport, or import more than sdk and the standard library. Field tags are the schema that
// /openapi.json is made from: json names the member, yett its rules (required, name), doc is the sentence readers see.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// field is one member of a request type, worked out once per type.
type field struct {
	name     string
	index    int
	required bool
	isName   bool
	filled   bool // a text that is empty is refused: it would be taken for one that is not there
	anyKind  bool // an exact.Value that need not be an object
	one      bool // exactly one of the members that say so is there
	raw      bool // JSON as it was sent: null is a value too
}

var plans sync.Map // reflect.Type → []field

var (
	valueType = reflect.TypeFor[exact.Value]()
	rawType   = reflect.TypeFor[json.RawMessage]()
)

func planOf(t reflect.Type) []field {
	if p, ok := plans.Load(t); ok {
		return p.([]field)
	}
	var plan []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		rules := strings.Split(f.Tag.Get("yett"), ",")
		if slices.Contains(rules, "path") {
			continue // never from a body: see DecodeParams
		}
		plan = append(plan, field{name, i, slices.Contains(rules, "required"), slices.Contains(rules, "name"),
			slices.Contains(rules, "filled"), slices.Contains(rules, "any"), slices.Contains(rules, "one"), f.Type == rawType})
	}
	plans.Store(t, plan)
	return plan
}

// Decode fills dst, a pointer to a request struct, from a parsed object. Unknown members are ignored; a member of the
// wrong type, a missing required one and a name that is too long (nameMax bytes) or not printable is an *sdk.Error.
// Long strings are parts of the parsed text; what may be kept when the request is over, a name or a reason, does not
// keep a long text.
func Decode(v exact.Value, dst any, nameMax int) error {
	if v.Kind() != exact.Object {
		return sdk.Errf(sdk.CodeInvalidField, "the body must be a JSON object, not %v", v.Kind())
	}
	rv := reflect.ValueOf(dst).Elem()
	plan, one := planOf(rv.Type()), ""
	for _, f := range plan {
		m := v.Get(f.name)
		if !m.Exists() || m.Kind() == exact.Null && !f.raw {
			if f.required {
				return sdk.FieldErrf(sdk.CodeMissingField, f.name, "%s is required", f.name)
			}
			continue
		}
		if f.one && one != "" {
			return sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s and %s are both there: send one of %s", one, f.name,
				alternatives(plan))
		}
		if f.one {
			one = f.name
		}
		if err := assign(rv.Field(f.index), m, f, nameMax); err != nil {
			return err
		}
	}
	if i := slices.IndexFunc(plan, func(f field) bool { return f.one }); i >= 0 && one == "" {
		return sdk.FieldErrf(sdk.CodeMissingField, plan[i].name, "one of %s is required", alternatives(plan))
	}
	return nil
}

// alternatives lists the members of which exactly one is there.
func alternatives(plan []field) string {
	var names []string
	for _, f := range plan {
		if f.one {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

func assign(dst reflect.Value, m exact.Value, f field, nameMax int) error {
	wrong := func(want string) error {
		return sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s must be %s, not %v", f.name, want, m.Kind())
	}
	if dst.Type() == valueType {
		if m.Kind() != exact.Object && !f.anyKind {
			return wrong("an object")
		}
		*dst.Addr().Interface().(*exact.Value) = m // reflect.ValueOf would put it on the heap
		return nil
	}
	if f.raw {
		dst.SetBytes([]byte(m.Raw()))
		return nil
	}
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	switch dst.Kind() {
	case reflect.String:
		if m.Kind() != exact.String {
			return wrong("a string")
		}
		s := m.Own()
		if f.filled && s == "" {
			return sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s is empty: leave it out if it is not to limit anything",
				f.name)
		}
		if f.isName {
			if err := CheckName(f.name, s, nameMax, f.required); err != nil {
				return err
			}
		}
		dst.SetString(s)
	case reflect.Bool:
		if m.Kind() != exact.Bool {
			return wrong("true or false")
		}
		dst.SetBool(m.Bool())
	case reflect.Int:
		n, ok := m.Decimal().Int64()
		switch {
		case m.Kind() != exact.Number:
			return wrong("a whole number")
		case !ok:
			return sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s must be a whole number within 64 bits", f.name)
		}
		dst.SetInt(n)
	case reflect.Slice:
		if dst.Type().Elem().Kind() == reflect.Struct {
			return objects(dst, m, f, nameMax)
		}
		list, err := names(m, f, nameMax)
		if err != nil {
			return err
		}
		dst.Set(reflect.ValueOf(list))
	default:
		return fmt.Errorf("wire: no decoder for %v", dst.Type())
	}
	return nil
}

// MaxList bounds a list of names in a request.
const MaxList = 100

// names reads a list of strings.
func names(m exact.Value, f field, nameMax int) ([]string, error) {
	if m.Kind() != exact.Array {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s must be a list of strings, not %v", f.name, m.Kind())
	}
	if m.Len() > MaxList {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s has %d entries, more than the limit of %d", f.name,
			m.Len(), MaxList)
	}
	var list []string
	for i := range m.Len() {
		e := m.Index(i)
		if e.Kind() != exact.String {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s must be a list of strings; entry %d is %v", f.name, i,
				e.Kind())
		}
		if err := CheckName(f.name, e.Str(), nameMax, true); err != nil {
			return nil, err
		}
		list = append(list, e.Own())
	}
	return list, nil
}

// MaxObjects bounds a list of objects in a request.
const MaxObjects = 256

// objects reads a list of objects, each as Decode reads one. An empty list is refused: it would be taken for one that
// is not there.
func objects(dst reflect.Value, m exact.Value, f field, nameMax int) error {
	switch {
	case m.Kind() != exact.Array:
		return sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s must be a list of objects, not %v", f.name, m.Kind())
	case m.Len() == 0:
		return sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s is empty: send at least one entry", f.name)
	case m.Len() > MaxObjects:
		return sdk.FieldErrf(sdk.CodeInvalidField, f.name, "%s has %d entries, more than the limit of %d", f.name, m.Len(),
			MaxObjects)
	}
	list := reflect.MakeSlice(dst.Type(), m.Len(), m.Len())
	i := 0
	for e := range m.Elements() {
		at := fmt.Sprintf("%s[%d]", f.name, i)
		if e.Kind() != exact.Object {
			return sdk.FieldErrf(sdk.CodeInvalidField, at, "%s must be an object, not %v", at, e.Kind())
		}
		if err := Decode(e, list.Index(i).Addr().Interface(), nameMax); err != nil {
			return within(at, err)
		}
		i++
	}
	dst.Set(list)
	return nil
}

// within is an error of an entry of a list, with the entry's place.
func within(at string, err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	return sdk.FieldErrf(e.Code, at+"."+e.Field, "%s: %s", at, e.Msg)
}

// CheckName checks an identifier that a caller made up: at most limit bytes of printable text without bidirectional,
// zero-width or otherwise invisible characters and without a space at either end, so that what a human reads is what
// was matched.
func CheckName(field, s string, limit int, required bool) error {
	switch {
	case required && s == "":
		return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s must not be empty", field)
	case len(s) > limit:
		return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s is %d bytes long, more than the limit of %d (limits.name)",
			field, len(s), limit)
	}
	for i, r := range s {
		if Hidden(r) {
			return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s has a character that cannot be seen (U+%04X at byte %d)",
				field, r, i)
		}
	}
	if strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") { // Hidden has all other white space
		return sdk.FieldErrf(sdk.CodeInvalidField, field,
			"%s begins or ends with a space; nobody can tell it from the name without one", field)
	}
	return nil
}

// Hidden reports whether a character shows nothing, or changes the direction or place of others: controls, formats
// (bidi and zero-width among them), all spaces but the common one, private and unassigned code points, fillers and
// selectors. Whoever shows text from outside makes these visible, and names have none of them.
func Hidden(r rune) bool {
	switch {
	case r >= 0x20 && r < 0x7f:
		return false
	case !unicode.IsPrint(r):
		return true
	}
	// a Braille pattern without dots
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == 0x2800
}
