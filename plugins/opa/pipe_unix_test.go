//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
)

// A bundle that is a named pipe is refused at once, also while somebody could write into it: reading it might never
// end.
func TestBundleIsAPipe(t *testing.T) {
	p := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := syscall.Mkfifo(p, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	policytest.Refuses(t, newAuthorizer(), map[string]any{"bundle": p}, p+" is not a regular file")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
