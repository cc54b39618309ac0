package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/connect"
	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// A running gateway makes the key, the line that was written asks the gateway with it, and an undo revokes it.
func TestConnectWithGateway(t *testing.T) {
	root := t.TempDir()
	s := startDev(t, nil, "--data", filepath.Join(root, "data"))
	gateway, err := localGateway(s.Data, "")
	if err != nil {
		t.Fatal(err)
	}
	if gateway.Name() != s.Data {
		t.Errorf("the gateway's name is %q, expected %q", gateway.Name(), s.Data)
	}
	home := filepath.Join(root, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	r := connect.Request{Agent: hook.Copilot, Scope: connect.User, Places: connect.Places{Home: home}, UID: os.Getuid(),
		Group: -1, Gateway: gateway, Host: "here", Command: hook.Command{Yett: e2e.Binary(t)}}
	if _, err := connect.Connect(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(home, ".config/yett/hooks/copilot.json")
	line, err := hook.Guard(hook.Copilot, hook.Before, hook.Command{Yett: e2e.Binary(t), Config: config})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(command string) (stdout, stderr string) {
		cmd := exec.Command("sh", "-c", line)
		cmd.Stdin = strings.NewReader(`{"sessionId":"s","timestamp":1,"cwd":"/","toolName":"shell/run","toolArgs":{"command":"` +
			command + `"}}`)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // a refusal is a status, too
		return out.String(), errs.String()
	}
	if out, errs := ask("rm -rf /"); !strings.Contains(out, `"permissionDecision":"deny"`) ||
		!strings.Contains(out, "Ask a person") {
		t.Errorf("the gateway did not deny: %q %q", out, errs)
	}
	rows, err := exec.Command(e2e.Binary(t), "keys", "list", "--data", s.Data, "-o", "json").Output()
	if err != nil || !bytes.Contains(rows, []byte(`"copilot on here"`)) {
		t.Fatalf("%s, %v", rows, err)
	}
	res, err := connect.Undo(t.Context(), r)
	if err != nil || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "is revoked") {
		t.Errorf("%+v, %v", res, err)
	}
	left, err := os.ReadDir(home)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if out, errs := ask("ls"); !strings.Contains(out, `"permissionDecision":"deny"`) {
		t.Errorf("without its file the hook did not refuse: %q %q", out, errs)
	}
}
