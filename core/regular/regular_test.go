//go:build linux || darwin

package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestRead: a file is read whole; what is none, or too large, is an error that names the path, at once.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.WriteFile(at("file"), []byte("12345"), 0o600),
		os.WriteFile(at("sparse"), nil, 0o600), os.Truncate(at("sparse"), 1<<40), os.Symlink("pipe", at("link"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"file": nil, "pipe": ErrKind, "link": ErrKind, ".": ErrKind, "sparse": ErrSize, "none": fs.ErrNotExist} {
		done := make(chan error, 1)
		var data []byte
		go func() {
			var err error
			data, err = Read(at(name), 5)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, want) || err == nil && string(data) != "12345" {
				t.Errorf("%s: %q, %v", name, data, err)
			}
			if path, ok := errors.AsType[*fs.PathError](err); err != nil && (!ok || path.Path != at(name)) {
				t.Errorf("%s: no path in %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits", name)
		}
	}
	if _, err := Read(at("file"), 4); !errors.Is(err, ErrSize) {
		t.Error(err)
	}
}
