package execrun

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
)

func (f *fake) call(agent hook.Agent, tool, args string) wrap.Call {
	f.t.Helper()
	me, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	return wrap.Call{Agent: agent, Tool: tool, Args: []byte(args), AgentID: "me", SessionID: "s", Dir: f.dir, Yett: me,
		HookFile: f.file}
}

// TestRewrite runs what Rewrite makes of each agent's arguments.
func TestRewrite(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		agent      hook.Agent
		tool, args string
		rest       string // of the arguments, beside the command
	}{
		{hook.ClaudeCode, "Bash", `{"command":"echo sec_abcd1234","timeout":12345678901234567890,"description":"é"}`,
			`"timeout":12345678901234567890,"description":"é"`},
		{hook.Codex, "Bash", `{"command":"echo sec_abcd1234"}`, ""},
		{hook.Gemini, "run_shell_command", `{"command":"echo sec_abcd1234","n":1.0}`, `"n":1.0`},
		{hook.Copilot, "bash", `{"a":"\u0062","command":"echo sec_abcd1234"}`, `"a":"\u0062"`},
		{hook.Cursor, "Shell", `{"command":"echo sec_abcd1234"}`, ""},
		{hook.VSCode, "run_in_terminal", `{"command":"echo sec_abcd1234"}`, ""},
		{hook.OpenCode, "bash", `{"command":"echo sec_abcd1234"}`, ""},
		{hook.Cline, "run_commands", `{"commands":["echo sec_abcd1234","echo sec_abcd1234"]}`, ""},
	} {
		t.Run(string(row.agent), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			out, err := wrap.Rewrite(f.call(row.agent, row.tool, row.args))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(out), row.rest) {
				t.Errorf("%s lacks %s", out, row.rest)
			}
			var args struct {
				Command  string
				Commands []string
			}
			if err := json.Unmarshal(out, &args); err != nil {
				t.Fatal(err)
			}
			if args.Command != "" {
				args.Commands = []string{args.Command}
			}
			for _, line := range args.Commands {
				cmd := exec.Command("bash", "-c", line)
				cmd.Dir = f.dir
				collect(t, cmd).want(t, line, redacted+"\n", "", 0)
			}
			for _, r := range f.requests() {
				if r.ToolID != row.tool || r.AgentID != "me" || r.SessionID != "s" {
					t.Errorf("asked %+v", r)
				}
			}
		})
	}
}

func TestRewriteRefuses(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for _, row := range []struct {
		agent            hook.Agent
		tool, args, want string
	}{
		{hook.Windsurf, "run_command", `{"command":"ls"}`, "no tool of windsurf"},
		{hook.ClaudeCode, "Read", `{"command":"ls"}`, "no tool of claude-code"},
		{hook.ClaudeCode, "Bash", `{}`, "either command or commands"},
		{hook.ClaudeCode, "Bash", `{"command":"ls","commands":["ls"]}`, "either command or commands"},
		{hook.ClaudeCode, "Bash", `{"command":["ls"]}`, "expected a string, got an array"},
		{hook.ClaudeCode, "Bash", `{"command":""}`, "no command"},
		{hook.ClaudeCode, "Bash", `{"command":"a","command":"b"}`, "there twice"},
		{hook.ClaudeCode, "Bash", `["command"]`, "either command or commands"},
		{hook.Cline, "run_commands", `{"commands":[]}`, "expected a list"},
		{hook.Cline, "run_commands", `{"commands":["a",1]}`, "expected a string, got a number"},
	} {
		out, err := wrap.Rewrite(f.call(row.agent, row.tool, row.args))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %s, %v; want %q", row.args, out, err, row.want)
		}
	}
	c := f.call(hook.ClaudeCode, "Bash", `{"command":"ls"}`)
	c.Shell = "/usr/bin/fish"
	if _, err := wrap.Rewrite(c); err == nil || !strings.Contains(err.Error(), "fish") {
		t.Errorf("fish: %v", err)
	}
}
