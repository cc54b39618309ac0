package remotetest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// ExampleRuns runs the plugin with its example as it is, which takes a batch in and is well.
func ExampleRuns(t *testing.T, s plugin.Subscriber) {
	t.Helper()
	p := plugintest.Load(t, s)
	info := p.Info()
	if err := p.Validate(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Configure(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	var log plugintest.Log
	if acked, err := p.Consume(t.Context(), log.Append(`{"seq":1}`, `{"seq":2}`)); err != nil || acked != 2 {
		t.Errorf("%d acknowledged, %v", acked, err)
	}
	if err := p.Health(); err != nil {
		t.Error(err)
	}
}

// SchemaHas wants the schema and the code to know the same settings. config is the struct that settings are read into.
func SchemaHas(t *testing.T, schema string, config reflect.Type) {
	t.Helper()
	var s struct {
		Closed     *bool `json:"additionalProperties"`
		Properties map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	if s.Closed == nil || *s.Closed {
		t.Error("the schema takes unknown settings")
	}
	for i := range config.NumField() {
		name := config.Field(i).Tag.Get("json")
		if _, ok := s.Properties[name]; !ok {
			t.Errorf("%s is not in the schema", name)
		}
		delete(s.Properties, name)
	}
	for name := range s.Properties {
		t.Errorf("%s is in the schema only", name)
	}
}
