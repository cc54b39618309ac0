package supervise

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// overPorts holds a process whose ports are restricted to them where it listens. The kernel asks about a port that is
// bound, and not about one that it picks itself for a socket that listens without; a filter sees a number, and cannot
// tell such a socket from the one on which the gateway reaches the plugin. So what listens is looked at.
func (p *Process) overPorts() string {
	if len(p.ports) == 0 {
		return ""
	}
	for _, pid := range p.family() {
		at, err := placeOf(pid)
		if err != nil {
			continue // it has ended
		}
		own := socketsOf(at)
		for _, table := range []string{"tcp", "tcp6"} {
			for _, l := range listenersOf(at, table) {
				if own[l.inode] && !slices.Contains(p.ports, l.port) {
					return fmt.Sprintf("it listens on TCP port %d, which network does not list (%s)", l.port,
						strings.Trim(fmt.Sprint(p.ports), "[]"))
				}
			}
		}
	}
	return ""
}

// family is the process and what it has started, as far as anybody knows: also what is an orphan by now, if it is in
// the group, was seen among the descendants, or tells whose it is.
func (p *Process) family() []int {
	all := []int{p.pid}
	if p.alone.Load() {
		return all
	}
	all = append(all, p.orphaned()...)
	for i := 0; i < len(all) && len(all) < maxFamily; i++ {
		children, err := childrenOf(all[i])
		if err != nil {
			continue // it has ended
		}
		all = append(all, children...)
	}
	return all
}

// orphaned are the orphans of the process.
func (p *Process) orphaned() (own []int) {
	p.Survey()
	started.Lock()
	defer started.Unlock()
	pids, _ := orphans() // what is not seen now is seen the next time
	for _, pid := range pids {
		if group, err := unix.Getpgid(pid); err == nil && group == p.pid || p.bore(pid) || p.owns(pid) {
			own = append(own, pid)
		}
	}
	return own
}

// maxFamily bounds a look.
const maxFamily = 1 << 10

// socketsOf are the inodes of the sockets that a process has open. at is its place in /proc.
func socketsOf(at string) map[string]bool {
	at += "/fd"
	open, err := os.ReadDir(at)
	if err != nil { // it has ended, or we may not look into it
		return nil
	}
	out := map[string]bool{}
	for _, e := range open {
		to, err := os.Readlink(at + "/" + e.Name())
		if inode, is := strings.CutPrefix(to, "socket:["); err == nil && is {
			out[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return out
}

type listener struct {
	inode string
	port  uint16
}

// listenersOf reads a table of the network that a process is in.
func listenersOf(at, table string) (out []listener) {
	text, err := os.ReadFile(at + "/net/" + table)
	if err != nil { // it has ended, or the kernel has no such table
		return nil
	}
	const local, state, inode, listening = 1, 3, 9, "0A"
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) <= inode || f[state] != listening {
			continue
		}
		_, hex, _ := strings.Cut(f[local], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
			out = append(out, listener{f[inode], uint16(port)})
		}
	}
	return out
}
