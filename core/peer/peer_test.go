package peer

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNobody: in a user namespace all users who have no number there share one.
func TestNobody(t *testing.T) {
	for name, c := range map[string]struct {
		mapped, overflow string
		uid              uint32
		some             bool
	}{
		"no namespace of users": {"         0          0 4294967295\n", "65534\n", 0, false},
		"rootless":              {"         0       1000          1\n         1     100000      65536\n", "65534\n", 65534, true},
		"another number":        {"0 1000 1\n", "99\n", 99, true},
		"all but one":           {"0 0 4294967294\n", "65534\n", 65534, true},
		"nothing can be read":   {"", "", 65534, true},
	} {
		if uid, some := nobodyOf(c.mapped, c.overflow); uid != c.uid || some != c.some {
			t.Errorf("%s: %d, %v", name, uid, some)
		}
	}
}

// pair is a connection of this process with itself.
func pair(t *testing.T) (client, server *net.UnixConn) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return c.(*net.UnixConn), s.(*net.UnixConn)
}

// TestOf: both ends of a connection are told the process and the user of the other.
func TestOf(t *testing.T) {
	client, server := pair(t)
	for _, conn := range []*net.UnixConn{client, server} {
		p, err := Of(conn)
		if err != nil {
			t.Fatal(err)
		}
		if p.Pid != os.Getpid() || int(p.UID) != os.Geteuid() {
			t.Errorf("%+v", p)
		}
		p.Close()
	}
	server.Close()
	if _, err := Of(server); err == nil {
		t.Error("a closed connection has a peer")
	}
}

// TestSession: a process that has ended, or is outside our PID namespace, has a session that nobody here began.
func TestSession(t *testing.T) {
	own, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	if own == 0 {
		own = NoSession
	}
	if got := Session(os.Getpid()); got != own {
		t.Errorf("our own: %d, want %d", got, own)
	}
	if got := Session(0); got != NoSession {
		t.Errorf("outside: %d", got)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if got := Session(c.Process.Pid); got != NoSession {
		t.Errorf("ended: %d", got)
	}
}

// TestHungUp: a peer that has only ended its writing still reads, and one that has closed does not.
func TestHungUp(t *testing.T) {
	client, server := pair(t)
	seen := func() (hung, ended bool) {
		raw, err := server.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { hung = HungUp(fd) }); err != nil {
			t.Fatal(err)
		}
		return hung, Ended(server)
	}
	is := func(state string, wantHung, wantEnded bool) {
		t.Helper()
		if hung, ended := seen(); hung != wantHung || ended != wantEnded {
			t.Errorf("%s: hung up %v, ended %v", state, hung, ended)
		}
	}
	is("open", false, false)
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	is("half closed", false, true)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	is("closed", true, true)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if !Ended(server) {
		t.Error("a connection that we have closed has not ended")
	}
	if a, _ := net.Pipe(); Ended(a) {
		t.Error("a connection that the kernel does not know has ended")
	}
}
