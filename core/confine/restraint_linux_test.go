package confine

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRestraintOf: what /proc tells is read as it is, and what it does not tell is an error.
func TestRestraintOf(t *testing.T) {
	const open, shut = "Max file locks            unlimited            unlimited            locks     \n",
		"Max open files 1 2 files\nMax file locks            0                    0                    locks     \n"
	status := func(state, privs, rest string) string {
		return "Name:\tx\nState:\t" + state + "\nNoNewPrivs:\t" + privs + "\n" + rest
	}
	for name, c := range map[string]struct {
		status, limits string
		want           Restraint
		err            string
	}{
		"free":                  {status("S (sleeping)", "0", "Seccomp:\t0\nSeccomp_filters:\t0\n"), open, Restraint{}, ""},
		"a plugin":              {status("S (sleeping)", "1", "Seccomp:\t2\nSeccomp_filters:\t3\n"), shut, Restraint{true, 3, true}, ""},
		"uncounted":             {status("R (running)", "1", "Seccomp:\t2\n"), open, Restraint{true, uncounted, false}, ""},
		"no filters there":      {status("R (running)", "1", ""), open, Restraint{true, 0, false}, ""},
		"only the soft limit":   {status("S (sleeping)", "0", "Seccomp:\t0\n"), "Max file locks            0                    unlimited            locks     \n", Restraint{}, ""},
		"dead":                  {status("Z (zombie)", "1", "Seccomp:\t0\nSeccomp_filters:\t0\n"), open, Restraint{}, "ended"},
		"nothing of privileges": {"State:\tS (sleeping)\nSeccomp:\t0\n", open, Restraint{}, "NoNewPrivs"},
		"a count of nonsense":   {status("S (sleeping)", "1", "Seccomp:\t2\nSeccomp_filters:\t-1\n"), open, Restraint{}, "filters"},
		"no limits":             {status("S (sleeping)", "0", "Seccomp:\t0\n"), "", Restraint{}, "limits"},
		"nothing at all":        {"", "", Restraint{}, "NoNewPrivs"},
	} {
		got, err := restraintOf(c.status, c.limits)
		if c.err == "" && (err != nil || got != c.want) ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := RestraintOf(os.Getpid()); err != nil || got.Filters < uncounted {
		t.Errorf("%+v, %v", got, err)
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		if got, err := RestraintOf(pid); err == nil {
			t.Errorf("process %d: %+v", pid, got)
		}
	}
}

// TestBeyond: whoever is held back further is told apart, also where the server itself has filters; the like of it is
// not.
func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		own, its Restraint
		beyond   bool
	}{
		{Restraint{}, Restraint{}, false},
		{Restraint{}, Restraint{true, 0, false}, false},
		// an operator in a container; the kernel asks for a capability there
		{Restraint{}, Restraint{false, 1, false}, false},
		{Restraint{}, Restraint{true, 1, false}, true},
		{Restraint{false, 1, false}, Restraint{true, 1, false}, true},
		{Restraint{true, 1, false}, Restraint{true, 1, false}, false},
		{Restraint{true, 1, false}, Restraint{true, 2, false}, true},
		{Restraint{true, 2, false}, Restraint{true, 1, false}, false},
		{Restraint{true, 1, false}, Restraint{true, 1, true}, true},
		{Restraint{true, 2, false}, Restraint{true, 1, true}, true},
		{Restraint{}, Restraint{false, 0, true}, true},
		{Restraint{true, 1, true}, Restraint{true, 1, true}, false},
		{Restraint{true, 1, true}, Restraint{true, 2, true}, true},
		{Restraint{}, Restraint{true, uncounted, false}, true},
		{Restraint{true, uncounted, false}, Restraint{true, uncounted, false}, true},
		{Restraint{true, uncounted, false}, Restraint{}, false},
	} {
		if why := c.own.Beyond(c.its); (why != "") != c.beyond {
			t.Errorf("%+v asked about %+v: %q", c.own, c.its, why)
		}
	}
}

// TestPeersThatHaveEnded: the number of a peer that has ended may be another's, so nothing is said of it.
func TestPeersThatHaveEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peerOf := func(c *net.UnixConn) (p *Peer) {
		t.Helper()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(raw.Control(func(fd uintptr) { p, err = PeerOf(fd) }), err); err != nil {
			t.Fatal(err)
		}
		return p
	}
	accept := func() *net.UnixConn {
		t.Helper()
		c, err := ln.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	own, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	c := accept()
	defer c.Close()
	alive := peerOf(c)
	defer alive.Close()
	if _, err := alive.Restraint(); err != nil || alive.Pid != os.Getpid() || int(alive.UID) != os.Getuid() {
		t.Errorf("%+v, %v", alive, err)
	}
	child := exec.Command("/proc/self/exe", "-test.run=^TestDialer$")
	child.Env = append(os.Environ(), dialEnv+"="+path)
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	late := accept()
	defer late.Close()
	ended := peerOf(late)
	defer ended.Close()
	ended.Pid = os.Getpid() // the number has become another's
	if got, err := ended.Restraint(); !errors.Is(err, errEnded) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPeersThatCannotBeOpened: where the kernel or a filter refuses to open processes, that is said, and not that the
// peer has ended.
func TestPeersThatCannotBeOpened(t *testing.T) {
	for _, why := range []error{unix.ENOSYS, unix.EPERM, unix.EMFILE} {
		p := &Peer{Pid: os.Getpid(), fd: -1, why: why}
		if _, err := p.Restraint(); !errors.Is(err, why) || errors.Is(err, errEnded) {
			t.Errorf("%v: %v", why, err)
		}
		if err := p.Unmarked(); !errors.Is(err, why) {
			t.Errorf("%v: %v", why, err)
		}
	}
	for _, why := range []error{nil, unix.ESRCH, unix.EINVAL, unix.ENODATA} {
		if err := (&Peer{Pid: os.Getpid(), fd: -1, why: why}).Lives(); !errors.Is(err, errEnded) {
			t.Errorf("%v: %v", why, err)
		}
	}
}

const dialEnv = "CONFINE_DIAL"

// TestDialer is the child of the test above: it connects and ends.
func TestDialer(t *testing.T) {
	path := os.Getenv(dialEnv)
	if path == "" {
		return
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
}
