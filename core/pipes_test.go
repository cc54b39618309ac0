//go:build linux || darwin

package core

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/pin"
)

// TestNothingWaitsForAPipe: a pipe in the place of a file that a configuration names is an error, or as good as no
// file, at once.
func TestNothingWaitsForAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() bool{
		"a program's digest": func() bool { _, err := pin.File(pipe, 1<<20); return err != nil },
		"a certificate": func() bool {
			_, err := tlsConfig(cfg, "server.tls", config.TLS{Cert: config.Path(pipe), Key: config.Path(pipe)})
			return err != nil
		},
	} {
		done := make(chan bool, 1)
		go func() { done <- read() }()
		select {
		case ok := <-done:
			if !ok {
				t.Errorf("%s: no error", name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits", name)
		}
	}
}
