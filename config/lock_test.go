package config

import (
	"path/filepath"
	"slices"
	"testing"
)

// A lock pins what the main file leaves open, and what its writer writes is what its reader reads.
func TestLock(t *testing.T) {
	file := filepath.Join("testdata", "lock", "yett.yaml")
	c, err := Load(Sources{File: file, Builtins: builtins})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Plugins["acme-ids"]
	if p.Digest != "sha256:93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476" || p.Signer != "acme" {
		t.Errorf("got digest %q and signer %q", p.Digest, p.Signer)
	}
	if !slices.Contains(c.Files(), filepath.Join("testdata", "lock", LockName)) {
		t.Errorf("the lock is not among the files read: %v", c.Files())
	}
	if problems := c.Check(); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	unlocked, err := Load(Sources{File: file, Builtins: builtins, Unlocked: true})
	if err != nil || unlocked.Plugins["acme-ids"].Digest != "" {
		t.Errorf("unlocked: digest %q, error %v", unlocked.Plugins["acme-ids"].Digest, err)
	}
	if c.Hash() == unlocked.Hash() {
		t.Error("the policy hash does not see what the lock pins")
	}

	dir := filepath.Join("testdata", "lock")
	text := Lock{Plugins: map[string]LockedFile{"acme-ids": {Wasm: p.Wasm, Digest: p.Digest,
		Signer: p.Signer}}}.Encode(dir)
	golden(t, filepath.Join(dir, LockName), text)
}

// What can be wrong with a lock is said; nothing of it is left out in silence.
func TestBadLocks(t *testing.T) {
	for _, name := range []string{"lock-wrong", "lock-broken"} {
		t.Run(name, func(t *testing.T) {
			got := verdict(Sources{File: filepath.Join("testdata", name, "yett.yaml"), Builtins: builtins})
			if got == "" {
				t.Fatal("nothing was found wrong")
			}
			golden(t, filepath.Join("testdata", name, "yett.err"), []byte(got))
		})
	}
}
