package admin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/edge"
)

// Where /proc counts processes as another namespace does, nobody is let in: a plugin would have no ancestors there.
func TestForeignProc(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	var foreign error
	g := guard(ln, func() error { return foreign }, t.Logf)
	if uid, err := g.admit(peer); err != nil || uid != strconv.Itoa(os.Getuid()) {
		t.Errorf("our own: %q, %v", uid, err)
	}
	foreign = errors.New("strangers' numbers")
	if uid, err := g.admit(peer); uid != "" || !errors.Is(err, foreign) {
		t.Errorf("in a foreign namespace: %q, %v", uid, err)
	}
}

// Who is refused cannot fill the log, however often it comes: each one is told why, and the log has the first.
func TestRefusalsAreLoggedSparingly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	logged := make(chan string, 100)
	g := guard(ln, func() error { return errors.New("strangers' numbers") }, nil)
	g.said = edge.NewThrottle("admin", time.Hour, func(f string, a ...any) { logged <- fmt.Sprintf(f, a...) })
	ended := make(chan error, 1)
	go func() {
		_, err := g.Accept()
		ended <- err
	}()
	for range 10 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.UnixConn).CloseWrite(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) { // until the server closes it
			t.Error(err)
		}
		c.Close()
	}
	err = g.Close()
	if accepted := <-ended; err != nil || !errors.Is(accepted, net.ErrClosed) {
		t.Error(err, accepted)
	}
	close(logged)
	var got []string
	for line := range logged {
		got = append(got, line)
	}
	if want := []string{"admin: refused a connection: nobody can be traced: strangers' numbers"}; !slices.Equal(got,
		want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// Only what surely was not started by the server is let in: a process that hides behind a thousand others is not.
func TestDescends(t *testing.T) {
	const server = 5000
	gone := errors.New("no such process")
	for name, c := range map[string]struct {
		pid    int
		parent func(pid int) (int, error)
		want   bool
		err    bool
	}{
		"the server itself":           {server, nil, false, false},
		"its child":                   {7000, func(int) (int, error) { return server, nil }, true, false},
		"a child of its child":        {7001, func(pid int) (int, error) { return map[int]int{7001: 7000, 7000: server}[pid], nil }, true, false},
		"somebody else":               {800, func(int) (int, error) { return 1, nil }, false, false},
		"outside of this namespace":   {800, func(int) (int, error) { return 0, nil }, false, false},
		"gone":                        {800, func(int) (int, error) { return 0, gone }, false, true},
		"behind a thousand processes": {7000 + 2*maxRemove, func(pid int) (int, error) { return max(pid-1, server), nil }, false, true},
		"a circle":                    {800, func(pid int) (int, error) { return pid, nil }, false, true},
	} {
		if got, err := descends(c.pid, server, c.parent); got != c.want || (err != nil) != c.err {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if parent, err := parentOf(os.Getpid()); err != nil || parent != os.Getppid() {
		t.Errorf("%d %v, want %d", parent, err, os.Getppid())
	}
}
