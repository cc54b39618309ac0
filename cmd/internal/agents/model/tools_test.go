package model

import (
	"strings"
	"testing"
)

// The tools as the clients of these names offer them, with the parts of their schemas that matter.
const (
	claudeBash = `{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"number"},` +
		`"description":{"type":"string"}},"required":["command"]}`
	copilotBash = `{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"},` +
		`"mode":{"enum":["sync","async"]}},"required":["command","description"]}`
	codexExec    = `{"type":"object","properties":{"cmd":{"type":"string"},"tty":{"type":"boolean"}},"required":["cmd"]}`
	codexShell   = `{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}},"required":["command"]}`
	clineRun     = `{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}}},"required":["commands"]}`
	clineExecute = `{"type":"object","properties":{"command":{"type":"string"},"requires_approval":{"type":"boolean"}},` +
		`"required":["command","requires_approval"]}`
	claudeWrite = `{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},` +
		`"required":["file_path","content"]}`
	copilotCreate = `{"type":"object","properties":{"path":{"type":"string"},"file_text":{"type":"string"}}}`
	clineRead     = `{"type":"object","properties":{"files":{"type":"array"}},"required":["files"]}`
)

func TestPicks(t *testing.T) {
	write, read := WriteFile("/a", "b"), ReadFile("/a")
	tests := []struct {
		name  string
		call  Call
		tools []Tool
		want  string // the tool and its arguments, or a part of the error
	}{
		{"Claude Code", Shell("ls"), []Tool{{Name: "Read"}, {Name: "Bash", Parameters: []byte(claudeBash)}}, `Bash {"command":"ls"}`},
		{"Copilot", Shell("ls"), []Tool{{Name: "bash", Parameters: []byte(copilotBash)}}, `bash {"command":"ls","description":"ok"}`},
		{"Codex", Shell("ls > <x>"), []Tool{{Name: "exec_command", Parameters: []byte(codexExec)}}, `exec_command {"cmd":"ls > <x>"}`},
		{"Codex's older tool", Shell("ls"), []Tool{{Name: "shell", Parameters: []byte(codexShell)}}, `shell {"command":["sh","-c","ls"]}`},
		{"Cline", Shell("ls"), []Tool{{Name: "run_commands", Parameters: []byte(clineRun)}}, `run_commands {"commands":["ls"]}`},
		{"Cline's older tool", Shell("ls"), []Tool{{Name: "execute_command", Parameters: []byte(clineExecute)}},
			`execute_command {"command":"ls","requires_approval":false}`},
		{"write", write, []Tool{{Name: "Write", Parameters: []byte(claudeWrite)}}, `Write {"content":"b","file_path":"/a"}`},
		{"create", write, []Tool{{Name: "create", Parameters: []byte(copilotCreate)}}, `create {"file_text":"b","path":"/a"}`},
		{"read", read, []Tool{{Name: "view", Parameters: []byte(copilotCreate)}}, `view {"path":"/a"}`},
		{"read files", read, []Tool{{Name: "read_files", Parameters: []byte(clineRead)}}, `read_files {"files":[{"path":"/a"}]}`},
		{"no tools", Shell("ls"), nil, "it offers no tools"},
		{"other tools", Shell("ls"), []Tool{{Name: "a"}, {Name: "b"}}, "no known tool for shell commands: it offers a, b"},
		{"no parameter", Shell("ls"), []Tool{{Name: "bash", Parameters: []byte(clineRead)}}, "no parameter command, cmd or commands"},
		{"no path", read, []Tool{{Name: "Read", Parameters: []byte(codexExec)}}, "no parameter file_path"},
		{"no content", write, []Tool{{Name: "Write", Parameters: []byte(clineRead)}}, "no parameter content"},
		{"no schema", Shell("ls"), []Tool{{Name: "Bash"}}, "the schema of the tool Bash is unreadable"},
		{"a custom tool", Shell("ls"), []Tool{{Name: "shell", Custom: true}}, "no known tool"},
		{"odd requirement", Shell("ls"), []Tool{{Name: "Bash", Parameters: []byte(`{"properties":{"command":{},"x":{"type":"odd"}},` +
			`"required":["x"]}`)}}, `parameter x of the tool Bash: unknown type "odd"`},
		{"MCP of Claude Code", MCP("s", "t", []byte(`{"n":1.0}`)), []Tool{{Name: "mcp__s__t"}}, `mcp__s__t {"n":1.0}`},
		{"MCP of Gemini", MCP("s", "t", []byte(`{}`)), []Tool{{Name: "mcp_s_t"}}, `mcp_s_t {}`},
		{"MCP of Copilot", MCP("s", "t", []byte(`{}`)), []Tool{{Name: "s-t"}}, `s-t {}`},
		{"MCP of OpenCode", MCP("s", "t", []byte(`{}`)), []Tool{{Name: "s_t"}}, `s_t {}`},
		{"MCP of Cline", MCP("s", "t", []byte(`{}`)), []Tool{{Name: "s__t"}}, `s__t {}`},
		{"MCP of Codex", MCP("s", "t", []byte(`{}`)), []Tool{{Name: "t"}, {Name: "t", Namespace: "mcp__s"}}, `mcp__s/t {}`},
		{"MCP of Codex's group", MCP("s", "t", []byte(`{}`)), []Tool{{Name: "t", Namespace: "mcp__s__"}}, `mcp__s__/t {}`},
		{"MCP elsewhere", MCP("s", "t", []byte(`{}`)), []Tool{{Name: "t"}, {Name: "u", Namespace: "mcp__s"}, {Name: "t", Namespace: "mcp__sx"}}, "no tool t of the MCP server s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.call.Pick(&Request{Tools: tt.tools})
			text := got.Tool + " " + string(got.Arguments)
			if got.Namespace != "" {
				text = got.Namespace + "/" + text
			}
			if err != nil {
				text = err.Error()
			}
			if err == nil && text != tt.want || err != nil && !strings.Contains(text, tt.want) {
				t.Errorf("got %s\nexpected %s", text, tt.want)
			}
		})
	}
}
