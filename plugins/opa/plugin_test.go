package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// Over the protocol: the example runs as it is, and what Check returns is what the gateway gets.
func TestOverTheProtocol(t *testing.T) {
	c := plugintest.Load(t, newPlugin())
	info := c.Info()
	if info.Name != "opa" || info.ConfigSchema == "" {
		t.Fatalf("info: %+v", info)
	}
	if err := c.Validate(map[string]any{"policy": "package x"}, nil); err == nil ||
		!strings.Contains(err.Error(), "nothing in the policies defines") {
		t.Errorf("validate: %v", err)
	}
	if v, err := c.Check(t.Context(), call(`{"amount":1}`)); err == nil {
		t.Errorf("after Validate alone: %+v", v)
	}
	if err := c.Configure(json.RawMessage(info.ExampleConfig), nil); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Check(t.Context(), call(`{"amount":100}`)); err != nil || v.Effect != sdk.Abstain {
		t.Errorf("100: %+v, %v; want ABSTAIN", v, err)
	}
	if v, err := c.Check(t.Context(), call(`{"amount":100.01}`)); err != nil || v.Effect != sdk.Defer ||
		v.RuleID != "large-refund" {
		t.Errorf("100.01: %+v, %v; want DEFER by large-refund", v, err)
	}
	if v, err := c.Check(t.Context(), call(`{"amount":1e999999}`)); err == nil || v.Effect == sdk.Permit {
		t.Errorf("1e999999: %+v, %v; want an error", v, err)
	}
	if err := c.Health(); err != nil {
		t.Error(err)
	}
}

func BenchmarkCheck(b *testing.B) {
	a := configured(b, json.RawMessage(exampleConfig))
	in := call(`{"amount":100.01,"account":"a-1","lines":[{"sku":"x","n":1},{"sku":"y","n":2}]}`)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if v, err := a.Check(b.Context(), in); err != nil || v.Effect != sdk.Defer {
				b.Errorf("%+v, %v", v, err)
				return
			}
		}
	})
}
