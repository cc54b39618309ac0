package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// A module at scanners/NAME/NAME.wasm is a built-in of that name: nothing in core has to know of it. The folder exists
// only in the eyes of the compiler here.
func TestScannerNeedsNoCore(t *testing.T) {
	testkit.Slow(t, "builds a project")
	if testing.Short() {
		t.Skip("builds the program; not in -short")
	}
	dir := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "scanners", "newcomer", "newcomer.wasm.gz"): filepath.Join(root, "scanners",
			"secrets", "secrets.wasm.gz"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(overlay))
	write(t, filepath.Join(dir, "rules.yaml"), "rules:\n  - {id: reads, tools: [\"*/read\"], effect: permit}\n")
	write(t, filepath.Join(dir, "yett.yaml"), `version: 1
plugins: {newcomer: {kind: scanner, builtin: newcomer}}
chains:
  authorize: {steps: [{name: house-rules, rules: [rules.yaml]}]}
  scan_output: {steps: [{use: newcomer}], actions: [{action: flag}]}
`)
	check := func(overlay ...string) (string, error) {
		cmd := exec.Command("go", append(append([]string{"run"}, overlay...), ".", "config", "check",
			filepath.Join(dir, "yett.yaml"))...)
		cmd.Env = os.Environ()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(); err == nil || !strings.Contains(out, `no module "newcomer" comes with this version`) {
		t.Errorf("without the folder: %v\n%s", err, out)
	}
	if out, err := check("-overlay", filepath.Join(dir, "overlay.json")); err != nil || !strings.Contains(out, "is good") {
		t.Errorf("with the folder: %v\n%s", err, out)
	}
}
