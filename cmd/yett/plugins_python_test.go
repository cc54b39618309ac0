//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/confine"
)

// TestPythonPluginBehindAGateway: the example in Python decides for a running gateway, inside the kernel's confinement,
// as its README configures it.
func TestPythonPluginBehindAGateway(t *testing.T) {
	python := os.Getenv("YETT_PYTHON")
	if python == "" {
		t.Skip("YETT_PYTHON is not set: it names a Python with grpcio, grpcio-tools and cryptography")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "amounts-python.pyz")
	build := exec.Command("./build.sh", program)
	build.Dir = "../../examples/authorizer-python"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	paths := []string{filepath.Dir(filepath.Dir(python))} // the environment, and where its interpreter is installed
	if real, err := filepath.EvalSymlinks(python); err == nil {
		paths = append(paths, filepath.Dir(filepath.Dir(real)))
	}
	plugin := fmt.Sprintf("  amounts: {kind: authorizer, exec: %s, digest: %q, paths: {read: [%s]}, network: none, "+
		"config: {tools: [\"payments/*\"], limit: 100}, limits: {start: 60s, timeout: 30s}}\n",
		program, digestOf(t, program), strings.Join(paths, ", "))
	file := writeConfig(t, dir, plugin, "      - {use: amounts, timeout: 30s, match: {tools: [\"payments/**\"]}}\n", "")
	s := startDev(t, nil, "--config", file)
	if gaps := confine.Gaps(&confine.Policy{Network: &confine.Network{}}); len(gaps) == 0 &&
		!strings.Contains(s.readiness(), `{"name":"confinement","ok":true`) {
		t.Errorf("readyz: %s", s.readiness())
	}
	for amount, want := range map[string]string{"99.99": "PERMIT", "100.01": "DENY AMOUNT_TOO_HIGH",
		`"much"`: "DENY AMOUNT_UNREADABLE"} {
		a := s.post(s.Keys.Agent, "/v1/authorize",
			fmt.Sprintf(`{"agent_id":"a","tool_id":"payments/refund","args":{"amount":%s}}`, amount))
		if got := a.str("effect") + " " + a.str("reason_code"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", amount, a.body, want)
		}
	}
}
