//go:build unix

package regular

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A named pipe is refused at once, also while somebody could write into it.
func TestPipe(t *testing.T) {
	p := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(p, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(step string) {
		t.Helper()
		if _, err := Open(p); err == nil || !strings.Contains(err.Error(), p+" is not a regular file") {
			t.Errorf("%s: %v", step, err)
		}
	}
	refused("nobody writes")
	w, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	refused("somebody may write")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
