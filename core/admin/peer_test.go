package admin

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
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
