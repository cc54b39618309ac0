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
	if info.Name != "cedar" || info.ConfigSchema == "" {
		t.Fatalf("info: %+v", info)
	}
	if err := c.Validate(map[string]any{"policy": "permit"}, nil); err == nil || !strings.Contains(err.Error(), "policy") {
		t.Errorf("validate: %v", err)
	}
	if v, err := c.Check(t.Context(), call(`{"amount":1}`)); err == nil {
		t.Errorf("after Validate alone: %+v", v)
	}
	if err := c.Configure(json.RawMessage(info.ExampleConfig), nil); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]sdk.Effect{`{"amount":100}`: sdk.Permit, `{"amount":100.01}`: sdk.Abstain,
		`{}`: sdk.Abstain} {
		if v, err := c.Check(t.Context(), call(args)); err != nil || v.Effect != want {
			t.Errorf("%s: %+v, %v; want %v", args, v, err, want)
		}
	}
	test := call(`{"amount":1}`)
	test.AgentID = "test-1"
	if v, err := c.Check(t.Context(), test); err != nil || v.Effect != sdk.Deny || v.RuleID != "no-test-agents" ||
		v.Message == "" {
		t.Errorf("test agent: %+v, %v; want DENY by no-test-agents", v, err)
	}
	if v, err := c.Check(t.Context(), call(`{"amount":0.00001}`)); err != nil || v.Effect != sdk.Deny ||
		v.Code != codeUnfit {
		t.Errorf("0.00001: %+v, %v; want DENY", v, err)
	}
	if err := c.Health(); err != nil {
		t.Error(err)
	}
}

func BenchmarkCheck(b *testing.B) {
	a := configured(b, json.RawMessage(exampleConfig))
	in := call(`{"amount":99.99,"account":"a-1","lines":[{"sku":"x","n":1},{"sku":"y","n":2}]}`)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if v, err := a.Check(b.Context(), in); err != nil || v.Effect != sdk.Permit {
				b.Errorf("%+v, %v", v, err)
				return
			}
		}
	})
}
