package reload

import (
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestLook: a file is known by what it holds. One that is gone, or is no file, is told apart, and nobody waits for a
// pipe.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "a"), filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	seen := seen{}
	if got := seen.look([]string{file, pipe}); got[file] != gone || got[pipe] != other || sumOf(pipe) != other {
		t.Errorf("%v", got)
	}
	write("one")
	one := seen.look([]string{file})[file]
	write("two")
	two := seen.look([]string{file})[file]
	write("one")
	if again := seen.look([]string{file})[file]; one == two || again != one || len(one) != 64 {
		t.Errorf("one %s, two %s, one again %s", one, two, again)
	}
}

// TestTried: what came or changed during a reload is still to be tried.
func TestTried(t *testing.T) {
	before := map[string]string{"read": "1", "changed": "1", "looked at": "1"}
	read := map[string]string{"read": "1", "changed": "2", "hidden": ""}
	now := map[string]string{"read": "1", "changed": "3", "looked at": "2", "hidden": "1", "came": "1"}
	want := map[string]string{"read": "1", "changed": "2", "looked at": "1", "hidden": "1", "came": gone}
	if got := tried(before, read, now); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
