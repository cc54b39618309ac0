package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What every file held when it was read is known, of a configuration that was refused too: else nobody could tell
// whether it has changed since.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path(name)), 0o700),
			os.WriteFile(path(name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(text string) string {
		s := sha256.Sum256([]byte(text))
		return hex.EncodeToString(s[:])
	}
	const main, drop, rules = "version: 1\nchains: {authorize: {steps: [{name: r, rules: [r.yaml]}]}}\n",
		"audit: {args: full}\n", "rules: [{id: a, tools: [\"**\"], effect: deny}]\n"
	put("yett.yaml", main)
	put("conf.d/a.yaml", drop)
	put("conf.d/a.yaml.bak", "x")
	put("r.yaml", rules)
	c, err := Load(Sources{File: path("yett.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Read()
	for name, text := range map[string]string{"yett.yaml": main, "conf.d/a.yaml": drop, "r.yaml": rules} {
		if got[path(name)] != sum(text) {
			t.Errorf("%s: %q, want %q", name, got[path(name)], sum(text))
		}
	}
	if len(got) != 3 {
		t.Errorf("%v", got)
	}
	delete(got, path("r.yaml"))
	if len(c.Read()) != 3 {
		t.Error("it is not a copy")
	}
	const broken = "version: 1\nplugins: {s: {kind: scanner, builtin: s, config: {a: \"${file:gone}\"}}}\n"
	put("yett.yaml", broken)
	_, err = Load(Sources{File: path("yett.yaml")})
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	got = e.Read()
	if at, there := got[path("gone")]; got[path("yett.yaml")] != sum(broken) || !there || at != "" || len(got) != 3 {
		t.Errorf("%v", got)
	}
}
