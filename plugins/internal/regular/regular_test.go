package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A larger file is read so far that its caller can tell, and no further.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "f")
	if err := os.WriteFile(p, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{6: "12345", 5: "12345", 4: "12345", 3: "1234", 0: "1"} {
		if got, err := Read(p, most); err != nil || string(got) != want {
			t.Errorf("at most %d: %q, %v; want %q", most, got, err, want)
		}
	}
	if _, err := Read(dir, 5); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Read(filepath.Join(dir, "none"), 5); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
