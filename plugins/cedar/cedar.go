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
			Name:          "cedar",
			Version:       "1.0.0",
			Description:   "Cedar policies decide calls, evaluated by cedar-go",
			ConfigSchema:  configSchema,
			ExampleConfig: exampleConfig,
		},
		Validate:  a.validate,
		Configure: a.configure,
		Check:     a.check,
		Close:     a.close,
	}
}
