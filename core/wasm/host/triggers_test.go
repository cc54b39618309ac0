package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/sdk/abi"
)

const wordsSchema = `{"type":"object","properties":{"words":{"type":"array","items":{"type":"string"}},"lists":{"type":"object","properties":{` +
	`"names":{"type":"array","items":{"type":"string"}}}},"n":{"type":"array","items":{"type":"integer"}},"ref":{"$ref":"#/properties/words"}}}`

// wordsMeta is metadata with lists of triggers.
func wordsMeta(from, stream string) string {
	return `{"name":"test","version":"1","abi":1,"kinds":[{"name":"TEST_KIND","severity":3}],"config_schema":` +
		wordsSchema +
		`,"stream":` + stream + `,"needs":{},"triggers":[{"literal":"!"},{"class":"digits","min":3}],"triggers_from":` +
		from + `}`
}

// TestTriggersFromAdmission: a list that the settings cannot have is no list of triggers.
func TestTriggersFromAdmission(t *testing.T) {
	for from, why := range map[string]string{
		`[{"path":"/words","fold":true},{"path":"/lists/names"}]`: "",
		`[]`:                      "",
		`[{"path":"/word"}]`:      "config_schema has no list of strings there",
		`[{"path":"/n"}]`:         "config_schema has no list of strings there",
		`[{"path":"/lists"}]`:     "config_schema has no list of strings there",
		`[{"path":"/ref"}]`:       "without $ref",
		`[{"path":"/words/0"}]`:   "config_schema has no list of strings there",
		`[{"path":"words"}]`:      "each after a slash",
		`[{"path":""}]`:           "each after a slash",
		`[{"path":"/a/b/c/d/e"}]`: "1 to 4 names",
		`[{"path":"/words"},{"path":"/words","fold":true}]`:                   "twice",
		`[{"path":"/words","min":3}]`:                                         "unknown field",
		`[` + strings.Repeat(`{"path":"/words"},`, 16) + `{"path":"/words"}]`: "at most 16",
	} {
		_, err := readMetadata([]byte(wordsMeta(from, `{"mode":"none"}`)), true)
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want …%s…", from, err, why)
		}
	}
	bare := strings.Replace(wordsMeta(`[{"path":"/words"}]`, `{"mode":"none"}`), `"config_schema":`+wordsSchema+",", "", 1)
	if _, err := readMetadata([]byte(bare), true); err == nil ||
		!strings.Contains(err.Error(), "config_schema has no list") {
		t.Errorf("without a schema: %v", err)
	}
}

// TestTriggersFromSettings: entries are numbered behind the module's own triggers, and what cannot be a trigger is
// named.
func TestTriggersFromSettings(t *testing.T) {
	ctx := context.Background()
	host, err := New(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(ctx)
	load := func(stream, config string) ([]abi.Trigger, error) {
		g := wasmgen.Finder()
		g.Meta = wordsMeta(`[{"path":"/words","fold":true},{"path":"/lists/names"}]`, stream)
		m, err := host.Load(ctx, Spec{Name: "m", Code: g.Encode(), Config: json.RawMessage(config), Instances: 1})
		if err != nil {
			return nil, err
		}
		return m.Triggers(), m.Close(ctx)
	}
	own := []abi.Trigger{{Literal: "!"}, {Class: "digits", Min: 3}}
	for config, want := range map[string][]abi.Trigger{
		"":                    nil,
		`{}`:                  nil,
		`{"lists":{}}`:        nil,
		`{"words":[]}`:        nil,
		`{"words":["b","a"]}`: {{Literal: "b", Fold: true}, {Literal: "a", Fold: true}},
		`{"words":["a","a"],"lists":{"names":["日本","a"]}}`: {{Literal: "a", Fold: true}, {Literal: "a", Fold: true}, {Literal: "日本"}, {Literal: "a"}},
	} {
		got, err := load(`{"mode":"none"}`, config)
		if err != nil || !slices.Equal(got, append(slices.Clone(own), want...)) {
			t.Errorf("%s: %v %v", config, got, err)
		}
	}
	many := func(n int, field string) string {
		list, err := json.Marshal(slices.Repeat([]string{"word"}, n))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(field, list)
	}
	if got, err := load(`{"mode":"none"}`, many(abi.MaxConfigTriggers, `{"words":%s}`)); err != nil ||
		len(got) != abi.MaxConfigTriggers+2 {
		t.Errorf("%d: %v", len(got), err)
	}
	for config, why := range map[string]string{
		`{"words":["a",""]}`: "words[1] is empty",
		`{"words":[1]}`:      "words[0] is no string",
		`{"words":null,"lists":{"names":["a","b","` + strings.Repeat("é", 129) + `"]}}`: "lists.names[2] has 258 bytes",
		`{"words":"a"}`:   "words: want a list of strings",
		`{"lists":["a"]}`: "lists.names: want a list of strings",
		many(abi.MaxConfigTriggers+1, `{"words":%s}`):                       "words: 10001 entries: at most 10000",
		many(abi.MaxConfigTriggers, `{"lists":{"names":%s},"words":["a"]}`): "lists.names: 10000 entries: at most 10000",
	} {
		if _, err := load(`{"mode":"none"}`, config); err == nil || !IsConfig(err) ||
			!strings.Contains(err.Error(), "config: "+why) {
			t.Errorf("%.60s: %v, want …%s…", config, err, why)
		}
	}
	if _, err := load(`{"mode":"window","lookbehind":4}`, `{"words":["12345"]}`); err == nil ||
		!strings.Contains(err.Error(), "words[0] has 5 bytes: the module looks back 4") {
		t.Errorf("longer than what a stream keeps: %v", err)
	}
	var refused *ConfigError
	if _, err := load(`{"mode":"none"}`, `{"words":[""]}`); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	if got := CasedBeyondASCII([]abi.Trigger{{Literal: "É"}, {Literal: "日本1", Fold: true},
		{Literal: "aé", Fold: true}}); got != "aé" {
		t.Errorf("%q", got)
	}
}
