package main

import (
	_ "embed"

	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/sdk/plugin"
)

//go:embed schema.json
var configSchema string

//go:embed example.json
var exampleConfig string

// newPlugin is the authorizer as Serve takes it.
func newPlugin() plugin.Authorizer {
	return newAuthorizer().Plugin(plugin.Info{
		Name:          "cedar",
		Version:       "1.0.0",
		Description:   "Cedar policies decide calls, evaluated by cedar-go",
		ConfigSchema:  configSchema,
		ExampleConfig: exampleConfig,
	})
}

// authorizer is the plugin's state.
type authorizer = policyfiles.Authorizer[*engine]

func newAuthorizer() *authorizer {
	return policyfiles.New(func(s plugin.Settings) (*policyfiles.Origin[*engine], error) {
		c, err := parse(s)
		if err != nil {
			return nil, err
		}
		return &policyfiles.Origin[*engine]{
			Every: c.every,
			Read:  func() (policyfiles.Source[*engine], error) { return read(c) },
		}, nil
	})
}
