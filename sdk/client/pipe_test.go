//go:build linux || darwin

package client

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A pipe that nobody writes to, a directory and a file without end are no certificates: New says so, and waits for
// nothing.
func TestCertificatesAreFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, sparse := filepath.Join(dir, "pipe"), filepath.Join(dir, "sparse")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(sparse, nil, 0o600),
		os.Truncate(sparse, 1<<40)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "it is not a regular file", dir: "it is not a regular file",
		sparse: "it is larger than 1048576 bytes", filepath.Join(dir, "none"): "no such file"} {
		for name, o := range map[string]Options{"CACert": {CACert: path}, "Cert": {Cert: path, CertKey: path}} {
			o.URL = "https://gate.example"
			_, err := New(o)
			if e, ok := errors.AsType[*Error](err); !ok || e.Field != name || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		t.Setenv("YETT_CACERT", path)
		if _, err := New(Options{URL: "https://gate.example"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("YETT_CACERT: %v, want %q", err, want)
		}
		t.Setenv("YETT_CACERT", "")
	}
}

// What the shell has opened for the command is read, whatever it is.
func TestCertificatesMayComeFromTheShell(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := w.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := readPEM("/dev/fd/" + strconv.Itoa(int(r.Fd()))); err != nil || string(text) != "text" {
		t.Errorf("%q %v", text, err)
	}
}
