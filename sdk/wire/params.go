package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// Param is one value of a request that came in the path or in the query, decoded. Members of request types take them
// when their yett tag says path or query.
type Param struct {
	Name   string
	Value  string
	InPath bool
}

// Params are the members of a request type that come from elsewhere than the body.
type Params struct {
	Path, Query []string
	Body        bool // there are members that a body brings
	NeedsBody   bool // and one of them is required
}

// param is one member that a path or a query fills.
type param struct {
	field
	inPath bool
}

var paramPlans sync.Map // reflect.Type → []param

func paramsOf(t reflect.Type) []param {
	if p, ok := paramPlans.Load(t); ok {
		return p.([]param)
	}
	var plan []param
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		rules := strings.Split(f.Tag.Get("yett"), ",")
		inPath, inQuery := slices.Contains(rules, "path"), slices.Contains(rules, "query")
		if inPath || inQuery {
			plan = append(plan, param{field{name: name, index: i, required: slices.Contains(rules, "required"),
				isName: slices.Contains(rules, "name")}, inPath})
		}
	}
	paramPlans.Store(t, plan)
	return plan
}

// ParamsOf says where the members of a request type come from. t must be a struct type.
func ParamsOf(t reflect.Type) Params {
	var out Params
	for _, p := range paramsOf(t) {
		if p.inPath {
			out.Path = append(out.Path, p.name)
		} else {
			out.Query = append(out.Query, p.name)
		}
	}
	for _, f := range planOf(t) {
		if slices.Contains(out.Query, f.name) {
			continue
		}
		out.Body = true
		out.NeedsBody = out.NeedsBody || f.required
	}
	return out
}

// DecodeParams fills the members of dst, a pointer to a request struct, that their tags say come from the path or the
// query. Names that no member has are ignored; a name given twice, a value of the wrong type, text that is no UTF-8 and
// a required member that is missing are an *sdk.Error naming the member.
func DecodeParams(params []Param, dst any, nameMax int) error {
	rv := reflect.ValueOf(dst).Elem()
	for _, p := range paramsOf(rv.Type()) {
		value, found := "", false
		for i := range params {
			if params[i].Name != p.name || params[i].InPath != p.inPath {
				continue
			}
			if found {
				return sdk.FieldErrf(sdk.CodeInvalidField, p.name, "%s is in the query twice", p.name)
			}
			value, found = params[i].Value, true
		}
		if !found {
			if p.required && rv.Field(p.index).IsZero() {
				return sdk.FieldErrf(sdk.CodeMissingField, p.name, "%s is required", p.name)
			}
			continue
		}
		if err := p.assign(rv.Field(p.index), value, nameMax); err != nil {
			return err
		}
	}
	return nil
}

func (p *param) assign(dst reflect.Value, value string, nameMax int) error {
	wrong := func(want string) error {
		return sdk.FieldErrf(sdk.CodeInvalidField, p.name, "%s must be %s", p.name, want)
	}
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	switch dst.Kind() {
	case reflect.String:
		if !utf8.ValidString(value) {
			return wrong("UTF-8 text")
		}
		if p.isName {
			if err := CheckName(p.name, value, nameMax, p.required); err != nil {
				return err
			}
		}
		dst.SetString(value)
	case reflect.Int:
		n, err := strconv.Atoi(value)
		if err != nil || value != strconv.Itoa(n) {
			return wrong("a whole number")
		}
		dst.SetInt(int64(n))
	case reflect.Bool:
		if value != "true" && value != "false" {
			return wrong("true or false")
		}
		dst.SetBool(value == "true")
	default:
		return fmt.Errorf("wire: no decoder for %v in a path or a query", dst.Type())
	}
	return nil
}
