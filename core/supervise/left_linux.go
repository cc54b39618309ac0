package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/confine"
)

const (
	leftRounds = 50 // in which what dies may leave others behind
	leftPause  = 10 * time.Millisecond
)

// endLeft kills what a process of a gateway that was killed has left behind: the kernel's death signal reaches the
// process, and not what that has started. It knows them by the private directory, which no living gateway owns: they
// work in it, or their environment names it. Whoever works elsewhere with another environment is found by endAbandoned.
// Where the directory may be a stranger's (not ours), only who carries a gateway's mark is killed.
func endLeft(dir string, ours bool) {
	for range leftRounds {
		pids := livingIn(dir, ours)
		for _, pid := range pids {
			endIf(pid, func(pid int) bool { return livesIn(pid, dir, ours) })
		}
		if len(pids) == 0 {
			return
		}
		<-time.After(leftPause)
	}
}

// endIf kills a process if it still is what was looked for: its number is looked at again once it cannot become
// another's.
func endIf(pid int, sought func(pid int) bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !sought(pid) {
		return
	}
	name := nameOf(pid)
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil { // else it has ended
		tellLeft(pid, name)
	}
}

func tellLeft(pid int, name string) {
	leftLog.Lock()
	defer leftLog.Unlock()
	if leftLog.tell != nil && !leftLog.told[pid] {
		leftLog.told[pid] = true
		leftLog.tell(pid, name)
	}
}

func livingIn(dir string, ours bool) (pids []int) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range all {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && livesIn(pid, dir, ours) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// livesIn says whether a process is one that a confined process can have started, works in a directory, or has it in
// its environment.
func livesIn(pid int, dir string, ours bool) bool {
	if !confinedFor(pid) || !ours && !marked(pid) {
		return false
	}
	at, err := placeOf(pid)
	if err != nil {
		return false
	}
	cwd, err := os.Readlink(at + "/cwd")
	if err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/") || cwd == dir+" (deleted)") {
		return true
	}
	f, err := os.Open(at + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(text, []byte{0}) {
		if _, value, _ := bytes.Cut(v, []byte("=")); string(value) == dir || bytes.HasPrefix(value, []byte(dir+"/")) {
			return true
		}
	}
	return false
}

// confinedFor says that a process, which must be shown, can get no new privileges: all of ours are so, and shells of
// people are not.
func confinedFor(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && bytes.Contains(text, []byte("\nNoNewPrivs:\t1\n"))
}

// marked says that a gateway has started a process, which must be shown.
func marked(pid int) bool {
	at, err := placeOf(pid)
	return err == nil && confine.MarkedAt(at)
}
