package main

import (
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

func TestCheck(t *testing.T) {
	c := plugintest.Load(t, authorizer)
	if err := c.Validate(map[string]any{"allow": "all"}, nil); err == nil {
		t.Error("settings are accepted, though it takes none")
	}
	if err := c.Configure(nil, nil); err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]sdk.Effect{"files/delete": sdk.Deny, "files/read": sdk.Abstain,
		"delete": sdk.Abstain} {
		v, err := c.Check(t.Context(), &plugin.Call{ToolID: tool})
		if err != nil || v.Effect != want {
			t.Errorf("%s: %v, %v; want %v", tool, v, err, want)
		}
	}
}
