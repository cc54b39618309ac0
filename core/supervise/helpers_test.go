//go:build linux

package supervise

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const patience = 4 * time.Minute // for what must happen; reached only when it does not

func notify(c chan os.Signal) { signal.Notify(c, syscall.SIGTERM) }

// death is read while the package is initialised, which is on the main thread: the signal is that thread's.
var death = deathSignal()

func deathSignal() (sig int) {
	var n int32
	unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&n)), 0, 0, 0)
	return int(n)
}

// begins starts a child of a test, which ends with the test.
func begins(t *testing.T, c Command) *Process {
	t.Helper()
	if c.Name == "" {
		c.Name = strings.ReplaceAll(t.Name(), "/", "-")
	}
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		ends(t, p)
		io.Copy(io.Discard, p.Out())
		<-p.gone
	})
	return p
}

func ends(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("process %d did not end", p.Pid())
	}
	return p.Exit()
}

// line reads one line of a child's stdout.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read a line: %q, %v", s, err)
	}
	return strings.TrimSpace(s)
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// watch opens a process that is not our child, so that its end can be awaited.
func watch(t *testing.T, pid int) (dead func(time.Duration) bool) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("open process %d: %v", pid, err)
	}
	t.Cleanup(func() {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		unix.Close(fd)
	})
	return func(d time.Duration) bool {
		for limit := time.Now().Add(d); ; {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
				int(max(0, time.Until(limit).Milliseconds())))
			if err != unix.EINTR {
				return n > 0
			}
		}
	}
}

// until polls for what nothing announces.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// maySwitch says whether this process may start others as another user, and give files away: root in a container may
// not be able to.
func maySwitch(t *testing.T) bool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/true")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64999, Gid: 64998, Groups: []uint32{64997}}}
	return os.Chown(file, 64999, 64998) == nil && c.Run() == nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func fileDigest(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return digestOf(b)
}
