package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/mcpd"
	"github.com/yett-dev/yett/core/mcpd/oauth"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
)

// listenMCP opens the listener for MCP clients, if there is one.
func (g *Gateway) listenMCP(context.Context) error {
	c := g.cfg.MCP
	if !c.Enabled {
		return nil
	}
	secret, err := datadir.Secret(filepath.Join(g.dir, "mcp.key"), 32)
	if err != nil {
		return fmt.Errorf("key of the MCP gateway: %w", err)
	}
	for name, s := range c.Servers { // the bytes that run are those that are there now
		if len(s.Command) > 0 && s.Digest == "" {
			if s.Digest, err = pin.File(s.Command[0], supervise.MaxImage); err != nil {
				return fmt.Errorf("mcp.servers.%s.command: %w", name, err)
			}
			c.Servers[name] = s
		}
	}
	ask := g.asker(2 * int64(c.MaxResult)) // one that passes the limit of a result can be scanned
	if g.mcp, err = mcpd.New(mcpd.Settings{Config: c, Limits: g.cfg.Limits, Asker: ask, Secret: secret,
		Random: random, Now: time.Now, Console: g.consoleLink, Log: g.warn, Start: g.startMCP, May: g.service.May,
		Valid: config.FitsSchema, Version: g.opts.Version, Decision: g.decision,
		Pins: pins{g.store, c.Pin == config.MCPPinOperator}}); err != nil {
		return err
	}
	tlsSet, err := tlsConfig(g.cfg, "mcp.tls", c.TLS)
	if err != nil {
		return err
	}
	g.certified("mcp", tlsSet)
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return listenError("mcp.listen: ", err)
	}
	set := front.Settings{Name: "mcp", Keys: g.service, Limits: g.cfg.Limits, Hosts: c.Hosts, HostKey: "mcp.hosts",
		TLS: tlsSet, Proxies: g.cfg.Server.Proxies(), NewID: newName("req_"), Log: g.warn}
	routes := g.mcp.Routes()
	if c.OAuth.Enabled() {
		tokens := oauth.New(oauth.Settings{Config: c.OAuth, Keys: g.service, Now: time.Now, Log: g.warn})
		set.Tokens, set.Hosts = tokens, append(slices.Clone(c.Hosts), c.OAuth.Host())
		routes = append(routes, tokens.Routes()...)
	}
	g.addDoor("mcp", ln, front.New(set, routes))
	return nil
}

// recentRecords is how far back a decision is looked for.
const recentRecords = 100_000

// errFound ends a walk over records.
var errFound = errors.New("found")

// decision is the record of a decision among the newest records, nil if it is not there.
func (g *Gateway) decision(id string) ([]byte, error) {
	mark, from := []byte(`"decision_id":"`+id+`"`), uint64(1)
	if n := g.store.Seq(); n > recentRecords {
		from = n - recentRecords
	}
	var out []byte
	err := g.store.Records(from, func(_ uint64, rec []byte) error {
		if !bytes.Contains(rec, []byte(`"type":"decision"`)) || !bytes.Contains(rec, mark) {
			return nil
		}
		out = bytes.Clone(rec)
		return errFound
	})
	if err != nil && !errors.Is(err, errFound) {
		return nil, err
	}
	return out, nil
}

// pins keep the definitions of tools in the store.
type pins struct {
	store *store.Store
	ask   bool // an operator accepts the first one too
}

// Seen implements mcpd.Pins.
func (p pins) Seen(ctx context.Context, by store.Who, server, tool, digest, text string) (bool, error) {
	return p.store.NoteTool(ctx, store.SeeTool{Server: server, Tool: tool, Digest: digest, Text: text, Ask: p.ask, By: by})
}

// Changed implements mcpd.Pins.
func (p pins) Changed(server, tool string) bool {
	t := p.store.Tool(server, tool)
	if t == nil {
		return p.ask
	}
	return t.Pending.Digest != "" || t.Accepted.Digest == ""
}

// mcpTools is what operators do about tools.
type mcpTools struct {
	*store.Store

	mcp *mcpd.Gateway // nil: off
}

// Commit has clients list the tools again once a definition was accepted.
func (t mcpTools) Commit(ctx context.Context, cmd store.Command) error {
	err := t.Store.Commit(ctx, cmd)
	if err == nil && t.mcp != nil {
		t.mcp.ToolsChanged()
	}
	return err
}

// startMCP runs the command of an MCP server.
func (g *Gateway) startMCP(name string, s *config.MCPServer) (mcpd.Process, error) {
	policy := loaded.PolicyOfMCP(s)
	env := s.Process().Environ()
	for variable, ref := range s.Secrets {
		env[variable] = ref.Value()
	}
	c := supervise.Command{Name: "mcp-" + name[:min(len(name), 32)], Path: s.Command[0], Digest: s.Digest,
		Args: s.Command[1:], Env: maps.Clone(env), Pipe: true, Confine: &policy, Private: true,
		Limits: supervise.Limits{Data: uint64(s.Memory), Files: mcpFiles, Threads: mcpThreads, Disk: mcpDisk},
		Log:    func(line string) { g.opts.Log.Debug("mcp server", "server", name, "line", line) }}
	if s.Confine == config.ConfineOff {
		c.Confine = nil
	}
	if s.User.UID > 0 {
		c.User = &supervise.User{UID: uint32(s.User.UID), GID: uint32(s.User.GID)}
	}
	return supervise.Start(c)
}

// What a process of an MCP server may use beside memory.
const (
	mcpFiles   = 1024
	mcpThreads = 1024
	mcpDisk    = 1 << 30
)

// MCPURL is the address of the MCP gateway, "" when it is off. A server is at /mcp/NAME below it.
func (g *Gateway) MCPURL() string { return g.doorURL("mcp", g.cfg.MCP.TLS) }

// mcpServers are the names of the MCP servers that clients can reach.
func (g *Gateway) mcpServers() []string {
	if g.MCPURL() == "" {
		return nil
	}
	return slices.Sorted(maps.Keys(g.cfg.MCP.Servers))
}
