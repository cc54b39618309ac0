package connect

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/tomltext"
)

// tomlServers are the entries in Codex's TOML file, as tables in a marked block at its end.
type tomlServers struct {
	gates
	undo string // the command that takes all of it out
}

const tomlGateMark tomltext.Mark = "yett connect codex --mcp"

func (t *tomlServers) block() []string {
	out := []string{"# `" + t.undo + "` takes this out again."}
	for _, name := range t.names {
		var args []string
		for _, a := range hook.GateArgs(name, t.file) {
			args = append(args, tomltext.String(a))
		}
		out = append(out, "[mcp_servers."+tomltext.String(name)+"]", "command = "+tomltext.String(t.program),
			"args = ["+strings.Join(args, ", ")+"]")
	}
	return out
}

func (t *tomlServers) put(text []byte) (out []byte, notes []string, err error) {
	d, err := tomltext.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	rest, found, err := d.Clear(tomlGateMark)
	if err != nil {
		return nil, nil, err
	}
	if len(t.names) == 0 {
		return rest, nil, nil
	}
	clean, err := tomltext.Parse(rest)
	if err != nil {
		return nil, nil, fmt.Errorf("without Yett's block the file would be broken: %w", err)
	}
	others, _ := clean.Values["mcp_servers"].(map[string]any)
	if clean.Values["mcp_servers"] != nil && others == nil {
		return nil, nil, errors.New("mcp_servers: expected a table")
	}
	for _, name := range t.names {
		if others[name] != nil {
			return nil, nil, fmt.Errorf("mcp_servers.%s is another server of this name: rename it, or take it out and connect "+
				"again", name)
		}
	}
	out = clean.Block(tomlGateMark, t.block())
	if _, err := tomltext.Parse(out); err != nil {
		return nil, nil, fmt.Errorf("with the change the file would be broken: write mcp_servers as tables: %w", err)
	}
	if empty, err := tomltext.Parse(nil); err == nil && normal(found) == string(empty.Block(tomlGateMark, t.block())) {
		return text, nil, nil // others may have written behind it: it stays where it is
	}
	return out, nil, nil
}

func (t *tomlServers) take(text []byte, _ [][]string) ([]byte, error) {
	d, err := tomltext.Parse(text)
	if err != nil {
		return nil, err
	}
	rest, _, err := d.Clear(tomlGateMark)
	if err != nil {
		return nil, err
	}
	if _, err := tomltext.Parse(rest); err != nil {
		return nil, fmt.Errorf("without Yett's block the file would be broken: %w", err)
	}
	return rest, nil
}

func (t *tomlServers) made([]byte) [][]string { return nil }
func (t *tomlServers) blank(text []byte) bool { return len(strings.TrimSpace(string(text))) == 0 }
