package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// TestOurPluginsConform has yett plugin conform try each plugin of plugins/ with the example that its Info carries.
func TestOurPluginsConform(t *testing.T) {
	testkit.Slow(t, "builds all plugins")
	yett := e2e.Binary(t) // skips with -short
	mains, err := filepath.Glob("../../plugins/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatal(mains, err)
	}
	dir := t.TempDir()
	for _, m := range mains {
		name := filepath.Base(filepath.Dir(m))
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(dir, name)
			if out, err := exec.Command("go", "build", "-o", program, "../../plugins/"+name).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := exec.Command(yett, "plugin", "conform", "--timeout", "5s", program).CombinedOutput()
			if err != nil || !strings.Contains(string(out), " conforms (") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
