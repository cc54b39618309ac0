package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile are schemas that would cost the gateway memory, time or its life, with the place and the reason of refusal.
var hostile = []struct{ name, schema, settings, place, reason string }{
	{"a long pattern", fmt.Sprintf(`{"properties":{"a":{"pattern":%q}}}`, strings.Repeat("a", 1025)), `{}`,
		"#/properties/a/pattern", "has 1025 bytes: at most 1024 are allowed"},
	{"a repeated pattern", `{"properties":{"a":{"pattern":"(abcdefghijabcdefghij){999}"}}}`, `{}`,
		"#/properties/a/pattern", "compiles to about 22977 instructions: at most 10000 are allowed"},
	{"repeats in repeats", `{"pattern":"((abcdefghijabcdefghij){31}){31}"}`, `{}`, "#/pattern", "at most 10000 are allowed"},
	{"large classes", `{"pattern":"\\pL{500}"}`, `{}`, "#/pattern", "at most 10000 are allowed"},
	{"a pattern of names", `{"patternProperties":{"(abcdefghijabcdefghij){999}":{}}}`, `{}`, "#/patternProperties",
		"at most 10000 are allowed"},
	{"propertyNames", `{"propertyNames":{"pattern":"(abcdefghijabcdefghij){999}"}}`, `{}`, "#/propertyNames/pattern",
		"at most 10000"},
	{"$defs", `{"$defs":{"x":{"pattern":"(abcdefghijabcdefghij){999}"}}}`, `{}`, "#/$defs/x/pattern", "at most 10000"},
	{"allOf", `{"allOf":[{},{"pattern":"(abcdefghijabcdefghij){999}"}]}`, `{}`, "#/allOf/1/pattern", "at most 10000"},
	{"an unknown keyword that is referred to", `{"x":{"pattern":"(abcdefghijabcdefghij){999}"},"$ref":"#/x"}`, `{}`,
		"#/x/pattern", "at most 10000"},
	{"many patterns", manyPatterns(250, "(abcdefghij){90}"), `{}`, "#/patternProperties",
		"its regular expressions compile to more than 100000 instructions"},
	{"patterns of one text in many places", sameBelow(200, `{"pattern":"(abcdefghij){90}"}`), `{}`, "/pattern",
		"its regular expressions compile to more than 100000 instructions"},
	{"no expression", `{"properties":{"a":{"pattern":"(a"}}}`, `{}`, "#/properties/a/pattern",
		"invalid regular expression"},
	{"a reference to data", `{"default":{"pattern":"(abcdefghijabcdefghij){999}"},"$ref":"#/default"}`, `{}`, "#/$ref",
		"refers to #/default, which is no schema"},
	{"a reference to names", `{"properties":{"patternProperties":{"(abcdefghijabcdefghij){999}":{}}},"$ref":"#/properties"}`,
		`{}`, "#/$ref", "refers to #/properties, which is no schema"},
	{"patterns tried often", tried(1500, `{"pattern":"(abcdefghij){700}"}`), `{}`, "", "needs more than 10000 steps"},
	{"escaped references that multiply", escaped(30), `{}`, "", "references multiply"},
	{"a schema of another draft", `{"$schema":"http://json-schema.org/draft-04/schema#"}`, `{}`, "#/$schema",
		"use https://json-schema.org/draft/2020-12/schema"},
	{"another draft within", `{"allOf":[{"$schema":"http://json-schema.org/draft-04/schema","id":"http://x/"}]}`, `{}`,
		"#/allOf/0/$schema", "use https"},
	{"a number of too many digits", `{"multipleOf":1e9999999}`, `{}`, "#/multipleOf", "number"},
	{"a small number", `{"properties":{"a":{"minimum":1e-999999}}}`, `{}`, "#/properties/a/minimum", "number"},
	{"numbers to choose from", `{"$schema":"http://json-schema.org/draft-07/schema#","enum":[` +
		strings.Repeat("1e9999999,", 30) + `1]}`, `{}`, "#/enum/0", "number"},
	{"a long number", `{"const":` + strings.Repeat("9", 500) + `}`, `{}`, "#/const", "number"},
	{"many references", `{"x":{` + strings.Join(numbered(1600, `"a%d":{}`), ",") + `},"allOf":[` +
		strings.Join(numbered(1600, `{"$ref":"#/x/a%d"}`), ",") + `]}`, `{}`, "#/allOf/", "use fewer references"},
	{"long names", `{"properties":{"` + strings.Repeat("n", 30_000) + `":{"properties":{` +
		strings.Join(numbered(3000, `"%d":{}`), ",") + `}}}}`, `{}`, "#/properties/nnnn", "has 30000 bytes"},
	{"long paths", strings.Repeat(`{"properties":{"`+strings.Repeat("n", 1000)+`":`, 20) + `{"properties":{` +
		strings.Join(numbered(3000, `"%d":{}`), ",") + `}}` + strings.Repeat("}}", 20), `{}`, "", "paths"},
}

func numbered(n int, format string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// manyPatterns is a schema of n expressions that differ.
func manyPatterns(n int, pattern string) string {
	return `{"patternProperties":{` + strings.Join(numbered(n, `"`+pattern+`%x":{}`), ",") + `}}`
}

// sameBelow is a schema with sub at n places.
func sameBelow(n int, sub string) string {
	return `{"properties":{` + strings.Join(numbered(n, `"p%d":`+sub), ",") + `}}`
}

// tried is a schema that tries sub n times.
func tried(n int, sub string) string {
	return `{"$defs":{"a":` + sub + `},"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/a"},`, n) + `{}]}`
}

// escaped is doubling with references that look as if they led to definitions without any cost.
func escaped(n int) string {
	var real, shown []string
	for i := range n {
		real = append(real, fmt.Sprintf(`"a%d":{"anyOf":[{"$ref":"#/%%24defs/a%d"},{"$ref":"#/%%24defs/a%d"}]}`, i, i+1, i+1))
		shown = append(shown, fmt.Sprintf(`"a%d":true`, i+1))
	}
	return `{"$ref":"#/$defs/a0","$defs":{` + strings.Join(real, ",") + fmt.Sprintf(`,"a%d":false},"%%24defs":{`, n) +
		strings.Join(shown, ",") + `}}`
}

func checkSchemaText(t *testing.T, schema, settings string) error {
	t.Helper()
	var doc map[string]any
	dec := json.NewDecoder(strings.NewReader(schema))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return CheckModule(doc, json.RawMessage(settings))
}

// TestHostileSchemas: each is refused soon, with little memory, and the error says where and why.
func TestHostileSchemas(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			err := checkSchemaText(t, c.schema, c.settings)
			took := time.Since(begin)
			runtime.ReadMemStats(&after)
			var fault *SchemaError
			if !errors.As(err, &fault) || !strings.Contains(fault.Place, c.place) || !strings.Contains(fault.Reason, c.reason) {
				t.Errorf("%.500v, want a refusal at %s because it %s", err, c.place, c.reason)
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 16 || took > 5*time.Second {
				t.Errorf("the refusal took %v and %d MiB", took, made)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestHonestSchemas: what authors write is far below the bounds, even where they write a lot.
func TestHonestSchemas(t *testing.T) {
	for name, schema := range map[string]string{
		"names of people":       sameBelow(10, `{"type":"string","pattern":"^[\\p{L}\\p{N} .'-]{1,64}$"}`),
		"many small patterns":   sameBelow(300, `{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}`),
		"an expression as data": `{"properties":{"a":{"default":{"pattern":"(?<=x)` + strings.Repeat("y", 2000) + `"}}}}`,
		"a field called pattern": `{"properties":{"pattern":{"type":"string"},"default":{"pattern":"^a{1,100}$"},` +
			`"id":{"type":"string"}},"required":[]}`,
		"an older draft":  `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"string"}}}`,
		"the named draft": `{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"a b":{}},"allOf":[{"$ref":"#/$defs/a%20b"}]}`,
		"large numbers":   `{"properties":{"a":{"minimum":-1.7976931348623157e308,"maximum":1.7976931348623157e308}}}`,
		"many settings":   sameBelow(2000, `{"type":"string"}`),
	} {
		if err := checkSchemaText(t, schema, `{}`); err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// TestLargeSettings: what a check makes of settings is bounded before the library begins, and 10 000 plain words fit.
func TestLargeSettings(t *testing.T) {
	if testing.Short() {
		t.Skip("what takes long to check")
	}
	words := func(n, length int) string {
		word := strings.Repeat("w", length)
		return `{"words":[` + strings.Join(numbered(n, `"`+word+`%d"`), ",") + `]}`
	}
	items := func(of string) string { return `{"properties":{"words":{"type":"array","items":` + of + `}}}` }
	never := strings.Repeat("false,", 8999)
	patterns := strings.Join(numbered(300, `{"pattern":"^a%d(b|c){5}$"}`), ",")
	for _, c := range []struct {
		name, schema, settings string
		fits                   bool
	}{
		{"plain words", items(`{"type":"string","minLength":1,"maxLength":256}`), words(10_000, 20), true},
		{"words of one form", items(`{"type":"string","pattern":"^[a-z0-9]{1,64}$"}`), words(10_000, 20), true},
		{"one of 9 000", items(`{"oneOf":[` + never + `false]}`), words(300, 3), false},
		{"any of 4 000, by reference", `{"$defs":{"a":{"anyOf":[` + never[:6*4000] + `{}]}},"properties":{"words":{"items":{"$ref":"#/$defs/a"}}}}`,
			words(300, 3), false},
		{"300 expressions", items(`{"anyOf":[` + patterns + `]}`), words(2_000, 100), false},
		{"names", `{"patternProperties":{` + strings.Join(numbered(400, `"^a%d":{}`), ",") + `}}`,
			"{" + strings.Join(numbered(3_000, `"n%d":1`), ",") + "}", false},
		{"large constants", items(`{"enum":[` + strings.TrimSuffix(strings.Repeat(`[`+strings.Join(numbered(500, "%d"), ",")+`],`, 9), ",") + `]}`),
			`{"words":[` +
				strings.TrimSuffix(strings.Repeat(`[`+strings.Join(numbered(500, "%d"), ",")+`],`, 300), ",") + `]}`, false},
		{"all at once", `{"allOf":[` + items(`{"not":{"contains":{"enum":[`+strings.Join(numbered(4_000, "%d"), ",")+`]}}}`) + `]}`,
			`{"words":[` + strings.TrimSuffix(strings.Repeat(`[1,2],`, 500), ",") + `]}`, false},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := checkSchemaText(t, c.schema, c.settings)
		runtime.ReadMemStats(&after)
		if c.fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "more than 500000 steps") {
			t.Errorf("%s: %.300v", c.name, err)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 64 {
			t.Errorf("%s: %d MiB were allocated", c.name, made)
		}
	}
}

// TestSettingsThatCostMuch: each took seconds or gigabytes, as the library works or as its errors are told.
func TestSettingsThatCostMuch(t *testing.T) {
	list := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	for name, c := range map[string][2]string{
		"many of the wrong type": {`{"properties":{"a":{"items":{"allOf":[` + list(20, `{"type":"string"}`) + `]}}}}`,
			`{"a":[` + strings.Join(numbered(10_000, "%d"), ",") + `]}`},
		"a long number": {`{"properties":{"a":{"allOf":[` + list(20, `{"maximum":3}`) + `]}}}`,
			`{"a":` + strings.Repeat("9", 900_000) + `}`},
		"missing names": {`{"properties":{"a":{"items":{"required":[` + strings.Join(numbered(3000, `"n%d"`), ",") + `]}}}}`,
			`{"a":[` + list(10_000, `{}`) + `]}`},
		"long names": {`{"allOf":[` + list(2000, `{"additionalProperties":false}`) + `]}`,
			`{` + strings.Join(numbered(60, `"`+strings.Repeat("n", 10_000)+`%d":1`), ",") + `}`},
		"sets of members": {`{"unevaluatedProperties":true,"allOf":[` + list(2000, `{"properties":{}}`) + `]}`,
			`{` + strings.Join(numbered(20_000, `"n%d":1`), ",") + `}`},
		"long texts": {`{"properties":{"a":{"allOf":[` + list(2000, `{"maxLength":3}`) + `]}}}`,
			`{"a":"` + strings.Repeat("w", 100_000) + `"}`},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := checkSchemaText(t, c[0], c[1])
		runtime.ReadMemStats(&after)
		if err == nil || len(err.Error()) > 5000 {
			t.Errorf("%s: %.300v", name, err)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 64 {
			t.Errorf("%s: %d MiB", name, made)
		}
	}
}

// TestSettingsNumbers: a number that cannot be compared is refused, not looked at.
func TestSettingsNumbers(t *testing.T) {
	for _, settings := range []string{`{"a":1e9999999}`, `{"a":[` + strings.Repeat("1e9999999,", 30) + `1]}`} {
		err := checkSchemaText(t, `{"properties":{"a":{"minimum":1,"uniqueItems":true}}}`, settings)
		var fault *SchemaError
		if err == nil || errors.As(err, &fault) || !strings.Contains(err.Error(), "config.a") {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// TestSchemasAtTheBounds: what is just allowed costs little, as the library works today.
func TestSchemasAtTheBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("what takes long to compile")
	}
	for name, schema := range map[string]string{
		"large expressions":  manyPatterns(10, "(abcdefghij){700}"),
		"classes":            manyPatterns(16, "(?i)^"+strings.Repeat(`\\pL`, 70)),
		"alternated classes": manyPatterns(200, "(?:"+strings.Repeat(`\\pL|`, 5)+"){1}"),
		"many places":        sameBelow(3300, `{"not":{}}`),
		"long paths":         `{"properties":{"` + strings.Repeat("n", 900) + `":` + sameBelow(1000, "{}") + `}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := checkSchemaText(t, schema, `{"a":"x"}`); err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
		runtime.ReadMemStats(&after)
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 200 {
			t.Errorf("%s: %d MiB were allocated, all in all", name, made)
		}
	}
}

// TestLargeEnum: a message does not repeat all that an author lists.
func TestLargeEnum(t *testing.T) {
	err := checkSchemaText(t, `{"enum":[`+strings.Join(numbered(5000, `"value %d"`), ",")+`]}`, `{}`)
	if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), `must be one of value 0, value 1, `) {
		t.Errorf("%.2000v", err)
	}
}

// TestSchemaErrorsSayWhereAndWhat: no error speaks of a file, of the library's words or of settings.
func TestSchemaErrorsSayWhereAndWhat(t *testing.T) {
	const end = "; the schema itself must change, no settings can mend it"
	for schema, want := range map[string]string{
		`{"$ref":"#"}`: "config_schema is invalid at #/$ref: refers to itself",
		`{"allOf":[{"$dynamicRef":"#x"}]}`: "config_schema is invalid at #/allOf/0/$dynamicRef: $dynamicRef is not " +
			"supported: use $ref to a place in the schema itself, such as #/$defs/name",
		`{"properties":{"a/b":{"multipleOf":0}}}`: "config_schema is invalid at #/properties/a~1b/multipleOf: must be above 0, " +
			"got 0 (a number too small for 64 bits is read as 0)",
		`{"properties":{"a":{"type":"text"}}}`: "config_schema is invalid at #/properties/a/type: must be one of array, " +
			"boolean, integer, null, number, object, string",
		`{"patternProperties":{"(a":{}}}`: "config_schema is invalid at #/patternProperties: invalid regular expression " +
			"(RE2 syntax): error parsing regexp: missing closing ): `(a`",
		`{"x":{"y":{"maxLength":-1}},"$ref":"#/x/y"}`: "config_schema is invalid at #/x/y/maxLength: must be at least 0, got -1",
	} {
		if err := checkSchemaText(t, schema, `{}`); err == nil || err.Error() != want+end {
			t.Errorf("%s:\n%v, want\n%s", schema, err, want+end)
		}
	}
}
