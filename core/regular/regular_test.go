//go:build linux || darwin

package regular

import (
	"context"
	"errors"
	"fmt"
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
		os.WriteFile(at("sparse"), nil, 0o600), os.Truncate(at("sparse"), 1<<40), os.Symlink("pipe", at("link"))); err !=
		nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"file": nil, "pipe": ErrKind, "link": ErrKind, ".": ErrKind,
		"sparse": ErrSize, "none": fs.ErrNotExist} {
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

// TestReadNamed: of what the user names, a descriptor is read to its end, and no longer than the context lasts; a pipe
// in the place of a file is refused at once.
func TestReadNamed(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.WriteFile(at("file"), []byte("12345"), 0o600)); err !=
		nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("the command was interrupted"))
	for name, c := range map[string]struct {
		ctx  context.Context
		path string
		want error
	}{
		"file":      {t.Context(), at("file"), nil},
		"pipe":      {t.Context(), at("pipe"), ErrKind},
		"none":      {t.Context(), at("none"), fs.ErrNotExist},
		"written":   {t.Context(), pipe(t, "12345", true), nil},
		"too large": {t.Context(), pipe(t, "123456", true), ErrSize},
		"open":      {ended, pipe(t, "", false), context.Cause(ended)},
	} {
		data, err := ReadNamed(c.ctx, c.path, 5)
		if !errors.Is(err, c.want) || err == nil && string(data) != "12345" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if err == nil {
			continue
		}
		if path, ok := errors.AsType[*fs.PathError](err); !ok || path.Path != c.path {
			t.Errorf("%s: no path in %v", name, err)
		}
	}
}

// pipe is the path of the end of a pipe that a shell would give to a command.
func pipe(t *testing.T, text string, closed bool) string {
	r, w, err := os.Pipe()
	if err == nil {
		_, err = w.WriteString(text)
	}
	if err == nil && closed {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return fmt.Sprintf("/dev/fd/%d", r.Fd())
}
