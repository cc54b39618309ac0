package supervise

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of a rusage's resident size in bytes.
const rssUnit = 1

// launcher is this binary's file: the system has no way to run the very same bytes.
func launcher() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func sysAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// bind does nothing: there is no parent's death signal here. A child learns of our end when its stdin closes.
func bind(int) error { return nil }

// giveWay lowers the priority of the process.
func giveWay(nice int) error {
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || now >= nice {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, nice)
}

// leaveOne does nothing: this system ties no process to processors.
func leaveOne() {}

// closeFrom marks the first descriptors from first on to be closed by exec; Go opens all of its own that way.
func closeFrom(first int) error {
	for fd := first; fd < 1024; fd++ {
		unix.CloseOnExec(fd)
	}
	return nil
}

// stand: nothing has to hold here.
func stand() error { return nil }

// mayRunAs and disarm: there are no capabilities here, who switches users is root.
func mayRunAs(*User) error { return nil }
func disarm() error        { return nil }

// noExec says whether the file system of an open file lets nothing be executed.
func noExec(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Flags&unix.MNT_NOEXEC != 0
}

// awaitEnd returns when the process has ended, and leaves it to be reaped.
func awaitEnd(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	watch := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT,
		Fflags: unix.NOTE_EXIT}
	for {
		if _, err := unix.Kevent(queue, []unix.Kevent_t{watch}, make([]unix.Kevent_t, 1), nil); err != unix.EINTR {
			return
		}
	}
}

func signalGroup(pid int, kill bool) {
	if kill {
		unix.Kill(-pid, unix.SIGKILL)
		return
	}
	unix.Kill(-pid, unix.SIGTERM)
}

// surveyStrays and endStrays: a process that left the group cannot be found here.
func surveyStrays(int, map[int]int) {}
func endStrays(map[int]int)         {}

// watch looks at nothing: the system shows no other process's threads without more rights.
func (p *Process) watch(string, <-chan struct{}) {}

// overMemory looks at nothing either.
func (p *Process) overMemory() string { return "" }

// peakOf is what the kernel told at the end.
func (p *Process) peakOf(told uint64) uint64 { return told }

// fork, forget and reap: orphans are init's here.
func bornAt(int) (uint64, error) { return 0, nil }
func fork(_ *Process, name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(name, argv, attr)
}
func forget(*Process) ([]string, error) { return nil, nil }
func endLeft(string, bool)              {}
func endAbandoned(context.Context)      {}
func reap()                             {}

// limitShared does nothing: there are no such limits here.
func limitShared() error { return nil }

// OwnProc fails: there is no /proc here.
func OwnProc() error { return errors.ErrUnsupported }
