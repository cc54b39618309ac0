package plugin

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// wrongCase finds a member whose name fits a field of dst in another case only. encoding/json would take it, so that "Limit"
// and "limit" could both be given, and the last one would hold. nil: there is none.
func wrongCase(v exact.Value, dst any) *Problem {
	return wrongCaseIn(v, reflect.TypeOf(dst), "")
}

func wrongCaseIn(v exact.Value, t reflect.Type, at string) *Problem {
	own := reflect.TypeFor[json.Unmarshaler]()
	for t != nil && t.Kind() == reflect.Pointer && !t.Implements(own) {
		t = t.Elem()
	}
	if t == nil || t.Implements(own) || reflect.PointerTo(t).Implements(own) {
		return nil
	}
	switch {
	case v.Kind() == exact.Object && t.Kind() == reflect.Struct:
		fields := map[string]reflect.Type{}
		jsonFields(t, fields)
		for name, member := range v.Members() {
			inner, ok := fields[name]
			if !ok {
				for field := range fields {
					if strings.EqualFold(field, name) {
						return &Problem{at + "/" + name, "unknown member; " + field + " is one"}
					}
				}
				return &Problem{at + "/" + name, "unknown member"}
			}
			if p := wrongCaseIn(member, inner, at+"/"+name); p != nil {
				return p
			}
		}
	case v.Kind() == exact.Object && t.Kind() == reflect.Map:
		for name, member := range v.Members() {
			if p := wrongCaseIn(member, t.Elem(), at+"/"+name); p != nil {
				return p
			}
		}
	case v.Kind() == exact.Array && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		i := 0
		for member := range v.Elements() {
			if p := wrongCaseIn(member, t.Elem(), at+"/"+strconv.Itoa(i)); p != nil {
				return p
			}
			i++
		}
	}
	return nil
}

// jsonFields gathers the names under which encoding/json fills a struct.
func jsonFields(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				jsonFields(inner, into)
			}
		case !f.IsExported():
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
}
