package main

import (
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// The plugin as the host sees it: with its example settings it abstains from everything.
func TestOverGRPC(t *testing.T) {
	c := plugintest.Load(t, newPlugin())
	info := c.Info()
	if err := c.Validate(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Configure(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Check(t.Context(), call()); err != nil || v.Effect != sdk.Abstain {
		t.Fatalf("%+v, %v", v, err)
	}
}
