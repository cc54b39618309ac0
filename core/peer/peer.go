// Package peer says who is at the other end of a Unix socket: which process, which user, which session, and whether it
// has hung up. All listeners and all plugin hosts ask it, so that each of these questions has one answer. It decides
// nothing.
package peer

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/confine"
)

// Of asks the kernel who connected, or who listens. The caller closes what it gets. It is safe for concurrent use.
func Of(conn *net.UnixConn) (*confine.Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *confine.Peer
	var failed error
	if err := raw.Control(func(fd uintptr) { p, failed = confine.PeerOf(fd) }); err != nil || failed != nil {
		return nil, errors.Join(err, failed)
	}
	return p, nil
}

// NoSession stands for a session that this process cannot have started.
const NoSession = -1

// Session is the id of the session of a process, which is that of the process that began it. It is NoSession for a
// process that has ended, and for one whose session began outside our PID namespace, as a container runtime's does: the
// kernel gives 0 for it. A pid of 0 is outside too, and the kernel would take it for our own.
func Session(pid int) int {
	if pid == 0 {
		return NoSession
	}
	id, err := unix.Getsid(pid)
	if err != nil || id == 0 {
		return NoSession
	}
	return id
}

// Nobody is the number that the kernel gives, in a user namespace, to all users who have none there; some is false
// where everybody has one. A user of that number is anybody, so it stands for nobody's key or plugin.
func Nobody() (uid uint32, some bool) {
	mapped, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		mapped = nil
	}
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		overflow = nil
	}
	return nobodyOf(string(mapped), string(overflow))
}

// usualNobody is the kernel's default of overflowuid.
const usualNobody = 65534

// nobodyOf reads it from uid_map, which maps all numbers to themselves outside of user namespaces, and overflowuid.
// What cannot be read counts as a user namespace with the usual number.
func nobodyOf(mapped, overflow string) (uid uint32, some bool) {
	if slices.Equal(strings.Fields(mapped), []string{"0", "0", "4294967295"}) {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(overflow), 10, 32)
	if err != nil {
		n = usualNobody
	}
	return uint32(n), true
}

// HungUp says whether the other end of a connection has closed it whole. A peer that has only ended its own writing has
// not: it may still wait for answers.
func HungUp(fd uintptr) bool { return events(fd)&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 }

// Ended says whether the other end of a connection has closed it, or its own writing, whatever lies unread. One that we
// have closed has ended too. A connection that the kernel does not know has not. Any goroutine may ask.
func Ended(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	var ended bool
	err = raw.Control(func(fd uintptr) { ended = events(fd)&(writingEnded|unix.POLLHUP|unix.POLLERR) != 0 })
	return ended || err != nil
}

// events are what has happened to a connection, without waiting; 0 if that cannot be said.
func events(fd uintptr) int16 {
	p := []unix.PollFd{{Fd: int32(fd), Events: writingEnded}}
	if n, err := unix.Poll(p, 0); err != nil || n == 0 {
		return 0
	}
	return p[0].Revents
}
