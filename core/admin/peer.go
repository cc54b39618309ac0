package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// guarded lets in only who may administer.
type guarded struct {
	*net.UnixListener
	ownProc func() error
	log     func(format string, args ...any)
}

// Accept drops everyone else and goes on.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := g.admit(c)
		if err == nil {
			return &peerConn{c, peerAddr(uid)}, nil
		}
		g.log("admin: refused a connection: %v", err)
		c.Close()
	}
}

// peerConn shows the peer's uid as its address.
type peerConn struct {
	net.Conn
	addr peerAddr
}

type peerAddr string

func (a peerAddr) Network() string { return "unix" }
func (a peerAddr) String() string  { return string(a) }

// RemoteAddr is the peer's uid.
func (c *peerConn) RemoteAddr() net.Addr { return c.addr }

// admit checks the peer's credentials: the server's own uid or root, and no process that the server started.
func (g *guarded) admit(c *net.UnixConn) (uid string, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "", err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || credErr != nil {
		return "", errors.Join(err, credErr)
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Getuid() {
		return "", fmt.Errorf("uid %d is neither the server's nor root", cred.Uid)
	}
	if err := g.ownProc(); err != nil {
		return "", fmt.Errorf("nobody can be traced: %w", err)
	}
	child, err := descends(int(cred.Pid), os.Getpid(), parentOf)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (it has ended, or this server is not shown all processes: hidepid, ProtectProc=invisible)", err)
	}
	if err != nil {
		return "", fmt.Errorf("process %d cannot be traced: %w", cred.Pid, err)
	}
	if child {
		return "", fmt.Errorf("process %d was started by this server", cred.Pid)
	}
	return strconv.Itoa(int(cred.Uid)), nil
}

// maxRemove bounds how far parents are followed. Nobody who administers is that deep, and a plugin may put itself there.
const maxRemove = 1000

// descends reports whether pid was started, at whatever remove, by ancestor. What cannot be followed to its end is an error.
func descends(pid, ancestor int, parentOf func(pid int) (int, error)) (bool, error) {
	for steps := range maxRemove {
		if pid == ancestor {
			return steps > 0, nil // the server's own process may administer itself: tests do
		}
		if pid <= 1 {
			return false, nil
		}
		parent, err := parentOf(pid)
		if err != nil {
			return false, err
		}
		pid = parent
	}
	return false, fmt.Errorf("it has more than %d ancestors", maxRemove)
}

func parentOf(pid int) (int, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, errors.New("unreadable /proc entry")
	}
	return strconv.Atoi(fields[1])
}
