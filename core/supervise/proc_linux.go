package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// What /proc says of processes. All of it is worth something only if its numbers are ours.

// footing is what has to hold before anything is started. Only that it holds is remembered: the machine may be mended.
var footing struct {
	sync.Mutex
	holds bool
}

// stand makes sure that what a child leaves behind can be found, and makes this process the parent of orphans among
// what it has started. Else a process that a plugin leaves behind would belong to init, and nobody who asks where it
// came from (as the admin socket does) could tell.
func stand() error {
	footing.Lock()
	defer footing.Unlock()
	if footing.holds {
		return nil
	}
	if err := OwnProc(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	footing.holds = true
	return nil
}

// OwnProc is an error unless /proc counts processes as this process's PID namespace does: in another one's, numbers are
// strangers', and nobody would descend from anybody.
func OwnProc() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("/proc does not show this process, and without it nobody can tell what a child has started: %w",
			err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if !ownNumbers(os.Getpid(), self, string(status)) {
		return errors.New("/proc is that of another PID namespace, so the processes in it are not those that their " +
			"numbers say here: " +
			"mount one of this namespace (unshare has --mount-proc, bwrap --proc /proc)")
	}
	return nil
}

// ownNumbers says whether a /proc counts processes as this process's namespace does: by what its link self leads to,
// and by the list of numbers that we have from its namespace down to ours, which kernels before 4.1 do not give.
func ownNumbers(pid int, self, status string) bool {
	_, after, _ := strings.Cut(status, "\nNSpid:")
	line, _, _ := strings.Cut(after, "\n")
	return self == strconv.Itoa(pid) && len(strings.Fields(line)) <= 1
}

// childrenOf lists the children of a process; none of one that is gone. The error says that there may be more.
func childrenOf(pid int) (pids []int, err error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, unlessGone(err)
	}
	told := false
	for _, t := range threads {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			if err := unlessGone(err); err != nil {
				return nil, err
			}
			continue
		}
		told = true
		for s := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(s); err == nil {
				pids = append(pids, n)
			}
		}
	}
	if told {
		return pids, nil
	}
	_, err = os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if errors.Is(err, fs.ErrNotExist) { // a kernel that keeps no such lists (CONFIG_PROC_CHILDREN)
		return searchChildren(pid)
	}
	return nil, err
}

// searchChildren is childrenOf by asking every process for its parent.
func searchChildren(parent int) (pids []int, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		its, err := parentOf(pid)
		if err != nil && !hidden(err) {
			return nil, err
		}
		if err == nil && its == parent {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// unlessGone is nil if an error of /proc means that there is no such process any more, or none that we are shown.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// hidden says whether an error of /proc means that we are not shown a process, which may be gone too.
func hidden(err error) bool {
	return err != nil && (unlessGone(err) == nil || errors.Is(err, fs.ErrPermission))
}

// parentOf is the parent of a process.
func parentOf(pid int) (int, error) { return statField(pid, 1) }

// bornAt is when a process was started, in the kernel's ticks since the machine was.
func bornAt(pid int) (uint64, error) {
	n, err := statField(pid, 19)
	return uint64(n), err
}

// statField is a number of /proc/PID/stat, counted from after the name.
func statField(pid, which int) (int, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // the name may hold anything
	if len(fields) <= which {
		return 0, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	return strconv.Atoi(fields[which])
}
