package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxSchema is how deep a schema is followed.
const maxSchema = 16

// schema is the part of JSON Schema that clients use for tools and answers. Gemini writes types in capitals.
type schema struct {
	Type       any                        `json:"type"`
	Enum       []json.RawMessage          `json:"enum"`
	Const      json.RawMessage            `json:"const"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
}

// kind is the schema's first type other than null.
func (s *schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return strings.ToLower(t)
	case []any:
		for _, one := range t {
			if word, ok := one.(string); ok && !strings.EqualFold(word, "null") {
				return strings.ToLower(word)
			}
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return ""
}

// smallest makes the smallest JSON value that a schema accepts.
func smallest(raw json.RawMessage, depth int) (json.RawMessage, error) {
	if depth > maxSchema {
		return nil, fmt.Errorf("the schema is nested more than %d deep", maxSchema)
	}
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("the schema is unreadable: %w", err)
	}
	switch {
	case s.Const != nil:
		return s.Const, nil
	case len(s.Enum) > 0:
		return s.Enum[0], nil
	case s.Type == nil && len(s.AnyOf) > 0:
		return smallest(s.AnyOf[0], depth+1)
	}
	switch kind := s.kind(); kind {
	case "object":
		out := map[string]json.RawMessage{}
		for _, name := range s.Required {
			v, err := smallest(s.Properties[name], depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] = v
		}
		return json.Marshal(out)
	case "string":
		return json.RawMessage(`"ok"`), nil
	case "boolean":
		return json.RawMessage(`false`), nil
	case "integer", "number":
		return json.RawMessage(`1`), nil
	case "array":
		return json.RawMessage(`[]`), nil
	default:
		return nil, fmt.Errorf("unknown type %q: expected object, string, boolean, integer, number or array", kind)
	}
}
