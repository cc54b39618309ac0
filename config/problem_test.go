package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestProblemsHideNothing: a key of a file reaches a terminal and a log with escapes in place of what could move or
// hide text there.
func TestProblemsHideNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "yett.yaml")
	text := "version: 1\n\"a\\e[2Jb\\u202Ec\\nd\\u200Be\": 1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Sources{File: file})
	if err == nil || !strings.Contains(err.Error(), `a\u{1b}[2Jb\u{202e}c\nd\u{200b}e: unknown key`) {
		t.Errorf("%q", err)
	}
	if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("as it is: %q", err)
	}
}

// TestReadLock: what a lock says of signers can be read again, and an unknown lock is an error.
func TestReadLock(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	lock := Lock{Version: 1, Plugins: map[string]LockedFile{"a": {Wasm: "/m.wasm", Digest: digest, Signer: "acme"}}}
	got, err := ReadLock(lock.Encode("/"))
	if err != nil || got.Plugins["a"].Signer != "acme" || got.Plugins["a"].Digest != digest {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ReadLock(nil); err != nil || len(got.Plugins) != 0 {
		t.Errorf("none: %+v, %v", got, err)
	}
	for _, bad := range []string{"version: 2\n", "plugins: [", "other: 1\n"} {
		if _, err := ReadLock([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
