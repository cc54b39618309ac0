package conform

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/yett-dev/yett/core/supervise"
)

// descendants is how many processes are below root, at most most.
func descendants(root, most int) (n int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			parents[pid] = parent
		}
	}
	for pid := range parents {
		if pid != root && n < most && below(parents, pid, root) {
			n++
		}
	}
	return n
}

func below(parents map[int]int, pid, root int) bool {
	for range 1000 { // a loop would be a race with the kernel
		parent, ok := parents[pid]
		if !ok || parent == 0 {
			return false
		}
		if parent == root {
			return true
		}
		pid = parent
	}
	return false
}

// parentOf reads the parent of a process that is not dead.
func parentOf(pid int) (parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name before it may hold anything
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, err == nil
}

// askToEnd is Terminate, behind the supervisor's back: what it knows to have left the group it would kill at the end,
// and what is to be seen here is whether the plugin does.
func askToEnd(p *supervise.Process) {
	select {
	case <-p.Done(): // the number may be another process's
	default:
		_ = syscall.Kill(-p.Pid(), syscall.SIGTERM) // it may have ended just now
	}
}
