package admin

import (
	"context"
	"path/filepath"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
)

// AgentKeys makes and revokes the keys of coding agents, by the admin socket of the gateway on this machine.
type AgentKeys struct {
	target
	name string
}

// OpenAgentKeys names the gateway, by its data directory or its configuration. It is not asked anything yet.
func OpenAgentKeys(data, config string) (*AgentKeys, error) {
	if data != "" && config != "" {
		return nil, cli.Usage("give --data or --config, not both")
	}
	name, err := filepath.Abs(data + config)
	return &AgentKeys{target{data, config}, name}, err
}

// Name is the absolute path that the gateway is found by.
func (k *AgentKeys) Name() string { return k.name }

// Socket is the path of the agents' socket, "" if it is off.
func (k *AgentKeys) Socket(ctx context.Context) (socket string, err error) {
	err = k.with(func(c *admin.Client) error {
		var status struct{ Socket string }
		if err := c.Do(ctx, "GET", "/status", nil, &status); err != nil || status.Socket == "" {
			return err
		}
		socket, err = filepath.Abs(status.Socket)
		return err
	})
	return socket, err
}

// CreateKey makes a key with the scopes of an agent, for agents of these names.
func (k *AgentKeys) CreateKey(ctx context.Context, name string, agents []string) (id, value string, err error) {
	err = k.with(func(c *admin.Client) error {
		var made admin.NewKey
		in := admin.CreateRequest{Name: name, Preset: "agent", Agents: agents, Note: "made by yett connect"}
		err := c.Do(ctx, "POST", "/keys", in, &made)
		id, value = made.ID, made.Key
		return err
	})
	return id, value, err
}

// RevokeKey revokes a key for ever.
func (k *AgentKeys) RevokeKey(ctx context.Context, id string) error {
	var done struct{ ID string }
	return k.post(ctx, "keys", id, "revoke", nil, &done)
}

// MCP is the address of the listener for MCP clients, "" if it is off, and the names of the servers behind it.
func (k *AgentKeys) MCP(ctx context.Context) (url string, servers []string, err error) {
	err = k.with(func(c *admin.Client) error {
		var status struct {
			MCP     string
			Servers []string `json:"mcp_servers"`
		}
		err := c.Do(ctx, "GET", "/status", nil, &status)
		url, servers = status.MCP, status.Servers
		return err
	})
	return url, servers, err
}
