package strict

import (
	"encoding/json"
	"reflect"
)

// Schema gives the JSON Schema (2020-12) of a file that is read into root, a struct, for editors. It describes keys,
// types, choices and limits, not what keys mean together.
func Schema(root any, title string) []byte {
	s := sectionSchema(reflect.TypeOf(root))
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = title
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("strict: " + err.Error())
	}
	return append(out, '\n')
}

func sectionSchema(t reflect.Type) map[string]any {
	props, required := map[string]any{}, []string{}
	for _, f := range fieldsOf(t) {
		p := schemaOf(f, f.typ)
		p["description"] = f.doc
		if f.hasDef {
			p["default"] = json.RawMessage(schemaDefault(f))
		}
		props[f.key] = p
		if f.required {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func schemaDefault(f field) []byte {
	switch f.typ.Kind() {
	case reflect.Int, reflect.Bool, reflect.Float64:
		return []byte(f.def)
	}
	return encode(f.def)
}

func schemaOf(f field, t reflect.Type) map[string]any {
	switch {
	case t == valuesType:
		return map[string]any{"type": "object"}
	case t == sizeType:
		return map[string]any{"type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB|TiB)$"}
	case t == durationType:
		return map[string]any{"type": "string", "pattern": "^([0-9]+(d|h|m|s|ms|us|ns))+$"}
	case isSection(t):
		return sectionSchema(t)
	}
	switch t.Kind() {
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": sectionSchema(t.Elem()),
			"propertyNames": map[string]any{"pattern": nameForm.String()}}
	case reflect.Slice:
		if t.Elem() == portType {
			return map[string]any{"anyOf": []any{map[string]any{"const": "none"},
				map[string]any{"type": "array", "minItems": 1, "maxItems": f.most,
					"items": map[string]any{"type": "integer", "minimum": 1, "maximum": 65535}}}}
		}
		s := map[string]any{"type": "array", "items": schemaOf(f, t.Elem())}
		if !f.emptyOK {
			s["minItems"] = 1
		}
		return s
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return numberSchema(f, "integer")
	case reflect.Float64:
		return numberSchema(f, "number")
	}
	return textSchema(f)
}

func numberSchema(f field, kind string) map[string]any {
	s := map[string]any{"type": kind}
	for name, limit := range map[string]string{"minimum": f.min, "maximum": f.max} {
		if limit != "" {
			s[name] = json.RawMessage(limit)
		}
	}
	if f.enum != nil {
		var list []json.RawMessage
		for _, e := range f.enum {
			list = append(list, json.RawMessage(e))
		}
		s["enum"] = list
	}
	return s
}

func textSchema(f field) map[string]any {
	s := map[string]any{"type": "string", "maxLength": f.maxLen}
	if f.enum != nil {
		return map[string]any{"type": "string", "enum": f.enum}
	}
	if f.form.Pattern != "" {
		s["pattern"] = f.form.Pattern
	}
	return s
}
