package guardrails_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/config"
)

var block = regexp.MustCompile("(?s)\n```(yaml|json) ([a-z]+)\n(.*?)```\n")

// Every configuration in the README can be read: ours by our own reader, the others in their format and with the
// settings without which they let things pass.
func TestConfigurationsInTheREADME(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	must := map[string][]string{
		"litellm": {"guardrail: generic_guardrail_api", "unreachable_fallback: fail_closed", "fail_on_error: true",
			"streaming_transform_mode: incremental_diff", "default_on: true"},
		"portkey":      {`"deny": true`, `"async": false`, `"failOnError": true`, portkey},
		"agentgateway": {agRequest, agAnswer, "failClosed"},
		"kong":         {"/v1/scan_output", "guarding_mode: BOTH", "stop_on_error: true"},
	}
	ours := 0
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if m[2] == "yett" {
			ours++
			file := filepath.Join(t.TempDir(), "yett.yaml")
			if err := os.WriteFile(file, []byte(m[3]), 0o600); err != nil {
				t.Fatal(err)
			}
			if c, err := config.Load(config.Sources{File: file}); err != nil {
				t.Errorf("%v\n%s", err, m[3])
			} else if !c.Doors.HTTP() {
				t.Errorf("no door is on:\n%s", m[3])
			}
			continue
		}
		var v any
		read := yaml.Unmarshal
		if m[1] == "json" {
			read = json.Unmarshal
		}
		if err := read([]byte(m[3]), &v); err != nil {
			t.Errorf("%s: %v", m[2], err)
		}
		for _, s := range must[m[2]] {
			if !strings.Contains(m[3], s) {
				t.Errorf("%s: it lacks %s", m[2], s)
			}
		}
		delete(must, m[2])
	}
	if ours != 4 || len(must) > 0 {
		t.Errorf("%d configurations of ours, and none of %v", ours, must)
	}
}
