package loaded

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestNoInterpreterIsReadFromAPipe: a pipe in the place of a program has no first line, and nobody waits for one.
func TestNoInterpreterIsReadFromAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan []string, 1)
	go func() { done <- interpreter(pipe) }()
	select {
	case got := <-done:
		if got != nil {
			t.Errorf("%q", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
}
