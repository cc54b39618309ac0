package connect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
)

// mcpSites are the agents and scopes for which MCP servers can be written.
func mcpSites() []site {
	var out []site
	for _, s := range sites() {
		s.places = Places{Home: "/u", Etc: "/machine", Project: "/p"}
		if s.noMCP() == "" {
			out = append(out, s)
		}
	}
	return out
}

// TestMCPGolden holds what is written into new files for two MCP servers.
func TestMCPGolden(t *testing.T) {
	var got bytes.Buffer
	for _, s := range mcpSites() {
		e, ok := s.mcpEdit(gates{names: []string{"github", "jira"}, program: "/usr/bin/yett", file: s.hookFile()})
		if !ok {
			t.Fatal(s)
		}
		text, _, err := e.put(nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "-- %s %s: %s %v --\n%s", s.agent, s.scope, e.path, e.mode, text)
	}
	file := filepath.Join("testdata", "mcp.golden")
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s has changed: run GOLDEN=write go test and read the difference (%v)\ngot:\n%s", file, err, got.Bytes())
	}
}

// others is what somebody else wrote into an agent's file of MCP servers.
func others(s site) string {
	switch s.agent {
	case hook.Codex:
		return "model = \"m\" # mine\n\n[mcp_servers.mine]\ncommand = \"mine\"\n"
	case hook.ClaudeCode:
		return `{"numStartups": 7,
	"projects": {},
	"mcpServers": { "mine" : {"command": "mine", "args": ["mcp", "--server", "x"]} }, "n": 1.0}
`
	}
	_, members := s.mcpFile()
	return `{"x": 1.0, "` + members[0] + `": { "mine" : {"command": "mine"} } }` + "\n"
}

// Connecting keeps what others wrote, does nothing the second time, changes and takes out exactly its own entries, and
// undo brings back every byte.
func TestMCPEntries(t *testing.T) {
	for _, c := range mcpSites() {
		for _, existing := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %s existing=%t", c.agent, c.scope, existing), func(t *testing.T) {
				b := newBench(t, c.agent, c.scope)
				s := b.site()
				path, _ := s.mcpFile()
				if existing {
					b.write(path, others(s))
				}
				before := b.snapshot()
				b.r.MCP = &MCP{Servers: []string{"github", "jira"}, URL: "http://127.0.0.1:8425"}
				b.connect()
				f := b.hookFile()
				if strings.Join(f.Gated, " ") != "github jira" || f.MCPURL != "http://127.0.0.1:8425" || f.Key == "" {
					t.Errorf("the hook's file: %+v", f)
				}
				first := b.read(path)
				for _, name := range []string{"github", "jira"} {
					if !strings.Contains(first, name) {
						t.Errorf("no %s in\n%s", name, first)
					}
				}
				if existing && !strings.Contains(first, "mine") {
					t.Errorf("what others wrote is lost:\n%s", first)
				}
				if c.agent != hook.Codex && !json.Valid([]byte(first)) {
					t.Errorf("no JSON:\n%s", first)
				}
				b.r.MCP = nil
				for _, f := range b.connect().Files {
					if f.Change != "unchanged" {
						t.Errorf("again: %+v", f)
					}
				}
				if b.read(path) != first {
					t.Errorf("again:\n%s", b.read(path))
				}
				b.r.MCP = &MCP{Servers: []string{"jira", "wiki"}}
				b.connect()
				if got := b.read(path); strings.Contains(got, "github") || !strings.Contains(got, "wiki") {
					t.Errorf("other servers:\n%s", got)
				}
				b.undo()
				if after := b.snapshot(); after != before {
					t.Errorf("undo changed\n%s\nto\n%s", before, after)
				}
			})
		}
	}
}

func (b *bench) hookFile() *hookfile.File {
	b.t.Helper()
	f, err := hookfile.Parse([]byte(b.read(b.site().hookFile())))
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

// Undo takes our entries out of a file that others have changed since, and --mcp=false out of every file.
func TestMCPTakenOut(t *testing.T) {
	for _, c := range mcpSites() {
		b := newBench(t, c.agent, c.scope)
		s := b.site()
		path, _ := s.mcpFile()
		b.write(path, others(s))
		b.r.MCP = &MCP{Servers: []string{"github"}, URL: "http://127.0.0.1:8425"}
		b.connect()
		b.r.MCP = &MCP{}
		b.connect()
		if got := b.read(path); strings.Contains(got, "github") || !strings.Contains(got, "mine") {
			t.Errorf("%s %s, off:\n%s", c.agent, c.scope, got)
		}
		if f := b.hookFile(); len(f.Gated) > 0 || f.MCPURL != "" {
			t.Errorf("%s %s: the hook's file: %+v", c.agent, c.scope, f)
		}
		b.r.MCP = &MCP{Servers: []string{"github"}, URL: "http://127.0.0.1:8425"}
		b.connect()
		b.write(path, strings.Replace(b.read(path), "mine", "theirs", 1))
		b.undo()
		if got := b.read(path); strings.Contains(got, "github") || !strings.Contains(got, "theirs") {
			t.Errorf("%s %s, undo:\n%s", c.agent, c.scope, got)
		}
	}
}

// A server of somebody else's under the same name is never replaced, and nothing is written then.
func TestMCPConflict(t *testing.T) {
	for _, c := range mcpSites() {
		b := newBench(t, c.agent, c.scope)
		s := b.site()
		path, members := s.mcpFile()
		b.write(path, strings.Replace(others(s), "mine", "github", 1))
		if c.agent == hook.Codex {
			b.write(path, strings.ReplaceAll(others(s), "mcp_servers.mine", "mcp_servers.github"))
		}
		if len(members) > 1 { // the project's own
			b.write(path, `{"projects": {"`+b.path("project")+`": {"mcpServers": {"github": {"command": "x"}}}}}`)
		}
		before := b.read(path)
		b.r.MCP = &MCP{Servers: []string{"github"}, URL: "http://127.0.0.1:8425"}
		_, err := Connect(t.Context(), b.r)
		if err == nil || !strings.Contains(err.Error(), "another server of this name") {
			t.Errorf("%s %s: %v\n%s", c.agent, c.scope, err, b.read(path))
		}
		if _, err := os.Lstat(s.hookFile()); b.read(path) != before || b.gate.made > 0 || err == nil {
			t.Errorf("%s %s: %d keys were made, and\n%s\nbecame\n%s", c.agent, c.scope, b.gate.made, before, b.read(path))
		}
	}
}

// Without an address of the listener, or without a key, there is nothing that a server could be reached by.
func TestMCPNeeds(t *testing.T) {
	b := newBench(t, hook.ClaudeCode, User)
	b.r.MCP = &MCP{Servers: []string{"github"}}
	if _, err := Connect(t.Context(), b.r); err == nil || !strings.Contains(err.Error(), "--mcp-url") {
		t.Errorf("without an address: %v", err)
	}
	b.r.MCP.URL, b.r.NoKey = "http://127.0.0.1:8425", true
	if _, err := Connect(t.Context(), b.r); err == nil || !strings.Contains(err.Error(), "leave --no-key out") {
		t.Errorf("without a key: %v", err)
	}
	b = newBench(t, hook.ClaudeCode, Managed)
	b.r.MCP = &MCP{Servers: []string{"github"}, URL: "http://127.0.0.1:8425"}
	if _, err := Connect(t.Context(), b.r); err == nil || !strings.Contains(err.Error(), "beside the managed hooks") {
		t.Errorf("managed: %v", err)
	}
}
