package authzen_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/loaded"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// What the README shows is a configuration that turns the door on, and rules that compile.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	dir := t.TempDir()
	for i, name := range []string{"yett.yaml", "rules.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), blocks[i][1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(config.Sources{File: filepath.Join(dir, "yett.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Doors.HTTP() || c.Doors.AuthZEN.URL != pdp || !slices.Equal(c.Doors.Names(), []string{"pdp.example.com"}) {
		t.Errorf("%+v", c.Doors)
	}
	sets, err := config.ReadRules(filepath.Join(dir, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loaded.CompileRules(sets); err != nil {
		t.Error(err)
	}
}
