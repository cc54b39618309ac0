package conform

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/yett-dev/yett/core/supervise"
)

// child is one process, told apart from a later one with its number by when it started.
type child struct {
	pid     int
	started string
	name    string
}

// descendants are the processes below root, and those whose environment holds mark (if it is not empty), at most most.
func descendants(root int, mark string, most int) []child {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parents, all := map[int]int{}, map[int]child{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if c, parent, ok := readChild(pid); ok {
			parents[pid], all[pid] = parent, c
		}
	}
	var out []child
	for pid, c := range all {
		if pid == root || len(out) >= most {
			continue
		}
		if below(parents, pid, root) || mark != "" && hasMark(pid, mark) {
			out = append(out, c)
		}
	}
	return out
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

// readChild reads what we need of /proc/PID/stat. Dead ones that nobody has reaped do not count.
func readChild(pid int) (c child, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return c, 0, false
	}
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return c, 0, false
	}
	fields := strings.Fields(string(text[shut+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return c, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return child{pid, fields[19], string(text[open+1 : shut])}, parent, err == nil
}

// askToEnd is Terminate, behind the supervisor's back: what it knows to have left the group it would kill at the end, and what is to
// be seen here is whether the plugin does.
func askToEnd(p *supervise.Process) {
	select {
	case <-p.Done(): // the number may be another process's
	default:
		_ = syscall.Kill(-p.Pid(), syscall.SIGTERM) // it may have ended just now
	}
}

func hasMark(pid int, mark string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(env, []byte(mark))
}

func (c child) alive() bool {
	now, _, ok := readChild(c.pid)
	return ok && now.started == c.started
}

// waitGone waits until processes have ended, and gives those that have not.
func waitGone(ctx context.Context, all []child, most time.Duration) (left []child, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left = nil
		for _, c := range all {
			if c.alive() {
				left = append(left, c)
			}
		}
		if len(left) == 0 {
			return nil, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left, nil
		}
	}
}

// killAll ends what a plugin left behind.
func killAll(all []child) {
	for _, c := range all {
		if c.alive() {
			_ = syscall.Kill(c.pid, syscall.SIGKILL) // it may be gone by now
		}
	}
}

func describeAll(all []child) string {
	var parts []string
	for i, c := range all {
		if i == 5 {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%d)", oneLine(c.name), c.pid))
	}
	return strings.Join(parts, ", ")
}
