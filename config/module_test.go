package config

import (
	"encoding/json"
	"fmt"
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
		{"outside", `{"$ref":"file:///etc/passwd"}`, `{}`, "only a place in the schema itself"},
		{"a reference", `{"$defs":{"n":{"type":"integer"}},"properties":{"n":{"$ref":"#/$defs/n"}}}`, `{"n":"1"}`, "n"},
		{"a reference to nowhere", `{"$ref":"#/$defs/n"}`, `{}`, "not there"},
		{"a reference to itself", `{"$defs":{"n":{"not":{"$ref":"#/$defs/n"}}},"$ref":"#/$defs/n"}`, `{}`, "refers to itself"},
		{"references that multiply", doubling(40), `{}`, "references multiply"},
		{"references that multiply a little", doubling(5), `{}`, ""},
		{"an id", `{"$id":"https://example.com/x"}`, `{}`, "$id"},
		{"a dynamic reference", `{"$dynamicRef":"#x"}`, `{}`, "$dynamicRef"},
		{"deep", strings.Repeat(`{"not":`, 100) + "true" + strings.Repeat("}", 100), `{}`, "nests deeper"},
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

// doubling is a schema of n definitions, each of which is tried twice for every try of the one before.
func doubling(n int) string {
	defs := make([]string, n+1)
	for i := range n {
		defs[i] = fmt.Sprintf(`"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
	}
	defs[n] = fmt.Sprintf(`"a%d":{"type":"object"}`, n)
	return `{"$ref":"#/$defs/a0","$defs":{` + strings.Join(defs, ",") + `}}`
}
