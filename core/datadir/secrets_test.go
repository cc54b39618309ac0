package datadir

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestNoSecretIsReadFromAPipe: a pipe in the place of a secret is an error at once.
func TestNoSecretIsReadFromAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Secret(pipe, 32)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
}
