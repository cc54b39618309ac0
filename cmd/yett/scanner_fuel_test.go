package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

// TestAuthorsBudget: a call that needs more than its budget is stopped, and its author told which limits there are.
func TestAuthorsBudget(t *testing.T) {
	file := filepath.Join(t.TempDir(), "marks.wasm")
	if err := os.WriteFile(file, wasmgen.Guest{Locals: 4, Scan: wasmgen.FindBody()}.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fuel string
		code int
		says string
	}{
		{"", 0, "found 60 in 120 bytes"},
		{"1000000", 0, "found 60 in 120 bytes"},
		{"10000", 1, "10000 units: spend less for a text, or have limits.fuel or limits.timeout of the plugin raised"},
		{"9999", 2, "want 10000 to 1000000000000 units"},
		{"1000000000001", 2, "want 10000 to 1000000000000 units"},
		{"0", 2, "want 10000 to 1000000000000 units"},
		{"-1", 2, "--fuel"},
	} {
		cmd := exec.Command(e2e.Binary(t), "scanner", "run", file)
		if c.fuel != "" {
			cmd.Args = append(cmd.Args, "--fuel", c.fuel)
		}
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+e2e.Cache())
		cmd.Stdin = strings.NewReader(strings.Repeat("!.", 60))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("--fuel %s: exit %d, want %d with %q: %s", c.fuel, cmd.ProcessState.ExitCode(), c.code, c.says, out)
		}
	}
}
