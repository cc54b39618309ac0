package prochost

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/core/supervise"
)

// namespaceEnv is set in the child that TestPeerInContainer puts into a PID namespace.
const namespaceEnv = "PROCHOST_NAMESPACE"

// TestPeerInContainer: what a container runtime starts has a session that began outside the container's PID namespace,
// which the kernel gives as 0. That is no reason to take its listener for a plugin's.
func TestPeerInContainer(t *testing.T) {
	if os.Getenv(namespaceEnv) == "" {
		c := exec.Command("/proc/self/exe", "-test.run=^TestPeerInContainer$", "-test.v")
		c.Env = append(os.Environ(), namespaceEnv+"=yes")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		if os.Getuid() != 0 {
			c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		}
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			t.Skip("this machine gives no PID namespaces: ", err)
		}
		if err := c.Wait(); err != nil || !strings.Contains(out.String(), "PASS: TestPeerInContainer") {
			t.Errorf("%v\n%s", err, &out)
		}
		return
	}
	if sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0); sid != 0 {
		t.Fatalf("the session is %d: this is not what the test is about", sid)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := peer.Of(conn.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if session := peer.Session(got.Pid); session != peer.NoSession {
		t.Errorf("%+v has session %d", got, session)
	}
}

// markedEnv is set in the child that TestMarkedListener marks as a gateway's.
const markedEnv = "PROCHOST_MARKED"

// TestMarkedListener: who listens is taken for a plugin by its user, unless a gateway has started it.
func TestMarkedListener(t *testing.T) {
	if path := os.Getenv(markedEnv); path != "" {
		if err := confine.Mark(); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := os.Stdout.WriteString("listens\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test has seen enough
		return
	}
	dial := func(path string) (*supervise.Process, error) {
		uid := uint32(os.Getuid())
		b := &birth{s: &Spec{Name: "x", Connect: "unix://" + path, Peer: &Peer{UID: &uid}}}
		t.Cleanup(b.release)
		return b.dial(t.Context())
	}
	own := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", own)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := dial(own); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	c := exec.Command("/proc/self/exe", "-test.run=^TestMarkedListener$")
	c.Env = append(os.Environ(), markedEnv+"="+path)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listens\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := dial(path); err == nil || !strings.Contains(err.Error(), "a gateway has started process") {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
