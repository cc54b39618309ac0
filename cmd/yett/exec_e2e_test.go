package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// token looks like a token of a well-known service.
var token = "gh" + "p_" + strings.Repeat("aB3dE6gH9", 4)

// execPlace is a directory with a hook's file for a running gateway.
func execPlace(t *testing.T, s *server) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	owner := uint32(os.Getuid())
	f := &hookfile.File{Agent: "claude-code", Socket: socketOf(t, s), SocketOwner: &owner, Key: s.Keys.Agent}
	raw, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "hook.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// execute runs a program to its end, and gives what it has printed and its exit code.
func execute(t *testing.T, dir, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &out, &said, patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// TestExec runs commands whose outputs hold a secret under `yett exec`, with the real gateway.
func TestExec(t *testing.T) {
	t.Parallel()
	yett := e2e.Binary(t)
	s := startDev(t, nil)
	dir, file := execPlace(t, s)
	const mark = "[SECRET_GITHUB_PAT]"
	many := strings.Repeat("a line of text\n", 20_000)
	if err := os.WriteFile(filepath.Join(dir, "many"), []byte(many+"t="+token+"\n"+many), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, script, out, err string
		code                   int
	}{
		{"a command that fails", "echo a " + token + "; echo b " + token + " >&2; exit 3", "a " + mark + "\n",
			"b " + mark + "\n", 3},
		{"in pieces", "for i in 1 6 11 16 21 26 31 36; do echo " + token + " | cut -c$i-$((i+4)) | tr -d '\\n'; done", mark, "",
			0},
		{"in colours", `printf '\033[31m%s\033[0m%s\n' ` + token[:9] + " " + token[9:], mark + "\n", "", 0},
		{"much", "cat many; exit 1", many + "t=" + mark + "\n" + many, "", 1},
		{"JSON", `printf '{"a":"%s"}' ` + token, `{"a":"` + mark + `"}`, "", 0},
		{"nothing", "exit 7", "", "", 7},
	} {
		out, said, code := execute(t, dir, yett, "exec", "--config", file, "--", "sh", "-c", row.script)
		if out != row.out || said != row.err || code != row.code {
			t.Errorf("%s: got %.300q, %.300q, exit %d; want %.300q, %.300q, exit %d", row.name, out, said, code, row.out,
				row.err, row.code)
		}
	}
	args, err := json.Marshal(map[string]string{"command": "mkdir sub && cd sub && echo " + token + " >&2 # as is"})
	if err != nil {
		t.Fatal(err)
	}
	args, err = wrap.Rewrite(wrap.Call{Agent: hook.ClaudeCode, Tool: "Bash", Args: args, AgentID: "demo", Dir: dir,
		Yett: yett, HookFile: file})
	if err != nil {
		t.Fatal(err)
	}
	var call struct{ Command string }
	if err := json.Unmarshal(args, &call); err != nil {
		t.Fatal(err)
	}
	out, said, code := execute(t, dir, "bash", "-c", call.Command+"\npwd -P")
	if want := filepath.Join(dir, "sub") + "\n"; out != want || said != mark+"\n" || code != 0 {
		t.Errorf("in the agent's shell: %q, %q, exit %d; want %q", out, said, code, want)
	}
}

// TestExecEnds ends what a command's output needs while the command runs: its agent, by a kill, and the gateway.
func TestExecEnds(t *testing.T) {
	t.Parallel()
	yett := e2e.Binary(t)
	s := startDev(t, nil)
	dir, file := execPlace(t, s)
	run := func(want string, end func()) {
		t.Helper()
		line := strings.Repeat("a line\n", 20_000) // more than scanners hold back
		if err := os.WriteFile(filepath.Join(dir, "line"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(yett, "exec", "--config", file, "--", "sh", "-c", "cat line; read -r x; echo "+token+"; exit 4")
		cmd.Dir = dir
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(stdout)
		first, err := r.ReadString('\n')
		if err != nil || first != "a line\n" {
			t.Errorf("got %q, %v", first, err)
		}
		end()
		in.Close()
		var rest bytes.Buffer
		if _, err := r.WriteTo(&rest); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		text := strings.ReplaceAll(rest.String(), "a line\n", "")
		if i := strings.Index(text, "["); i < 0 || !strings.HasPrefix("a line\n", strings.TrimSuffix(text[:i], "\n")) ||
			text[i:] != want || cmd.ProcessState.ExitCode() != 4 || strings.Contains(text, token) {
			t.Errorf("got %q, exit %d; want %q", text, cmd.ProcessState.ExitCode(), want)
		}
	}
	run("[output withheld by Yett: it is denied (KILL_SWITCH_ACTIVE)]\n", func() {
		s.post(s.Keys.Operator, "/v1/kill", `{"agent_id":"claude-code"}`).want(t, 200, "")
	})
	s.post(s.Keys.Operator, "/v1/kill", `{"agent_id":"claude-code","undo":true}`).want(t, 200, "")
	run("[output withheld by Yett: the gateway cannot be reached]\n", s.kill)
}

// TestExecStaysAlive holds what `yett exec` relies on while a command is silent: an empty piece keeps a stream open.
func TestExecStaysAlive(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	for i, row := range []struct {
		text  string
		at    int
		final bool
	}{{"token=" + token[:9], 0, false}, {"", 15, false}, {"", 15, false}, {token[9:], 15, true}} {
		a := s.post(s.Keys.Agent, "/v1/scan_output", text(pieceBody("alive", row.at, row.text, row.final)))
		a.want(t, 200, "")
		if row.final != strings.Contains(a.body, "[SECRET_") {
			t.Errorf("piece %d: %s", i, a.body)
		}
	}
}
