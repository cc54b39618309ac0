package supervise

import (
	"fmt"
	"os"
	"sync"

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
	pids map[int]bool
}{pids: map[int]bool{}}

// fork starts a process of ours.
func fork(name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if err := adopt(); err != nil {
		return nil, err
	}
	started.Lock()
	defer started.Unlock()
	p, err := os.StartProcess(name, argv, attr)
	if err == nil {
		started.pids[p.Pid] = true
	}
	return p, err
}

// forget tells that a process was waited for. Then the dead among the orphans are.
func forget(pid int) {
	started.Lock()
	defer started.Unlock()
	delete(started.pids, pid)
	reapOrphans()
}

// reap waits for dead orphans.
func reap() {
	started.Lock()
	defer started.Unlock()
	reapOrphans()
}

// reapOrphans waits, with started held, for each dead child that is neither one of started nor of our own session: those are
// for whoever else in this program has started them. Every process of ours begins a session.
func reapOrphans() {
	session, err := unix.Getsid(0)
	if err != nil {
		return
	}
	for _, pid := range childrenOf(os.Getpid()) {
		if started.pids[pid] {
			continue
		}
		if its, err := unix.Getsid(pid); err == nil && its != session {
			unix.Wait4(pid, nil, unix.WNOHANG, nil) // nothing happens to one that lives
		}
	}
}
