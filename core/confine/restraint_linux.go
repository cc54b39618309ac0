package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errEnded says that a process is dead, or that its first thread is, which has nothing to show any more.
var errEnded = errors.New("it has ended")

// Mark shows everybody that a gateway has started this process, and what it starts in turn: how many filters a process
// has says little where the reader has some itself. The mark is a limit that no kernel since Linux 2.4 applies, on
// locks of files, and that nobody without CAP_SYS_RESOURCE raises again.
func Mark() error {
	if err := unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("mark the process: %w", err)
	}
	return nil
}

// RestraintOf reads a process's restraint. The caller makes sure that the number is still that of the process which is
// meant.
func RestraintOf(pid int) (Restraint, error) {
	if pid <= 0 {
		return Restraint{}, errors.New("it is outside of this PID namespace")
	}
	at := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(at + "/status")
	if err != nil {
		return Restraint{}, err
	}
	limits, err := os.ReadFile(at + "/limits")
	if err != nil {
		return Restraint{}, err
	}
	return restraintOf(string(status), string(limits))
}

func restraintOf(status, limits string) (r Restraint, err error) {
	said := map[string]string{}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		said[name] = strings.TrimSpace(value)
	}
	if state := said["State"]; strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return r, errEnded
	}
	switch said["NoNewPrivs"] {
	case "0":
	case "1":
		r.NoNewPrivs = true
	default:
		return r, errors.New("the kernel does not say whether it can get new privileges (NoNewPrivs in /proc/PID/status)")
	}
	switch mode, count := said["Seccomp"], said["Seccomp_filters"]; {
	case mode == "0":
	case mode == "": // a kernel without filters says nothing
	case count == "":
		r.Filters = uncounted
	default:
		if r.Filters, err = strconv.Atoi(count); err != nil || r.Filters < 0 {
			return r, fmt.Errorf("it has %q filters of system calls", count)
		}
	}
	if _, found := hardLimit(limits, "Max file locks "); !found {
		return r, errors.New("the kernel does not tell its limits (/proc/PID/limits)")
	}
	r.Marked = isMarked(limits)
	return r, nil
}

// Peer is the process at the other end of a Unix socket, which cannot be taken for another one while it is open.
type Peer struct {
	Pid int // 0: it is outside of this PID namespace
	UID uint32
	fd  int   // -1: none
	why error // why it could not be opened
}

// PeerOf asks the kernel who connected, or who listens. The caller closes what it gets.
func PeerOf(socket uintptr) (*Peer, error) {
	cred, err := unix.GetsockoptUcred(int(socket), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("who is at the other end: %w", err)
	}
	p := &Peer{Pid: int(cred.Pid), UID: cred.Uid, fd: -1}
	fd, err := unix.GetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) && p.Pid > 0 { // before Linux 6.5; the number is looked up as soon as can be
		fd, err = unix.PidfdOpen(p.Pid, 0)
	}
	if err == nil {
		p.fd = fd // exec closes it
	}
	p.why = err
	return p, nil
}

// Close gives the descriptor back.
func (p *Peer) Close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// Lives is an error when the process has ended: then its number may be another's, and what was read of it too.
func (p *Peer) Lives() error {
	switch {
	case p.fd >= 0:
	case p.why == nil, errors.Is(p.why, unix.ESRCH), errors.Is(p.why, unix.EINVAL), errors.Is(p.why, unix.ENODATA):
		// the process has ended
		return errEnded
	default:
		return fmt.Errorf("process %d could become another one while it is looked at, since it cannot be opened "+
			"(pidfd_open, Linux 5.3): %w", p.Pid, p.why)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("whether process %d lives: %w", p.Pid, err)
		case n > 0:
			return errEnded
		default:
			return nil
		}
	}
}

// Restraint is the process's own: an error when it has ended meanwhile.
func (p *Peer) Restraint() (Restraint, error) {
	r, err := RestraintOf(p.Pid)
	if ended := p.Lives(); ended != nil {
		return Restraint{}, ended
	}
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w (this server is not shown all processes: hidepid, ProtectProc=invisible)", err)
	}
	return r, err
}

// Unmarked is an error unless the process may be taken for its user's: what a gateway has started has that user too,
// and is not meant. A process outside of this PID namespace is not looked at: nobody can, and no plugin leaves the
// namespace of its gateway.
func (p *Peer) Unmarked() error {
	if p.Pid == 0 {
		return nil
	}
	own, err := RestraintOf(os.Getpid())
	if err != nil {
		return fmt.Errorf("how far this process is confined cannot be read: %w", err)
	}
	its, err := p.Restraint()
	if err != nil {
		return fmt.Errorf("whether a gateway has started process %d cannot be read: %w", p.Pid, err)
	}
	if its.Marked && !own.Marked {
		return fmt.Errorf("a gateway has started process %d or what started it, as it does plugins", p.Pid)
	}
	return nil
}
