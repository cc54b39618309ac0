package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// A user without a home that can be written compiles modules anew; nothing fails for that.
func TestModuleCache(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	dir := cli.ModuleCache()
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || filepath.Dir(filepath.Dir(filepath.Dir(dir))) != home {
		t.Errorf("%q: %v", dir, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, none := range []string{"", file, filepath.Join(file, "below")} {
		t.Setenv("HOME", none)
		if dir := cli.ModuleCache(); dir != "" {
			t.Errorf("HOME=%q: %q", none, dir)
		}
	}
}
