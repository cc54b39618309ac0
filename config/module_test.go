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
		{"exact", `{"type":"object","properties":{"n":{"maximum":9007199254740992}}}`, `{"n":9007199254740993}`, "at most 9007199254740992"},
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

// TestSettingsErrorsSayWhatToWrite: the field, what was expected there, and of several forms the one that was meant.
func TestSettingsErrorsSayWhatToWrite(t *testing.T) {
	const to = `{"type":"object","properties":{"to":{"type":"array","items":{"oneOf":[` +
		`{"type":"object","properties":{"type":{"const":"slack"},"url":{"type":"string","minLength":1}},"required":["type","url"],"additionalProperties":false},` +
		`{"type":"object","properties":{"type":{"const":"mail"},"address":{"type":"string"},"port":{"type":"integer","minimum":1,"maximum":65535}},"required":["type","address"],"additionalProperties":false},` +
		`{"type":"string"}]}}},"required":["to"],"additionalProperties":false}`
	for _, c := range []struct{ schema, settings, want string }{
		{to, `{}`, `config: missing "to"`},
		{to, `{"too":[],"to":[]}`, `config: unknown "too"`},
		{to, `{"to":"x"}`, `config.to: expected array, got string`},
		{to, `{"to":[{"type":"mail"}]}`, `config.to[0]: missing "address"`},
		{to, `{"to":["a",{"type":"slack","url":7}]}`, `config.to[1].url: expected string, got number`},
		{to, `{"to":[{"type":"slack","url":"u","port":1}]}`, `config.to[0]: unknown "port"`},
		{to, `{"to":[{"type":"mail","address":"a","port":0}]}`, `config.to[0].port: must be at least 1, got 0`},
		{`{"properties":{"x":{"enum":["a","b"]}}}`, `{"x":"c"}`, `config.x: must be one of a, b`},
		{`{"properties":{"x":{"anyOf":[{"type":"string"},{"type":"integer","maximum":5}]}}}`, `{"x":9}`, `config.x: must be at most 5, got 9`},
		{`{"properties":{"x":{"pattern":"^a"}}}`, `{"x":"b"}`, `config.x: must match ^a`},
	} {
		var schema map[string]any
		if err := json.Unmarshal([]byte(c.schema), &schema); err != nil {
			t.Fatal(err)
		}
		err := CheckModule(schema, json.RawMessage(c.settings))
		if want := "the settings do not fit the config_schema: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", c.settings, err, want)
		}
	}
}
