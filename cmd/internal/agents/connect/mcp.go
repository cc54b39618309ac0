package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/jsontext"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

// gates are the entries of an agent's configuration through which it reaches MCP servers at the gateway.
type gates struct {
	names   []string // of the servers
	program string   // yett
	file    string   // the hook's own file
	take    bool     // look at the files also if there are no names: entries are to be taken out
}

// gates are those that the hook's own file names.
func (s site) gates(c hook.Command) gates {
	g := gates{program: yettOf(c.Yett), file: s.hookFile()}
	if text, err := os.ReadFile(s.hookFile()); err == nil { // what is wrong with it is said where it is read in earnest
		if f, err := hookfile.Parse(text); err == nil {
			g.names = f.Gated
		}
	}
	return g
}

// yettOf is the program yett, for which the hooks may run the smaller one beside it.
func yettOf(program string) string {
	if filepath.Base(program) == "yett-hook" {
		return filepath.Join(filepath.Dir(program), "yett")
	}
	return program
}

// mcpPlaces are the files with MCP servers, below the root of each scope.
var mcpPlaces = map[hook.Agent]map[Scope]string{
	hook.Codex:    {User: ".codex/config.toml", Project: ".codex/config.toml"},
	hook.Gemini:   {User: ".gemini/settings.json", Project: ".gemini/settings.json"},
	hook.Copilot:  {User: ".copilot/mcp-config.json"},
	hook.Cursor:   {User: ".cursor/mcp.json", Project: ".cursor/mcp.json"},
	hook.OpenCode: {User: ".config/opencode/opencode.json", Project: "opencode.json"},
	hook.VSCode:   {User: ".config/Code/User/mcp.json", Project: ".vscode/mcp.json"},
	hook.Windsurf: {User: ".codeium/windsurf/mcp_config.json"},
	hook.Cline:    {User: ".cline/data/settings/cline_mcp_settings.json"},
}

// mcpFile is the file with an agent's MCP servers and the members in it that lead to them; "" if there is none.
func (s site) mcpFile() (path string, members []string) {
	members = []string{"mcpServers"}
	switch s.agent {
	case hook.ClaudeCode: // one file of the user's holds both; a project's .mcp.json is shared, and this is one user's
		if s.scope == Managed {
			return "", nil
		}
		if s.scope == Project {
			members = []string{"projects", s.places.Project, "mcpServers"}
		}
		return filepath.Join(s.places.Home, ".claude.json"), members
	case hook.VSCode:
		members = []string{"servers"}
	case hook.OpenCode:
		members = []string{"mcp"}
	}
	if name := mcpPlaces[s.agent][s.scope]; name != "" {
		return filepath.Join(s.root(), name), members
	}
	return "", nil
}

// noMCP says why MCP servers cannot be written for a site, "" if they can.
func (s site) noMCP() string {
	path, _ := s.mcpFile()
	switch {
	case path == "" && s.scope == Managed:
		return "--mcp writes the configuration of a user or a project: use --user or --project beside the managed hooks"
	case path == "":
		return fmt.Sprintf("%s has no file of this scope for MCP servers: use --user", s.agent)
	case s.agent == hook.OpenCode:
		if _, err := os.Lstat(path + "c"); err == nil {
			return fmt.Sprintf("%sc is there, which OpenCode reads beside %s: put both into one opencode.json first", path, path)
		}
	}
	return ""
}

// mcpEdit is what is to be done with the file of MCP servers. ok is false if nothing is.
func (s site) mcpEdit(g gates) (e edit, ok bool) {
	path, members := s.mcpFile()
	if path == "" || len(g.names) == 0 && !g.take {
		return edit{}, false
	}
	mode, _ := s.mode()
	if path == filepath.Join(s.places.Home, ".claude.json") {
		mode = 0o600
	}
	if s.agent == hook.Codex {
		return edit{path, mode, &tomlServers{gates: g, undo: s.undo()}}, true
	}
	d := dialectOf(s.agent)
	if s.agent == hook.OpenCode {
		d.Comments, d.TrailingCommas = true, true
	}
	return edit{path, mode, &jsonFile{agent: s.agent, dialect: d, servers: &jsonServers{gates: g, members: members}}}, true
}

// withGates adds the entries of MCP servers to what is done with the files of a site.
func (s site) withGates(edits []edit, g gates) []edit {
	e, ok := s.mcpEdit(g)
	if !ok {
		return edits
	}
	for i := range edits {
		if edits[i].path != e.path {
			continue
		}
		if j, is := edits[i].editor.(*jsonFile); is {
			j.servers = e.editor.(*jsonFile).servers
		} else {
			edits[i].editor = both{edits[i].editor, e.editor}
		}
		return edits
	}
	return append(edits, e)
}

// both are two editors of one file.
type both struct{ hooks, servers editor }

func (b both) put(text []byte) ([]byte, []string, error) {
	out, notes, err := b.hooks.put(text)
	if err != nil {
		return nil, nil, err
	}
	out, more, err := b.servers.put(out)
	return out, append(notes, more...), err
}

func (b both) take(text []byte, made [][]string) ([]byte, error) {
	out, err := b.servers.take(text, made)
	if err != nil {
		return nil, err
	}
	return b.hooks.take(out, made)
}

func (b both) made(text []byte) [][]string { return b.hooks.made(text) }
func (b both) blank(text []byte) bool      { return b.hooks.blank(text) }

// jsonServers are the entries in a JSON file.
type jsonServers struct {
	gates
	members []string // that lead to them
}

// entry is one server as an agent wants to have it.
func (j *jsonServers) entry(agent hook.Agent, name string) jsontext.Fields {
	type f = jsontext.Field
	args := jsontext.List{}
	for _, a := range hook.GateArgs(name, j.file) {
		args = append(args, a)
	}
	plain := jsontext.Fields{f{Name: "command", Value: j.program}, f{Name: "args", Value: args}}
	switch agent {
	case hook.ClaudeCode, hook.VSCode:
		return append(jsontext.Fields{{Name: "type", Value: "stdio"}}, plain...)
	case hook.Copilot:
		return append(append(jsontext.Fields{{Name: "type", Value: "local"}}, plain...),
			f{Name: "tools", Value: jsontext.List{"*"}})
	case hook.OpenCode:
		return jsontext.Fields{{Name: "type", Value: "local"},
			{Name: "command", Value: append(jsontext.List{j.program}, args...)}, {Name: "enabled", Value: true}}
	}
	return plain
}

// value is the object of all entries.
func (j *jsonServers) value(agent hook.Agent) jsontext.Fields {
	var all jsontext.Fields
	for _, name := range j.names {
		all = append(all, jsontext.Field{Name: name, Value: j.entry(agent, name)})
	}
	return all
}

// isOurs says whether an entry runs yett as an MCP server with this hook's file.
func (j *jsonServers) isOurs(d *jsontext.Doc, n *jsontext.Node) bool {
	if n.Kind != jsontext.Object {
		return false
	}
	var words []string
	for _, name := range []string{"command", "args"} {
		if i := n.Find(name); i >= 0 && n.At(i).Kind == jsontext.Array {
			for k := range n.At(i).Len() {
				words = append(words, d.Str(n.At(i).At(k)))
			}
		}
	}
	return gateWords(words, j.file)
}

// gateWords says whether the end of a command is that of an entry of ours.
func gateWords(words []string, file string) bool {
	if len(words) < 5 {
		return false
	}
	words = words[len(words)-5:]
	return slices.Equal(words, hook.GateArgs(words[2], file))
}

// step makes one change that brings the entries closer to what they must be, nil if there is none.
func (j *jsonServers) step(agent hook.Agent, d *jsontext.Doc) ([]byte, error) {
	parent := d.Root
	for i := range j.members {
		n, err := d.Get(j.members[:i+1]...)
		if err != nil {
			return nil, err
		}
		if n == nil {
			if len(j.names) == 0 {
				return nil, nil
			}
			if parent.Kind != jsontext.Object {
				return nil, d.ErrorAt(parent.Start, "expected an object, got %s", parent.Kind)
			}
			return d.Add(parent, j.members[i], nested(j.members[i+1:], j.value(agent))), nil
		}
		parent = n
	}
	if parent.Kind != jsontext.Object {
		return nil, d.ErrorAt(parent.Start, "%s: expected an object, got %s", strings.Join(j.members, "."), parent.Kind)
	}
	for i := range parent.Len() {
		if !slices.Contains(j.names, parent.Name(i)) && j.isOurs(d, parent.At(i)) {
			return d.Remove(parent, i), nil
		}
	}
	for _, name := range j.names {
		want := j.entry(agent, name)
		n, err := d.Get(append(slices.Clone(j.members), name)...)
		switch {
		case err != nil:
			return nil, err
		case n == nil:
			return d.Add(parent, name, want), nil
		case bytesEqual(d.Compact(n), jsontext.CompactOf(want)):
		case j.isOurs(d, n):
			return d.Replace(n, want), nil
		default:
			return nil, d.ErrorAt(n.Start, "%s.%s is another server of this name: rename it, or take it out and connect again",
				strings.Join(j.members, "."), name)
		}
	}
	return nil, nil
}

func bytesEqual(a, b []byte) bool { return string(a) == string(b) }

// takeOne takes one entry out, nil if there is none.
func (j *jsonServers) takeOne(d *jsontext.Doc) ([]byte, error) {
	n, err := d.Get(j.members...)
	if err != nil || n == nil || n.Kind != jsontext.Object {
		return nil, err
	}
	for i := range n.Len() {
		if j.isOurs(d, n.At(i)) {
			return d.Remove(n, i), nil
		}
	}
	return nil, nil
}

// mcpGateway is a Gateway that says how it serves MCP.
type mcpGateway interface {
	// MCP is the address of its listener for MCP clients, "" if it is off, and the names of its servers.
	MCP(ctx context.Context) (url string, servers []string, err error)
}

// gates reads the flags about MCP servers, and asks the gateway about what they leave out.
func (f *flags) gates(cmd *cobra.Command, r *Request) error {
	switch {
	case !f.mcp && (len(f.gated) > 0 || f.mcpURL != ""):
		return cli.Usage("--server and --mcp-url need --mcp")
	case len(f.mcpPins) > 0 && f.mcpURL == "":
		return cli.Usage("--mcp-pin needs --mcp-url")
	case !cmd.Flags().Changed("mcp"):
		return nil
	case !f.mcp:
		r.MCP = &MCP{}
		return nil
	}
	r.MCP = &MCP{Servers: slices.Compact(slices.Sorted(slices.Values(f.gated))), URL: f.mcpURL, Pins: f.mcpPins}
	if len(f.gated) > 0 && f.mcpURL != "" {
		return nil
	}
	gate, ok := r.Gateway.(mcpGateway)
	if !ok {
		if len(f.gated) > 0 {
			return nil // the hook's own file may say where the gateway is
		}
		return cli.Usage("which MCP servers? Name the gateway on this machine with --data DIR or --config FILE, or give " +
			"--server NAME and --mcp-url URL")
	}
	url, all, err := gate.MCP(cmd.Context())
	switch {
	case err != nil:
		return err
	case url == "":
		return errors.New("the gateway serves no MCP clients: switch mcp.enabled on, and name servers in mcp.servers")
	case len(all) == 0:
		return errors.New("the gateway has no MCP servers: name them in mcp.servers")
	}
	if len(f.gated) == 0 {
		r.MCP.Servers = slices.Sorted(slices.Values(all))
	}
	for _, name := range r.MCP.Servers {
		if !slices.Contains(all, name) {
			return fmt.Errorf("the gateway has no MCP server %q: its servers are %s", name, strings.Join(all, ", "))
		}
	}
	if r.MCP.URL == "" {
		r.MCP.URL = url
	}
	return nil
}
