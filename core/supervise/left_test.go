//go:build linux

package supervise

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// leaves starts a process in a directory or with one in its environment, as somebody who can get no new privileges if
// bound.
func leaves(t *testing.T, dir string, env []string, bound bool) (c *exec.Cmd, ended chan struct{}) {
	t.Helper()
	c = exec.Command("/bin/sleep", "1000")
	c.Dir, c.Env = dir, env
	started := make(chan error)
	ended = make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if bound {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				started <- err
				return
			}
		}
		started <- c.Start()
		_ = c.Wait() // killed
		close(ended)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); <-ended })
	return c, ended
}

// TestSweepEndsWhatWasLeft: what a plugin has started, and what outlived a gateway that was killed, ends with the
// plugin's directory, by where it works or by its environment. Who only stands in the directory, and who is of another
// one, is left alone.
func TestSweepEndsWhatWasLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead := abandoned(t, "plugin")
	living, err := MakeDir("plugin", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer RemoveDir(living)
	_, inside := leaves(t, dead, []string{}, true)
	_, named := leaves(t, "/", []string{"TMPDIR=" + dead}, true)
	person, _ := leaves(t, dead, []string{}, false)
	other, _ := leaves(t, living, []string{"TMPDIR=" + living}, true)
	sweep(t.Context())
	<-inside
	<-named
	if exists(dead) {
		t.Error("the directory is still there")
	}
	for name, c := range map[string]*exec.Cmd{"a person's": person, "another gateway's": other} {
		if err := c.Process.Signal(unix.Signal(0)); err != nil {
			t.Errorf("%s has ended: %v", name, err)
		}
	}
}

// TestSweepLeavesStrangers: in a directory of another user's own, which only has the name of a private one, root ends
// what a gateway has started, and nobody else.
func TestSweepLeavesStrangers(t *testing.T) {
	if os.Geteuid() != 0 || !maySwitch(t) {
		return // nobody else's directories are looked at
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir := abandoned(t, "plugin")
	if err := os.Chown(dir, 64999, 64998); err != nil {
		t.Fatal(err)
	}
	stranger, _ := leaves(t, dir, []string{}, true)
	plugins, ended := leaves(t, dir, []string{}, true)
	if err := unix.Prlimit(plugins.Process.Pid, unix.RLIMIT_LOCKS, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	sweep(t.Context())
	<-ended
	if err := stranger.Process.Signal(unix.Signal(0)); err != nil || !exists(dir) {
		t.Errorf("the stranger: %v; its directory is there: %v", err, exists(dir))
	}
}
