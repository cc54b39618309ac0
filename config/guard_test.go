package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuardedPaths: no plugin may write where the server's program lies, nor by a link to what the server reads. Beside that it may, and it
// may read the rules.
func TestGuardedPaths(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"etc", "real", "out"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rules := filepath.Join(dir, "real", "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules:\n  - {id: all, tools: [\"**\"], effect: permit}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(rules, filepath.Join(dir, "etc", "rules.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "out", "p"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(nil)
	for paths, want := range map[string]string{
		"{write: [" + filepath.Dir(program) + "]}": "reaches the directory of the server's program",
		"{write: [../real]}":                       "which the server reads",
		"{write: [../etc/../real/rules.yaml]}":     "which the server reads",
		"{write: [../out/p.d, data]}":              "",
		"{read: [., ../real]}":                     "",
	} {
		main := filepath.Join(dir, "etc", "yett.yaml")
		text := "version: 1\nplugins:\n  p: {kind: authorizer, exec: ../out/p, digest: \"sha256:" + hex.EncodeToString(sum[:]) + "\", paths: " + paths + "}\n" +
			"chains:\n  authorize: {steps: [{use: p}, {name: house, rules: [rules.yaml]}]}\n"
		if err := os.WriteFile(main, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := verdict(Sources{File: main})
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, expected %q", paths, got, want)
		}
	}
}
