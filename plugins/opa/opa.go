package main

import (
	_ "embed"

	"github.com/yett-dev/yett/sdk/plugin"
)

//go:embed schema.json
var configSchema string

//go:embed example.json
var exampleConfig string

// newPlugin is the authorizer as Serve takes it.
func newPlugin() plugin.Authorizer {
	a := &authorizer{}
	return plugin.Authorizer{
		Info: plugin.Info{
			Name:          "opa",
			Version:       "1.0.0",
			Description:   "Rego policies decide calls, evaluated by Open Policy Agent",
			ConfigSchema:  configSchema,
			ExampleConfig: exampleConfig,
			// Which fields a decision depends on is known to the policy alone, so it is all of them. A decision with a ttl says that
			// it depends on neither the time nor the call's id.
			CacheKeyFields: []string{"key_id", "key_name", "agent_id", "session_id", "tool_id", "operation", "args", "context"},
		},
		Validate:  a.validate,
		Configure: a.configure,
		Check:     a.check,
		Close:     a.close,
	}
}
