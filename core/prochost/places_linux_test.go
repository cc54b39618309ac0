package prochost

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/core/supervise"
)

// nobodyEnv is set in the child that TestPeerNobody puts into a user namespace.
const nobodyEnv = "PROCHOST_NOBODY"

// TestPeerNobody: in a user namespace all users from outside are one number. A plugin that has it may be anybody.
func TestPeerNobody(t *testing.T) {
	if os.Getenv(nobodyEnv) == "" {
		c := exec.Command("/proc/self/exe", "-test.run=^TestPeerNobody$", "-test.v")
		c.Env = append(os.Environ(), nobodyEnv+"="+t.TempDir())
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			return // this machine gives no user namespaces
		}
		if err := c.Wait(); err != nil || !strings.Contains(out.String(), "PASS: TestPeerNobody") {
			t.Errorf("%v\n%s", err, &out)
		}
		return
	}
	uid := uint32(os.Getuid())
	if n, some := peer.Nobody(); !some || uid != n {
		t.Fatalf("user %d, nobody is %d: this is not what the test is about", uid, n)
	}
	l, at := listens(t)
	defer l.Close()
	s := Spec{Name: "side", Kind: Authorizer, Connect: at, Peer: &Peer{UID: &uid}}
	if err := startError(t, s, Options{}); !strings.Contains(err.Error(), "anybody without a number") {
		t.Error(err)
	}
}

// TestSecretsOnDisk: where the kernel refuses files in memory, the operator is told where the secrets lie.
func TestSecretsOnDisk(t *testing.T) {
	var told string
	o := Options{Log: func(_ string, level int, line string) { told += line }}
	s := guestSpec("stock")
	s.Secrets = map[string][]byte{"one": []byte("1"), "two": []byte("2")}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the filter is this thread's, which ends with it
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_MEMFD_CREATE},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		err := errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
			unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0))
		if err != nil {
			done <- err
			return
		}
		b, err := newBirth(&o, &s)
		if err == nil {
			defer b.release()
			for name, path := range b.secrets {
				got, rerr := os.ReadFile(path)
				if filepath.Dir(path) != b.dir || !bytes.Equal(got, s.Secrets[name]) {
					err = errors.Join(err, rerr, errors.New(path+" holds something else"))
				}
			}
			if !strings.Contains(told, "2 of its secrets lie in "+b.dir) {
				err = errors.Join(err, errors.New("told: "+told))
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLooseOrphans: what a plugin left behind and could not be killed is told.
func TestLooseOrphans(t *testing.T) {
	var told []string
	o := Options{Log: func(_ string, _ int, line string) { told = append(told, line) }}
	p, ended := supervise.Outside("guest", func(bool) {})
	ended(nil)
	tellLeft(&o, "guest", p)
	if len(told) != 0 {
		t.Errorf("%q", told)
	}
	tellEnd(&o, "guest", supervise.Exit{Left: []string{"sleep (7)"}, Loose: context.DeadlineExceeded})
	if len(told) != 2 || !strings.Contains(told[0], "were killed: sleep (7)") ||
		!strings.Contains(told[1], "may still run") {
		t.Errorf("%q", told)
	}
}

// TestLongSocketPath: a path that no socket can have is refused as such.
func TestLongSocketPath(t *testing.T) {
	uid := uint32(os.Getuid())
	s := Spec{Name: "side", Kind: Authorizer, Connect: "unix:///" + strings.Repeat("x", maxSocketPath),
		Peer: &Peer{UID: &uid}}
	if _, err := Load(t.Context(), Options{}, s); err == nil ||
		!strings.Contains(err.Error(), "at most 107 bytes, this one 108") {
		t.Error(err)
	}
}
