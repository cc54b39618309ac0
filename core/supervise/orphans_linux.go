package supervise

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/quote"
)

// started are the processes that somebody waits for. It is held over a fork, so that none of them is taken for an
// orphan.
var started = struct {
	sync.Mutex
	pids   map[int]*Process
	ending map[*Process]bool // they have ended, and what they left is looked for
	owed   *Process          // stands for those that ended and whose orphans may live, as old as the oldest; nil: none
}{pids: map[int]*Process{}, ending: map[*Process]bool{}}

// fork starts a process of ours.
func fork(p *Process, name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	started.Lock()
	defer started.Unlock()
	endOwed()
	child, err := os.StartProcess(name, argv, attr)
	if err == nil {
		started.pids[child.Pid] = p
		p.born, _ = bornAt(child.Pid) // not known: older than all, so that what it leaves is taken for its own
	}
	return child, err
}

// Orphans get a moment to notice that what they were for is gone. Then they are killed, in rounds, since what a dead
// one has started becomes an orphan then.
const (
	orphanRound = 2 * time.Millisecond
	orphanGrace = 25  // rounds
	orphanMost  = 125 // rounds
	orphanLooks = 5   // so many in a row that see none
	maxLeft     = 16
)

// forget tells that a process was waited for. Then what it left behind is killed, and waited for. It gives their names,
// and why some may live: these are owed, and killed as soon as it can be. One look is not enough: the kernel's list has
// gaps while others are taken off it, and where many processes end at once several looks in a row may miss one.
func forget(p *Process) (left []string, loose error) {
	started.Lock()
	delete(started.pids, p.pid)
	started.ending[p] = true // what it left is still its own, and not another's that ends now
	started.Unlock()
	defer func() {
		started.Lock()
		defer started.Unlock()
		delete(started.ending, p)
	}()
	seen := map[int]bool{}
	quiet := 0
	for round := range orphanMost {
		pids, err := endOrphans(p, round >= orphanGrace)
		if quiet++; len(pids) > 0 || err != nil {
			quiet = 0
		}
		if quiet == orphanLooks {
			return left, nil
		}
		if loose = err; err == nil {
			loose = fmt.Errorf("%d of them begin anew faster than they are killed", len(pids))
		}
		for pid, name := range pids {
			if round >= orphanGrace && !seen[pid] && len(left) < maxLeft {
				left = append(left, fmt.Sprintf("%s (%d)", name, pid))
			}
			seen[pid] = seen[pid] || round >= orphanGrace
		}
		<-time.After(orphanRound)
	}
	if quiet > 0 {
		return left, nil
	}
	p.owe()
	return left, loose
}

// owe has what p left killed as soon as it can be. From then on it is nobody's, or it would seem to be p's own and
// nothing owed.
func (p *Process) owe() {
	started.Lock()
	defer started.Unlock()
	delete(started.ending, p)
	if started.owed == nil || p.born < started.owed.born {
		started.owed = &Process{born: p.born}
	}
}

// endOrphans gives the orphans of a process, and kills them if it is to: those that are younger than it and, for all
// that their origin, directory and environment tell, not another's. What tells nothing is killed, since hiding is what
// there is to prevent, unless none of ours can have started it: where we are the first process of a container,
// everybody's orphans become our children.
func endOrphans(p *Process, kill bool) (found map[int]string, err error) {
	started.Lock()
	defer started.Unlock()
	return endOrphansOf(p, kill)
}

// endOrphansOf is endOrphans with started held.
func endOrphansOf(p *Process, kill bool) (found map[int]string, err error) {
	if err := reapOrphans(); err != nil {
		return nil, err
	}
	pids, err := orphans()
	for _, pid := range pids {
		born, failed := bornAt(pid)
		if hidden(failed) { // it is there, since nobody but us could wait for it
			born = math.MaxUint64
		} else if failed != nil {
			err = failed
			continue
		}
		if born < p.born || !confined(pid) || ofOtherUser(p, pid) || ownedByOther(p, pid, born) || !isChild(pid) {
			continue
		}
		if found == nil {
			found = map[int]string{}
		}
		found[pid] = nameOf(pid)
		if kill {
			unix.Kill(pid, unix.SIGKILL) // the number stays its own until we wait for it
		}
	}
	return found, err
}

// isChild says whether a process is our child, dead or alive, whatever /proc shows.
func isChild(pid int) bool {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != unix.EINTR {
			return err == nil
		}
	}
}

func nameOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	return quote.Line(strings.TrimSpace(string(name)))
}

// confined says whether a process may descend from one of ours: those and all that they start can get no new
// privileges, and cannot undo that. A process that does not tell may.
func confined(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || !strings.Contains(string(text), "\nNoNewPrivs:\t0\n")
}

// ofOtherUser says whether a process has a user that p, which is not root and can get no new privileges, cannot have
// given it. Where we may not look into other users' processes, as root in a container, it is all that tells one
// plugin's from another's.
func ofOtherUser(p *Process, pid int) bool {
	if p.uid == 0 {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, there := strings.Cut(string(text), "\nUid:\t")
	uid, _, _ := strings.Cut(after, "\t")
	return err == nil && there && uid != strconv.Itoa(p.uid)
}

// ownedByOther says, with started held, whether another process has started the orphan, and not p: one that is still
// there, or that looks for what it left. One that was seen to descend from it is its own, whatever it says now. What is
// older than a process is not of it, so that nobody can hide behind a later one.
func ownedByOther(p *Process, pid int, born uint64) bool {
	claimed := false
	others := slices.AppendSeq(slices.Collect(maps.Values(started.pids)), maps.Keys(started.ending))
	for _, other := range others {
		if other == p || other.born > born {
			continue
		}
		if other.bore(pid) {
			return true
		}
		claimed = claimed || other.owns(pid)
	}
	return claimed && !p.owns(pid)
}

// bore says whether a living process was seen among the descendants of p, which has not ended. Whoever holds p.mu never
// waits for started.
func (p *Process) bore(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fd, seen := p.strays[pid]
	return seen && !p.reaped && unix.PidfdSendSignal(fd, 0, nil, 0) == nil
}

const (
	maxEnviron     = 2 * maxPlan // how much of a process's environment is read: more than a plan may hold
	tellingEnviron = 128         // bytes: a shorter one may be anybody's, and would let its owner's name be borrowed
)

// owns says whether a process works in the private directory of p, or has the environment that p was given.
func (p *Process) owns(pid int) bool {
	at, err := placeOf(pid)
	if err != nil {
		return false
	}
	cwd, err := os.Readlink(at + "/cwd")
	if err == nil && p.dir != "" && (cwd == p.dir || strings.HasPrefix(cwd, p.dir+"/") || cwd == p.dir+" (deleted)") {
		return true
	}
	f, err := os.Open(at + "/environ")
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

// reap waits for dead orphans, and kills those that are owed.
func reap() {
	started.Lock()
	defer started.Unlock()
	endOwed()
	_ = reapOrphans() // what was not seen now is seen the next time
}

// endOwed kills, with started held, what could not be killed before.
func endOwed() {
	if started.owed == nil {
		return
	}
	if found, err := endOrphansOf(started.owed, true); len(found) == 0 && err == nil {
		started.owed = nil
	}
}

// reapOrphans waits, with started held, for each orphan that is dead.
func reapOrphans() error {
	pids, err := orphans()
	for _, pid := range pids {
		unix.Wait4(pid, nil, unix.WNOHANG, nil) // nothing happens to one that lives
	}
	return err
}

// ownChildren lists our children. Tests put gaps into it.
var ownChildren = func() ([]int, error) { return childrenOf(os.Getpid()) }

// orphans are, with started held, the children that are neither of started nor of our own session: those are for
// whoever else in this program has started them. Every process of ours begins a session. The error says that there may
// be more.
func orphans() (pids []int, err error) {
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, err
	}
	children, err := ownChildren()
	for _, pid := range children {
		if started.pids[pid] != nil {
			continue
		}
		its, err := unix.Getsid(pid)
		if err == nil && its != session {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
