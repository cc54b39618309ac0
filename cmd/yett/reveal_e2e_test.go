package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// TestReveal has a secret of a session replaced by a token, and reads it again with a key that may, by the command.
func TestReveal(t *testing.T) {
	t.Parallel()
	yett := e2e.Binary(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "yett.yaml")
	if err := os.WriteFile(config, []byte(`version: 1
plugins:
  secrets: {kind: scanner, builtin: secrets}
chains:
  scan_output:
    steps: [{use: secrets}]
    actions: [{action: redact, replacement: "{token}"}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	s := startDev(t, nil, config, "--data", data)
	answer := s.post(s.Keys.Agent, "/v1/scan_output", `{"tool_id":"t","agent_id":"demo","session_id":"s-1","output":"a\n`+
		token+` b"}`)
	var scanned struct {
		SanitizedOutput string `json:"sanitized_output"`
	}
	if err := json.Unmarshal([]byte(answer.body), &scanned); err != nil ||
		!strings.HasPrefix(scanned.SanitizedOutput, "a\n[SECRET_GITHUB_PAT#") {
		t.Fatalf("%v: %s", err, answer.body)
	}
	made, stderr, code := execute(t, dir, yett, "keys", "create", "support", "--scopes", "reveal", "--data", data, "-o",
		"json")
	var key struct{ Key string }
	if err := json.Unmarshal([]byte(made), &key); err != nil || code != 0 {
		t.Fatalf("%v, exit %d: %s", err, code, stderr)
	}
	reveal := func(key string, args ...string) (string, string, int) {
		t.Helper()
		line := append([]string{"YETT_API_KEY=" + key, "YETT_URL=" + s.URL, yett, "reveal", "--agent", "demo"}, args...)
		return execute(t, dir, "env", line...)
	}
	out, errs, code := reveal(key.Key, "--session", "s-1", scanned.SanitizedOutput)
	if out != "a\n"+token+" b\n" || code != 0 {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
	out, errs, code = reveal(key.Key, "--session", "s-2", scanned.SanitizedOutput)
	if out != scanned.SanitizedOutput+"\n" || code != 0 || !strings.Contains(errs, "1 tokens are not of this agent") {
		t.Errorf("another session: exit %d: %q %s", code, out, errs)
	}
	if out, errs, code := reveal(s.Keys.Operator, "--session", "s-1", scanned.SanitizedOutput); out != "" || code == 0 ||
		!strings.Contains(errs, "lacks scope reveal") {
		t.Errorf("an operator: exit %d: %q %s", code, out, errs)
	}
	if _, errs, code := reveal(key.Key, scanned.SanitizedOutput); code != 2 || !strings.Contains(errs, "--session") {
		t.Errorf("no session: exit %d: %s", code, errs)
	}
}
