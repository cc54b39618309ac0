package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var buildFakes = sync.OnceValues(func() (string, error) {
	path := filepath.Join(e2eDir, "fake")
	out, err := exec.Command("go", "build", "-o", path, "../../core/testkit/fakeplugin").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// fakeBinary is the path of the plugin that misbehaves, and its digest.
func fakeBinary(t testing.TB) (path, digest string) {
	t.Helper()
	binary(t) // skips with -short
	path, err := buildFakes()
	if err != nil {
		t.Fatal(err)
	}
	return path, digestOf(t, path)
}

func digestOf(t testing.TB, path string) string {
	t.Helper()
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(code)
	return "sha256:" + hex.EncodeToString(sum[:])
}
