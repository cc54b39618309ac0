package client

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"github.com/yett-dev/yett/sdk/exact"
)

// maxAnswer bounds one answer, line or event, bytes.
const maxAnswer = 16 << 20

// answerLimits bound what one answer may cost to read.
var answerLimits = exact.Limits{Depth: 128, Tokens: 1 << 20}

// parse reads one answer strictly: an object without duplicate names, and nothing behind it.
func parse(text string) (exact.Value, error) {
	if len(text) > maxAnswer {
		return exact.Value{}, malformed("%d bytes, more than the limit of %d", len(text), maxAnswer)
	}
	doc := new(exact.Doc)
	if err := doc.Parse(text, answerLimits); err != nil {
		return exact.Value{}, malformed("%v", err)
	}
	if k := doc.Root().Kind(); k != exact.Object {
		return exact.Value{}, malformed("%v instead of an object", k)
	}
	return doc.Root(), nil
}

// member is one member of an answer type, worked out once per type.
type member struct {
	name string
	at   []int // path of field indexes, for embedded structs
}

var plans sync.Map // reflect.Type → []member

func planOf(t reflect.Type) []member {
	if p, ok := plans.Load(t); ok {
		return p.([]member)
	}
	var plan []member
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "" && name != "-" {
			plan = append(plan, member{name, f.Index})
		}
	}
	plans.Store(t, plan)
	return plan
}

var rawType = reflect.TypeFor[json.RawMessage]()

// into fills dst, a pointer to a struct, from an object. Unknown members are ignored and null counts as absent; a
// member of the wrong type makes the whole answer malformed.
func into(v exact.Value, dst any) error {
	return fill(v, reflect.ValueOf(dst).Elem(), "")
}

func fill(v exact.Value, dst reflect.Value, where string) error {
	if dst.Type() == rawType {
		dst.SetBytes([]byte(v.Raw()))
		return nil
	}
	switch dst.Kind() {
	case reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		return fill(v, dst.Elem(), where)
	case reflect.Struct:
		return fillStruct(v, dst, where)
	case reflect.Slice:
		return fillSlice(v, dst, where)
	}
	return fillScalar(v, dst, where)
}

func fillStruct(v exact.Value, dst reflect.Value, where string) error {
	if v.Kind() != exact.Object {
		return malformed("%s is %v, not an object", where, v.Kind())
	}
	for _, m := range planOf(dst.Type()) {
		in := v.Get(m.name)
		if !in.Exists() || in.Kind() == exact.Null {
			continue
		}
		if err := fill(in, dst.FieldByIndex(m.at), strings.TrimPrefix(where+"."+m.name, ".")); err != nil {
			return err
		}
	}
	return nil
}

func fillSlice(v exact.Value, dst reflect.Value, where string) error {
	if v.Kind() != exact.Array {
		return malformed("%s is %v, not an array", where, v.Kind())
	}
	list := reflect.MakeSlice(dst.Type(), v.Len(), v.Len())
	i := 0
	for e := range v.Elements() {
		if err := fill(e, list.Index(i), where+"[]"); err != nil {
			return err
		}
		i++
	}
	dst.Set(list)
	return nil
}

func fillScalar(v exact.Value, dst reflect.Value, where string) error {
	switch kind := v.Kind(); {
	case dst.Kind() == reflect.String && kind == exact.String:
		dst.SetString(v.Str())
	case dst.Kind() == reflect.Bool && kind == exact.Bool:
		dst.SetBool(v.Bool())
	case dst.CanInt() && kind == exact.Number:
		n, ok := v.Decimal().Int64()
		if !ok || dst.OverflowInt(n) {
			return malformed("%s is not a whole number in range", where)
		}
		dst.SetInt(n)
	case dst.CanUint() && kind == exact.Number:
		n, ok := v.Decimal().Int64()
		if !ok || n < 0 || dst.OverflowUint(uint64(n)) {
			return malformed("%s is not a whole number in range", where)
		}
		dst.SetUint(uint64(n))
	case dst.CanFloat() && kind == exact.Number:
		f, err := json.Number(v.Raw()).Float64()
		if err != nil {
			return malformed("%s is no number in range", where)
		}
		dst.SetFloat(f)
	default:
		return malformed("%s is %v, which it must not be", where, kind)
	}
	return nil
}

// text is a member that must be there and must be a string with something in it.
func text(v exact.Value, name string) (string, error) {
	m := v.Get(name)
	if m.Kind() != exact.String || m.Str() == "" {
		return "", malformed("%s is missing, empty or no string", name)
	}
	return m.Str(), nil
}

// oneOf is a member that must be there and be one of the words.
func oneOf(v exact.Value, name string, words ...string) (string, error) {
	got, err := text(v, name)
	if err != nil {
		return "", err
	}
	for _, w := range words {
		if got == w {
			return got, nil
		}
	}
	return "", malformed("%s has a value that it never has", name)
}
