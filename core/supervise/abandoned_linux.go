package supervise

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/confine"
)

// endAbandoned kills what gateways of this user that are dead have left behind, wherever it works and whatever its
// environment is: what bears the mark of a gateway and the number of one that is no more. A gateway that lives keeps
// all that it has started, since its number is there. Root kills for all users, to whom it gives plugins.
func endAbandoned(ctx context.Context) {
	for range leftRounds {
		all, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		found := false
		for _, e := range all {
			if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && leftBehind(pid) {
				found = true
				endIf(pid, leftBehind)
			}
		}
		if !found || ctx.Err() != nil {
			return
		}
		<-time.After(leftPause)
	}
}

// leftBehind says whether a process certainly is one that a dead gateway has left behind. What is not certain is no.
func leftBehind(pid int) bool {
	at, err := placeOf(pid)
	if err != nil {
		return false
	}
	origin, found := confine.OriginAt(at)
	return found && bound(at) && hereAs(at, "pid") && hereAs(at, "time") && dead(origin)
}

// bound says whether a process can get no new privileges and is of our user; for root, of any.
func bound(at string) bool {
	text, err := os.ReadFile(at + "/status")
	if err != nil || !strings.Contains(string(text), "\nNoNewPrivs:\t1\n") {
		return false
	}
	if os.Geteuid() == 0 {
		return true
	}
	_, after, _ := strings.Cut(string(text), "\nUid:")
	line, _, _ := strings.Cut(after, "\n")
	ids := strings.Fields(line)
	for _, id := range ids {
		if id != strconv.Itoa(os.Geteuid()) {
			return false
		}
	}
	return len(ids) > 0
}

// hereAs says whether a process has a namespace of ours: in another one the numbers of processes, or their times, are
// others.
func hereAs(at, space string) bool {
	own, err := os.Readlink("/proc/self/ns/" + space)
	its, err2 := os.Readlink(at + "/ns/" + space)
	if errors.Is(err, os.ErrNotExist) && errors.Is(err2, os.ErrNotExist) { // a kernel without such namespaces
		_, err = os.Stat(at + "/ns")
		return err == nil
	}
	return err == nil && err2 == nil && own == its
}

// dead says whether a gateway is no more: its number is nobody's, or that of a process which was started at another
// time. A process that is not shown lives.
func dead(o confine.Origin) bool {
	if errors.Is(unix.Kill(o.Pid, 0), unix.ESRCH) {
		return true
	}
	if _, err := placeOf(o.Pid); errors.Is(err, unix.ESRCH) { // nobody has waited for it yet
		return true
	}
	born, err := bornAt(o.Pid)
	return err == nil && !o.Is(born)
}
