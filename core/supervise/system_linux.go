package supervise

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of a rusage's resident size in bytes.
const rssUnit = 1024

const maxStrays = 1024 // descendants looked for outside the group

// launcher is this very binary, even if the file has been replaced since.
func launcher() string { return "/proc/self/exe" }

// sysAttr gives the launcher a session (so a group) of its own. It dies with us from its first moment on; it sets that
// once more itself, since a change of user clears it.
func sysAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// bind ties the launcher, and the program it becomes, to its parent and takes away every way to more rights. The parent
// may have died before: then nobody is left to tell.
func bind(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("parent's death signal: %w", err)
	}
	if now := os.Getppid(); now != parent {
		return fmt.Errorf("the parent %d is gone, it is %d now", parent, now)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	return nil
}

// giveWay lowers the priority of the calling thread, which exec makes the process, and of its session: where the kernel
// shares the processor among sessions first (sched_autogroup), a nice value counts within one only.
func giveWay(nice int) error {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	if 20-now < nice { // the system call tells it upside down
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		err := os.WriteFile("/proc/self/autogroup", strconv.AppendInt(nil, int64(nice), 10), 0)
		switch {
		case err == nil || errors.Is(err, unix.ENOENT): // this kernel knows no such groups
			return nil
		case errors.Is(err, unix.EAGAIN) && try < autogroupTries: // ten a second of all users together
			time.Sleep(autogroupPause)
		default: // a sealed /proc, as in a container, where the container's own group counts
			fmt.Fprintf(os.Stderr, "yett: the session's priority stays: %v\n", err)
			return nil
		}
	}
}

const (
	autogroupTries = 20
	autogroupPause = 100 * time.Millisecond
)

// leaveOne keeps the calling thread, which exec makes the process, off the first of the processors that it may use,
// where it may use several. A kernel that is not preempted in system calls (PREEMPT_NONE, as of most servers) stays in
// one for milliseconds, when a process gives memory back or ends, and nobody else runs on that processor meanwhile.
func leaveOne() {
	var set unix.CPUSet
	err := unix.SchedGetaffinity(0, &set)
	if err == nil && set.Count() > 1 {
		first := 0
		for !set.IsSet(first) {
			first++
		}
		set.Clear(first)
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil { // it can do no more than others who share the processors with the gateway
		fmt.Fprintf(os.Stderr, "yett: no processor is kept for the gateway: %v\n", err)
	}
}

// closeFrom marks first and everything above to be closed by exec: the status pipe must live until then.
func closeFrom(first int) error {
	err := unix.CloseRange(uint(first), 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	// EPERM: a container's filter of before Linux 5.9
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		return err
	}
	open, err := os.ReadDir("/proc/self/fd")
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// noExec says whether the file system of an open file lets nothing be executed.
func noExec(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}

// awaitEnd returns when the process has ended, and leaves it to be reaped.
func awaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// signalGroup signals the group; a kill also reaches descendants that have left it, as far as they still have their
// parents.
func signalGroup(pid int, kill bool) {
	if !kill {
		unix.Kill(-pid, unix.SIGTERM)
		return
	}
	strays := map[int]int{}
	findStrays(pid, pid, strays)
	unix.Kill(-pid, unix.SIGKILL)
	killStrays(strays)
}

// surveyStrays brings the list of a process's descendants outside its group up to date: pid → descriptor.
func surveyStrays(root int, known map[int]int) {
	for pid, fd := range known {
		if unix.PidfdSendSignal(fd, 0, nil, 0) == unix.ESRCH {
			unix.Close(fd)
			delete(known, pid)
		}
	}
	findStrays(root, root, known)
}

// endStrays kills what was noted of a process, orphans by now, and what these have started since.
func endStrays(known map[int]int) {
	found := map[int]int{}
	for pid, fd := range known {
		if unix.PidfdSendSignal(fd, 0, nil, 0) == nil { // else the number may be another process's
			findStrays(pid, 0, found)
		}
	}
	killStrays(known)
	killStrays(found)
}

func killStrays(strays map[int]int) {
	for pid, fd := range strays {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		unix.Close(fd)
		delete(strays, pid)
	}
}

// findStrays opens the descendants of a process outside a group. A number may be another process's by the time it is
// opened, so its parent is read again afterwards.
func findStrays(root, group int, found map[int]int) {
	for queue := []int{root}; len(queue) > 0 && len(found) < maxStrays; queue = queue[1:] {
		children, _ := childrenOf(queue[0]) // what is not found here becomes an orphan in the end
		for _, pid := range children {
			if len(queue) < maxStrays {
				queue = append(queue, pid)
			}
			if now, err := unix.Getpgid(pid); err != nil || now == group {
				continue
			}
			if _, known := found[pid]; known {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if parent, err := parentOf(pid); err != nil || parent != queue[0] {
				unix.Close(fd)
				continue
			}
			found[pid] = fd
		}
	}
}

// Of what the kernel counts for all processes of a user together, a confined one gets no more than it needs.
const (
	pendingSignals = 1024 // a timer takes one too
	queueBytes     = 0    // of message queues
)

// stackBytes is what the first thread's stack may grow to, which is private memory that RLIMIT_DATA does not count.
const stackBytes = 8 << 20

// limitShared sets these limits, and that of the stack.
func limitShared() error {
	return errors.Join(lower("pending signals", unix.RLIMIT_SIGPENDING, pendingSignals),
		lower("message queues", unix.RLIMIT_MSGQUEUE, queueBytes), lower("stack", unix.RLIMIT_STACK, stackBytes))
}
