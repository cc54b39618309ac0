package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckModule holds the settings of a module (a JSON object) against the JSON Schema that the module declares. A fault
// of the schema itself is a *SchemaError. It fetches nothing: references outside the schema are refused.
func CheckModule(schema map[string]any, settings json.RawMessage) error {
	if schema == nil {
		return nil
	}
	work, err := checkSchemaWork(schema)
	if err != nil {
		return err
	}
	compiled, err := compileModuleSchema(schema)
	if err != nil {
		return libraryFault(err)
	}
	given, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	if err != nil {
		return fmt.Errorf("the settings: %w", err)
	}
	if err := (&settingsWork{schema: work}).walk(schema, given); err != nil {
		return err
	}
	err = checkNumbers(given, "config") // before the library computes with them
	if err == nil {
		err = compiled.Validate(given)
	}
	if err != nil {
		return fmt.Errorf("the settings do not fit the config_schema: %s", misfit(err))
	}
	return nil
}

// FitsSchema reports whether a JSON value fits a JSON schema that somebody else wrote. It is false where the schema
// cannot be read, is too costly, or refers to anything outside itself.
func FitsSchema(schema, value string) bool {
	read, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return false
	}
	object, ok := read.(map[string]any)
	return ok && CheckModule(object, json.RawMessage(value)) == nil
}

func compileModuleSchema(schema map[string]any) (*jsonschema.Schema, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(boundedExpression)
	const name = "urn:yett:config_schema" // no file: the library would put the working directory before its name
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// checkNumbers refuses settings that the library cannot compare.
func checkNumbers(v any, field string) error {
	switch v := v.(type) {
	case json.Number:
		if err := checkNumber(v); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	case []any:
		for i, sub := range v {
			if err := checkNumbers(sub, fmt.Sprintf("%s[%d]", field, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := checkNumbers(v[key], field+"."+key); err != nil {
				return err
			}
		}
	}
	return nil
}

type noLoader struct{}

// Load refuses every reference: a module must not make the server read files or addresses.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a reference to %s outside the schema", url)
}
