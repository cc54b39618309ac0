package supervise

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of orphans among what it has started. Else a process that a plugin leaves behind would
// belong to init, and nobody who asks where it came from (as the admin socket does) could tell.
var adopt = sync.OnceValue(func() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
})

// started are the processes that somebody waits for. It is held over a fork, so that none of them is taken for an orphan.
var started = struct {
	sync.Mutex
	pids map[int]*Process
}{pids: map[int]*Process{}}

// fork starts a process of ours.
func fork(p *Process, name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if err := adopt(); err != nil {
		return nil, err
	}
	started.Lock()
	defer started.Unlock()
	child, err := os.StartProcess(name, argv, attr)
	if err == nil {
		started.pids[child.Pid] = p
		p.born = bornAt(child.Pid)
	}
	return child, err
}

// Orphans get a moment to notice that what they were for is gone. Then they are killed, in rounds, since what a dead one has
// started becomes an orphan then.
const (
	orphanRound = 2 * time.Millisecond
	orphanGrace = 25  // rounds
	orphanMost  = 125 // rounds
	maxLeft     = 16
)

// forget tells that a process was waited for. Then what it left behind is killed, and waited for. It gives their names.
func forget(p *Process) (left []string) {
	started.Lock()
	delete(started.pids, p.pid)
	started.Unlock()
	seen := map[int]bool{}
	for round := range orphanMost {
		pids := endOrphans(p, round >= orphanGrace)
		if len(pids) == 0 {
			break
		}
		for pid, name := range pids {
			if round >= orphanGrace && !seen[pid] && len(left) < maxLeft {
				left = append(left, fmt.Sprintf("%s (%d)", name, pid))
			}
			seen[pid] = seen[pid] || round >= orphanGrace
		}
		<-time.After(orphanRound)
	}
	return left
}

// endOrphans gives the orphans of a process, and kills them if it is to: those that are younger than it and, for all that their
// origin, directory and environment tell, not another's. What tells nothing is killed, since hiding is what there is to prevent, unless
// none of ours can have started it: where we are the first process of a container, everybody's orphans become our children.
func endOrphans(p *Process, kill bool) (found map[int]string) {
	started.Lock()
	defer started.Unlock()
	reapOrphans()
	for _, pid := range orphans() {
		if born := bornAt(pid); born < p.born || born == 0 || !confined(pid) || ownedByOther(p, pid, born) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if parentOf(pid) == os.Getpid() { // else the number is another process's by now
			if found == nil {
				found = map[int]string{}
			}
			found[pid] = nameOf(pid)
			if kill {
				unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
		}
		unix.Close(fd)
	}
	return found
}

func nameOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	return printable(strings.TrimSpace(string(name)))
}

// confined says whether a process may descend from one of ours: those and all that they start can get no new privileges, and cannot
// undo that. A process that does not tell may.
func confined(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || !strings.Contains(string(text), "\nNoNewPrivs:\t0\n")
}

// ownedByOther says, with started held, whether a process that is still there has started the orphan, and not p. One that was seen to
// descend from it is its own, whatever it says now. What is older than a process is not of it, so that nobody can hide behind a later one.
func ownedByOther(p *Process, pid int, born uint64) bool {
	claimed := false
	for _, other := range started.pids {
		if other.born > born {
			continue
		}
		if other.bore(pid) {
			return true
		}
		claimed = claimed || other.owns(pid)
	}
	return claimed && !p.owns(pid)
}

// bore says whether a living process was seen among the descendants of p. Whoever holds p.mu never waits for started.
func (p *Process) bore(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fd, seen := p.strays[pid]
	return seen && unix.PidfdSendSignal(fd, 0, nil, 0) == nil
}

const (
	maxEnviron     = 2 * maxPlan // how much of a process's environment is read: more than a plan may hold
	tellingEnviron = 128         // bytes: a shorter one may be anybody's, and would let its owner's name be borrowed
)

// owns says whether a process works in the private directory of p, or has the environment that p was given.
func (p *Process) owns(pid int) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err == nil && p.dir != "" && (cwd == p.dir || strings.HasPrefix(cwd, p.dir+"/") || cwd == p.dir+" (deleted)") {
		return true
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil || len(strings.Join(p.env, "")) < tellingEnviron {
		return false
	}
	has := map[string]bool{}
	for v := range strings.SplitSeq(string(text), "\x00") {
		has[v] = true
	}
	return !slices.ContainsFunc(p.env, func(v string) bool { return !has[v] })
}

// bornAt is when a process was started, in the kernel's ticks since the machine was; 0 when it is gone.
func bornAt(pid int) uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return 0
	}
	n, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// reap waits for dead orphans.
func reap() {
	started.Lock()
	defer started.Unlock()
	reapOrphans()
}

// reapOrphans waits, with started held, for each orphan that is dead.
func reapOrphans() {
	for _, pid := range orphans() {
		unix.Wait4(pid, nil, unix.WNOHANG, nil) // nothing happens to one that lives
	}
}

// orphans are, with started held, the children that are neither of started nor of our own session: those are for whoever else in
// this program has started them. Every process of ours begins a session.
func orphans() (pids []int) {
	session, err := unix.Getsid(0)
	if err != nil {
		return nil
	}
	for _, pid := range childrenOf(os.Getpid()) {
		if started.pids[pid] != nil {
			continue
		}
		if its, err := unix.Getsid(pid); err == nil && its != session {
			pids = append(pids, pid)
		}
	}
	return pids
}
