package project

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestProject: templates are filled in, scripts can be run, and nothing is written over.
func TestProject(t *testing.T) {
	templates := fstest.MapFS{"t/a/__LOWER__.go.tmpl": {Data: []byte("__NAME__ __LOWER__")},
		"t/a/deep/run.sh": {Data: []byte("#!/bin/sh\n")}, "t/b/other": {}}
	files := map[string][]byte{}
	if err := Fill(files, templates, "t/a", "Demo-1"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	names, err := Write(dir, files)
	if err != nil || !slices.Equal(names, []string{"deep/run.sh", "demo-1.go"}) {
		t.Fatalf("%v, %v", names, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "demo-1.go")); err != nil || string(text) != "Demo-1 demo-1" {
		t.Errorf("%s, %v", text, err)
	}
	for file, want := range map[string]os.FileMode{"deep/run.sh": 0o100, "demo-1.go": 0} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode()&0o100 != want {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if _, err := Write(dir, files); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("written over: %v", err)
	}
	if err := writeNew(filepath.Join(dir, "demo-1.go"), nil); err == nil {
		t.Error("a file is written over")
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "Demo-1": true, strings.Repeat("a", 40): true, "": false, "1a": false,
		"a-": false, "a/b": false, "..": false, "a\n": false, strings.Repeat("a", 41): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := CheckName("a\x1b[2J"); strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}
