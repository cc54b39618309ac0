//go:build linux || darwin

package signedhttp

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe that nobody writes to is refused where a certificate is named, and waited for by nobody.
func TestCertificatesAreFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, conf := range map[string]TLS{"tls.ca_file": {CAFile: pipe},
		"tls.cert_file": {CertFile: pipe, KeyFile: pipe}} {
		if _, err := conf.Config(); err == nil || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
