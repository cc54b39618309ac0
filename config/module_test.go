package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckModule(t *testing.T) {
	for _, c := range []struct{ name, schema, settings, wrong string }{
		{"no schema", `null`, `{"x":1}`, ""},
		{"fits", `{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`, `{"n":1}`, ""},
		{"unknown", `{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`, `{"m":1}`, "m"},
		{"wrong type", `{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":"1"}`, "n"},
		{"exact", `{"type":"object","properties":{"n":{"maximum":9007199254740992}}}`, `{"n":9007199254740993}`, "maximum"},
		{"no schema at all", `{"type":"nonsense"}`, `{}`, "config_schema"},
		{"outside", `{"$ref":"file:///etc/passwd"}`, `{}`, "config_schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var schema map[string]any
			if err := json.Unmarshal([]byte(c.schema), &schema); err != nil {
				t.Fatal(err)
			}
			err := CheckModule(schema, json.RawMessage(c.settings))
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("got %v, want an error with %q", err, c.wrong)
			}
		})
	}
}
