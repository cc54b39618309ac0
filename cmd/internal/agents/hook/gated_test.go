package hook

import (
	"encoding/json"
	"strings"
	"testing"
)

// A call passes the hook only if its server is an entry of ours, as far as the agent says what it is.
func TestGated(t *testing.T) {
	claude := func(name, source string) string {
		return `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","tool_name":"` + name +
			`","tool_input":{},"mcp_server":{"name":"github","source":"` + source + `"}}`
	}
	gemini := func(server, command string, args []string) string {
		list, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return `{"hook_event_name":"BeforeTool","session_id":"s","timestamp":"x","tool_name":"mcp_github_say",` +
			`"tool_input":{},"mcp_context":{"server_name":"` + server + `","tool_name":"say","command":"` + command +
			`","args":` + string(list) + `}}`
	}
	ours := GateArgs("github", "/h/f.json")
	codex := func(name string) string {
		return `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","tool_name":"` + name + `","tool_input":{}}`
	}
	for _, c := range []struct {
		name  string
		agent Agent
		input string
		want  bool
	}{
		{"claude, the user's", ClaudeCode, claude("mcp__github__say", "user"), true},
		{"claude, the user's in one project", ClaudeCode, claude("mcp__github__say", "local"), true},
		{"claude, a project's shared file", ClaudeCode, claude("mcp__github__say", "project"), false},
		{"claude, a plugin's", ClaudeCode, claude("mcp__github__say", "plugin"), false},
		{"claude, without a source", ClaudeCode, strings.Replace(claude("mcp__github__say", "x"), `,"source":"x"`, "", 1),
			false},
		{"claude, after it has run", ClaudeCode, strings.Replace(strings.Replace(claude("mcp__github__say", "user"), "Pre",
			"Post", 1), `"tool_input"`, `"tool_response":[],"tool_input"`, 1), false},
		{"gemini", Gemini, gemini("github", "/bin/yett", ours), true},
		{"gemini, another program", Gemini, gemini("github", "/tmp/yett", ours), false},
		{"gemini, another file", Gemini, gemini("github", "/bin/yett", GateArgs("github", "/tmp/f.json")), false},
		{"gemini, another server at the gateway", Gemini, gemini("github", "/bin/yett", GateArgs("jira", "/h/f.json")), false},
		{"gemini, another name", Gemini, gemini("jira", "/bin/yett", ours), false},
		{"codex", Codex, codex("mcp__github__say"), true},
		{"codex, another server", Codex, codex("mcp__git__hub__say"), false},
		{"codex, no tool of a server", Codex, codex("Bash"), false},
		{"codex, a tool that only looks like one", Codex, codex("mcp.github/say"), false},
	} {
		e, err := Read(c.agent, []byte(c.input), "github")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := e.Gated([]string{"github"}, "/bin/yett", "/h/f.json"); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if e.Gated(nil, "/bin/yett", "/h/f.json") {
			t.Errorf("%s: without any entry", c.name)
		}
	}
}
