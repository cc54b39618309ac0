// Package e2e builds the program for the tests that run it, once for each test binary. Its own tests are the scripts,
// which run the program as an operator and an author do. It must never import the program: it tests the real binary.
package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// Dir is the directory of the programs that are built, of their cache and of temporary files. Run makes it.
var Dir string

// Run runs the tests of a package with a Dir, which goes when they have ended. It returns the exit code.
func Run(m *testing.M) int {
	err := testkit.InMemory()
	if err == nil {
		Dir, err = os.MkdirTemp("", "yett-e2e-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(Dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// Cache is where all runs of the binary keep compiled modules: to compile one anew takes seconds.
func Cache() string { return filepath.Join(Dir, "cache") }

var (
	buildYett = sync.OnceValues(func() (string, error) { return build("yett", "cmd/yett") })
	buildFake = sync.OnceValues(func() (string, error) { return build("fake", "core/testkit/fakeplugin") })
)

func build(name, pkg string) (string, error) {
	path := filepath.Join(Dir, name)
	out, err := exec.Command("go", "build", "-o", path, "github.com/yett-dev/yett/"+pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// Binary is the path of the real program. With -short it skips the test.
func Binary(t testing.TB) string {
	t.Helper()
	return built(t, buildYett)
}

// Fake is the path of the plugin that misbehaves, and its digest. With -short it skips the test.
func Fake(t testing.TB) (path, digest string) {
	t.Helper()
	path = built(t, buildFake)
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(code)
	return path, "sha256:" + hex.EncodeToString(sum[:])
}

func built(t testing.TB, build func() (string, error)) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the real binary is not built")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
