package mcpd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// TestReadmeConfigures reads every block of the README with the programs that read it in earnest.
func TestReadmeConfigures(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	gateway, rules := doortest.Block(t, string(text), "yaml", "mcp:"), doortest.Block(t, string(text), "yaml", "rules:")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gateway = strings.Replace(gateway, "  enabled: true\n", "  enabled: true\n"+doortest.Block(t, string(text), "yaml",
		"oauth:"), 1)
	write("rules.yaml", rules)
	const steps = "chains:\n  authorize:\n    steps: [{name: r, rules: [rules.yaml]}]\n"
	file := write("yett.yaml", strings.Replace(gateway, "chains:\n", steps, 1))
	cfg, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.MCP.Servers) != 2 || !cfg.MCP.Enabled || len(cfg.MCP.OAuth.Clients) != 2 {
		t.Errorf("%+v", cfg.MCP)
	}
	var client struct {
		Servers map[string]struct{ URL string } `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(doortest.Block(t, string(text), "json", "mcpServers")), &client); err != nil {
		t.Fatal(err)
	}
	for name, s := range client.Servers {
		if want := "http://" + cfg.MCP.Listen + "/mcp/" + name; s.URL != want {
			t.Errorf("the client's URL is %s, the gateway's %s", s.URL, want)
		}
	}
}
