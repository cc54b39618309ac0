package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckModule holds the settings of a module (a JSON object) against the JSON Schema that the module declares. A schema
// that is none is the module's fault and an error too. It fetches nothing: references outside the schema are refused.
func CheckModule(schema map[string]any, settings json.RawMessage) error {
	if schema == nil {
		return nil
	}
	if err := checkSchemaWork(schema); err != nil {
		return fmt.Errorf("the module's config_schema %w", err)
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return fmt.Errorf("the config_schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("the config_schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource("module.json", doc); err != nil {
		return fmt.Errorf("the config_schema: %w", err)
	}
	compiled, err := c.Compile("module.json")
	if err != nil {
		return fmt.Errorf("the config_schema: %w", err)
	}
	given, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	if err != nil {
		return fmt.Errorf("the settings: %w", err)
	}
	if err := compiled.Validate(given); err != nil {
		return fmt.Errorf("the settings do not fit the config_schema: %s", misfit(err))
	}
	return nil
}

type noLoader struct{}

// Load refuses every reference: a module must not make the server read files or addresses.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a reference to %s outside the schema", url)
}
