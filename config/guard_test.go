package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuardedPaths: no plugin may write where the server's program lies, nor by a link to what the server reads. Beside
// that it may, and it may read the rules.
func TestGuardedPaths(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"etc", "real", "out", "way", "links", "store"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rules := filepath.Join(dir, "real", "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules:\n  - {id: all, tools: [\"**\"], effect: permit}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		"way/rules.yaml": rules, "etc/rules.yaml": "../way/rules.yaml", "way/real": "../real",
		"etc/here": "../way/real/../real", "etc/round": "round", "links/data": "../store", "etc/policies": "../out/policies",
	} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"p", "q"} {
		if err := os.WriteFile(filepath.Join(dir, "out", program), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(nil)
	for _, c := range []struct{ paths, rules, want string }{
		{"{write: [" + filepath.Dir(program) + "]}", "rules.yaml", "reaches the directory of the server's program"},
		{"{write: [../real]}", "rules.yaml", "which the server reads"},
		{"{write: [../etc/../real/rules.yaml]}", "rules.yaml", "which the server reads"},
		{"{write: [../way]}", "rules.yaml", "which the server reads"},
		{"{write: [../way]}", "../way/real/rules.yaml", "which the server reads"},
		{"{write: [../way]}", "here/rules.yaml", "which the server reads"},
		{"{write: [../way/real]}", "rules.yaml", "which the server reads"},
		{"{write: [../links]}", "rules.yaml", "links/data, which the server uses"},
		{"{write: [../out/policies/teams]}", "rules.yaml", "which plugin q reads"},
		{"{write: [../out/p.d, round]}", "rules.yaml", ""},
		{"{write: [../way]}", "../real/rules.yaml", ""},
		{"{read: [., ../real/rules.yaml]}", "rules.yaml", ""},
	} {
		main := filepath.Join(dir, "etc", "yett.yaml")
		plugin := ": {kind: authorizer, digest: \"sha256:" + hex.EncodeToString(sum[:]) + "\", "
		text := "version: 1\nstorage: {path: ../links/data}\nplugins:\n  p" + plugin + "exec: ../out/p, paths: " + c.paths +
			"}\n" +
			"  q" + plugin + "exec: ../out/q, paths: {read: [policies]}}\n" +
			"chains:\n  authorize: {steps: [{use: p}, {use: q}, {name: house, rules: [" + c.rules + "]}]}\n"
		if err := os.WriteFile(main, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := verdict(Sources{File: main})
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s with %s: %q, expected %q", c.paths, c.rules, got, c.want)
		}
	}
}
