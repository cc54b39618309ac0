package main

import (
	_ "embed"
	"log/slog"

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
		Name:          "opa",
		Version:       "1.0.0",
		Description:   "Rego policies decide calls, evaluated by Open Policy Agent",
		ConfigSchema:  configSchema,
		ExampleConfig: exampleConfig,
		// Which fields a decision depends on is known to the policy alone, so it is all of them. A decision with a ttl says
		// that it depends on neither the time nor the call's id.
		CacheKeyFields: []string{"key_id", "key_name", "agent_id", "session_id", "tool_id", "operation", "args", "context"},
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
			Field: c.sourceField(), Every: c.every, Tell: tellUnread,
			Read: func() (policyfiles.Source[*engine], error) { return read(c) },
		}, nil
	})
}

// sourceField is the member of the settings that policies come from.
func (c *config) sourceField() string {
	switch {
	case c.Policy != "":
		return "/policy"
	case c.Bundle != "":
		return "/bundle"
	}
	return "/paths"
}

// tellUnread warns of files that look like data and are none.
func tellUnread(log *slog.Logger, e *engine) {
	if n := len(e.unread); n > 0 {
		log.Warn("files are not read: data is what is in data.json, data.yaml or data.yml, under the path of its directory",
			"files", n, "first", e.unread[0])
	}
}
