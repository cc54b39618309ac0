package prochost

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/confine"
)

// peer is who listens at the other end of a connection.
type peer struct {
	uid     uint32
	session int // its session's id; 0: this system does not say; -1: nobody's that we could have started
}

// peerOf asks the kernel.
func peerOf(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return peer{}, err
	}
	if failed != nil {
		return peer{}, fmt.Errorf("who is at the other end: %w", failed)
	}
	session, err := unix.Getsid(int(cred.Pid))
	// An error: it has ended. 0: its session began outside our PID namespace, as that of all that a container runtime puts into
	// the container does; every process that we start begins a session here. A pid of 0 is outside itself, and would ask for ours.
	if err != nil || session == 0 || cred.Pid == 0 {
		session = -1
	}
	return peer{uid: cred.Uid, session: session}, nil
}

// unmarked is an error if a gateway has started who listens at the other end: another plugin of the same user is not the one that is meant.
func unmarked(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var got *confine.Peer
	var failed error
	if err := raw.Control(func(fd uintptr) { got, failed = confine.PeerOf(fd) }); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	defer got.Close()
	return got.Unmarked()
}

// nobody is the number that the kernel gives, in a user namespace, to all users who have none there; ok is false where everybody has one.
func nobody() (uid uint32, ok bool) {
	all, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && slices.Equal(strings.Fields(string(all)), []string{"0", "0", "4294967295"}) {
		return 0, false
	}
	const usual = 65534
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return usual, true
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return usual, true
	}
	return uint32(n), true
}
