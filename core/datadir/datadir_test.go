package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestOneHolder(t *testing.T) {
	dir := t.TempDir()
	first, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(dir)
	used, ok := errors.AsType[*InUseError](err)
	if !ok || used.PID != os.Getpid() || used.Dir != dir {
		t.Fatalf("the second one got %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "process "+strconv.Itoa(os.Getpid())) ||
		strings.Contains(text, "temporarily") {
		t.Errorf("it is told %q", text)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Acquire(dir)
	if err != nil {
		t.Fatalf("after it was released: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// What a dead holder has written keeps nobody out, and whatever else is in the file is not taken for a process.
func TestWhatIsLeftBehind(t *testing.T) {
	for name, text := range map[string]string{"a dead one": "4194000\n", "nothing": "", "not a number": "who\n",
		"negative": "-1\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := Acquire(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = Acquire(dir)
			if used, ok := errors.AsType[*InUseError](err); !ok || used.PID != 0 && name != "a dead one" {
				t.Errorf("got %v", err)
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestManyAtOnceHaveOneWinner(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []*Lock
	for range 32 {
		wg.Go(func() {
			l, err := Acquire(dir)
			if _, used := errors.AsType[*InUseError](err); err != nil && !used {
				t.Error(err)
			}
			if l != nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, l)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d hold it", len(won))
	}
	if err := won[0].Release(); err != nil {
		t.Error(err)
	}
}

// A link in place of the lock is not followed: it could name a file of somebody else's.
func TestLinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(dir, Name)); err != nil {
		t.Fatal(err)
	}
	if l, err := Acquire(dir); err == nil {
		t.Error(l.Release())
		t.Error("it was followed")
	}
}
