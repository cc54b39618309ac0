package hookrun

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
)

// wrapping runs a hook whose file asks for wrapped commands.
func wrapping(t *testing.T, f *fake, agent hook.Agent, stdin string) (r hook.Reply, path string) {
	t.Helper()
	f.file.Agent, f.file.Wrap = string(agent), "/usr/bin/yett"
	text, err := f.file.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "hook.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Hook{Agent: agent, File: path}
	return h.Reply(t.Context(), strings.NewReader(stdin)), path
}

// tickets counts what has been issued.
func tickets(t *testing.T, path string) int {
	t.Helper()
	left, err := os.ReadDir(wrap.Tickets(path))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(left)
}

// TestWraps holds that a permitted command runs in yett exec, with the other arguments as they were, and that the
// gateway decides about the command that the agent sent, or the one that a person approved in its place.
func TestWraps(t *testing.T) {
	for name, row := range map[string]struct {
		answer  func(n int, w http.ResponseWriter, a asked)
		command string
		rest    string
	}{
		"permit": {func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") }, "ls",
			`"description":"lists","n":12345678901234567890`},
		"approved with other arguments": {deferred(func(w http.ResponseWriter) {
			status(w, "approved", `,"modified_args":{"command":"ls -l","n":2}`)
		}), "ls -l", `"n":2`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, row.answer)
			r, path := wrapping(t, f, hook.ClaudeCode, before)
			var out struct {
				HookSpecificOutput struct {
					PermissionDecision string
					UpdatedInput       json.RawMessage
				}
			}
			if err := json.Unmarshal(r.Stdout, &out); err != nil || r.Exit != 0 {
				t.Fatalf("exit %d, %v: %s %s", r.Exit, err, r.Stdout, r.Stderr)
			}
			var in struct{ Command string }
			if err := json.Unmarshal(out.HookSpecificOutput.UpdatedInput, &in); err != nil {
				t.Fatal(err)
			}
			if d := out.HookSpecificOutput.PermissionDecision; d != "" {
				t.Errorf("the user's own question is skipped: %s", d)
			}
			if !strings.HasPrefix(in.Command, "__yett_c='"+row.command+"'; ") ||
				!strings.Contains(in.Command, "'/usr/bin/yett' exec --config '"+path+"' --ticket ") ||
				!strings.Contains(string(out.HookSpecificOutput.UpdatedInput), row.rest) || tickets(t, path) != 1 {
				t.Errorf("%s, %d tickets", out.HookSpecificOutput.UpdatedInput, tickets(t, path))
			}
			first, err := json.Marshal(f.requests()[0].body["args"])
			if err != nil || string(first) != `{"command":"ls","n":12345678901234567890}` {
				t.Errorf("asked about %s, %v", first, err)
			}
		})
	}
}

// TestWrapsNothingElse holds that what is denied gets no ticket, that other tools are left as they are, and that a
// command which cannot be wrapped does not run.
func TestWrapsNothingElse(t *testing.T) {
	permit := func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") }
	r, path := wrapping(t, newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "DENY", "") }),
		hook.ClaudeCode, before)
	refused(t, "denied", r, "denied")
	if n := tickets(t, path); n != 0 {
		t.Errorf("%d tickets of a denied call", n)
	}
	read := strings.Replace(before, `"Bash"`, `"Read"`, 1)
	if r, _ := wrapping(t, newFake(t, permit), hook.ClaudeCode, read); r.Exit != 0 || len(r.Stdout) != 0 {
		t.Errorf("another tool: %+v", r)
	}
	r, path = wrapping(t, newFake(t, permit), hook.ClaudeCode, strings.Replace(before, `"ls"`, `""`, 1))
	refused(t, "nothing to run", r, "no command")
	if n := tickets(t, path); n != 0 {
		t.Errorf("%d tickets", n)
	}
	r, _ = wrapping(t, newFake(t, permit), hook.Cursor, `{"hook_event_name":"beforeShellExecution","conversation_id":"c",`+
		`"generation_id":"g","command":"ls","cwd":"/repo","workspace_roots":["/repo"],"cursor_version":"2"}`)
	if r.Exit == 0 || !strings.Contains(string(r.Stderr), "cannot change a command") {
		t.Errorf("an event that rewrites nothing: %d %s %s", r.Exit, r.Stdout, r.Stderr)
	}
}

// TestWrapWithAllow holds that a file cannot ask for both.
func TestWrapWithAllow(t *testing.T) {
	uid := uint32(1)
	f := &hookfile.File{Agent: "claude-code", Socket: "/s", SocketOwner: &uid, Wrap: "/yett", Allow: true}
	if err := f.Check(); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Error(err)
	}
}

// A call of a server at the gateway is not asked about, and every other one is.
func TestGatedServer(t *testing.T) {
	f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "DENY", "") })
	call := strings.Replace(strings.Replace(before, `"Bash"`, `"mcp__github__say"`, 1), `{"session_id"`,
		`{"mcp_server":{"name":"github","source":"user"},"session_id"`, 1)
	refused(t, "before it is named", run(t, f.file, call), "")
	f.file.Gated = []string{"github"}
	if r := run(t, f.file, call); r.Exit != 0 || len(r.Stdout) > 0 || len(f.requests()) != 1 {
		t.Errorf("exit %d, stdout %s, %d requests", r.Exit, r.Stdout, len(f.requests()))
	}
	refused(t, "a project's", run(t, f.file, strings.Replace(call, `"user"`, `"project"`, 1)), "")
	refused(t, "a probe", run(t, f.file, strings.Replace(call, "lists", Marker, 1)), "probe")
	refused(t, "another tool", run(t, f.file, before), "")
	f.file.Agent, f.file.Allow = "claude-code", true
	if r := run(t, f.file, call); len(r.Stdout) > 0 {
		t.Errorf("the agent's own question is skipped: %s", r.Stdout)
	}
}
