package prochost

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peer is who listens at the other end of a connection.
type peer struct {
	uid     uint32
	session int // its session's id; 0: not known
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
	if err != nil {
		session = -1 // it has ended: nobody's
	}
	return peer{uid: cred.Uid, session: session}, nil
}
