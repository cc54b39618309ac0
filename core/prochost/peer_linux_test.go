package prochost

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// namespaceEnv is set in the child that TestPeerInContainer puts into a PID namespace.
const namespaceEnv = "PROCHOST_NAMESPACE"

// TestPeerInContainer: what a container runtime starts has a session that began outside the container's PID namespace, which the
// kernel gives as 0. That is no reason to take its listener for a plugin's.
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
	if got, err := peerOf(conn.(*net.UnixConn)); err != nil || got.session != -1 {
		t.Errorf("%+v, %v", got, err)
	}
}
