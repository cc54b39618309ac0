//go:build linux

package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// abandoned makes a directory whose owner is dead, for all that anybody can tell: the kernel lets go of its lock then.
func abandoned(t *testing.T, name string) string {
	t.Helper()
	return abandonedBy(t, name, nil)
}

// abandonedBy is abandoned with the directory of another user.
func abandonedBy(t *testing.T, name string, user *User) string {
	t.Helper()
	path, err := MakeDir(name, user)
	if err != nil {
		t.Fatal(err)
	}
	private.Lock()
	defer private.Unlock()
	if err := private.locks[path].Close(); err != nil {
		t.Fatal(err)
	}
	delete(private.locks, path)
	return path
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o400); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// What a killed gateway has left goes with the next start of a process, and nothing else does: no directory of a living
// one or of another form, and nothing that a link leads to.
func TestSweep(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	kept, gone := map[string]string{}, map[string]string{}
	place := func(name string) string { return filepath.Join(tmp, name) }

	gone["an empty one"] = abandoned(t, "plugin")
	full := abandoned(t, "wörker/1")
	gone["a full one"] = full
	for n := range 3 * sweepBatch {
		write(t, filepath.Join(full, strings.Repeat("d/", n%3), fmt.Sprint("f", n)))
	}
	write(t, filepath.Join(full, strings.Repeat("deep/", 2*sweepDepth), "file"))
	aim := place("aim")
	write(t, filepath.Join(aim, "file"))
	for from, to := range map[string]string{"up": "..", "out": aim, "file": filepath.Join(aim, "file")} {
		if err := os.Symlink(to, filepath.Join(full, from)); err != nil {
			t.Fatal(err)
		}
	}
	kept["what a link in it leads to"] = filepath.Join(aim, "file")

	living, err := MakeDir("plugin", nil)
	if err != nil {
		t.Fatal(err)
	}
	kept["one of a living owner"] = living
	entered := abandoned(t, "plugin")
	if err := os.Chmod(entered, 0o755); err != nil {
		t.Fatal(err)
	}
	kept["one that others can enter"] = entered
	if os.Geteuid() == 0 && maySwitch(t) { // root in a container may not be able to give anything away
		gone["one that root gave to a user"] = abandonedBy(t, "plugin", &User{UID: 64999, GID: 64998})
		stranger, pretender := abandoned(t, "plugin"), abandoned(t, "plugin")
		write(t, filepath.Join(pretender, givenMark))
		for _, path := range []string{stranger, pretender, filepath.Join(pretender, givenMark)} {
			if err := os.Chown(path, 64999, 64998); err != nil {
				t.Fatal(err)
			}
		}
		kept["one of another user's own"], kept["one with a mark of its user's own"] = stranger, pretender
	}
	for _, name := range []string{"yett-plugin-123456789", "yett-plugin-0123456789", "yett-.0123456789",
		"yett-plugin.012345678", "yett-plugin.012345678x", "other-plugin.0123456789", "yett-plugin.0123456789.d"} {
		write(t, filepath.Join(place(name), "file"))
		kept["another form: "+name] = filepath.Join(place(name), "file")
	}
	write(t, place("yett-plugin.0123456789"))
	kept["a file"] = place("yett-plugin.0123456789")
	target := place("target")
	write(t, filepath.Join(target, "file"))
	if err := os.Symlink(target, place("yett-plugin.aaaaaaaaaa")); err != nil {
		t.Fatal(err)
	}
	kept["a link"], kept["a link's target"] = place("yett-plugin.aaaaaaaaaa"), filepath.Join(target, "file")

	sweeping.Lock()
	sweeping.over = false
	sweeping.Unlock()
	p := begins(t, Command{Args: []string{"hang"}})
	sweeping.Lock() // it is held until the sweep is over, which the end of the process would cut short
	if !sweeping.over {
		t.Error("no sweep was made, or half of one")
	}
	sweeping.Unlock()
	for name, path := range gone {
		if exists(path) {
			t.Errorf("%s is still there", name)
		}
	}
	p.Kill()
	<-p.gone
	for name, path := range kept {
		if !exists(path) {
			t.Errorf("%s is gone: %s", name, path)
		}
	}
	RemoveDir(living)
	if exists(living) {
		t.Error("RemoveDir leaves it")
	}
	again := abandoned(t, "plugin")
	<-begins(t, Command{Args: []string{"echo"}}).gone
	if !exists(again) {
		t.Error("it was swept a second time")
	}
}

// A directory that a sweep finds between its making and its locking is the sweep's: whoever makes one gets one that
// stays.
func TestSweepBesideMaking(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stop := make(chan struct{})
	var sweeps, makers sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					sweep(t.Context())
				}
			}
		})
	}
	for range 4 {
		makers.Go(func() {
			for range testkit.Rounds(100, 10) {
				path, err := MakeDir("plugin", nil)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o600); err != nil {
					t.Errorf("it was swept: %v", err)
				}
				RemoveDir(path)
			}
		})
	}
	makers.Wait()
	close(stop)
	sweeps.Wait()
}
