//go:build linux && (amd64 || arm64)

package supervise

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/core/confine"
	"golang.org/x/sys/unix"
)

func init() {
	modes["founds"] = founds
	modes["leaves-behind"] = func([]string) { leaveBehind() }
	modes["behind"] = func([]string) { fmt.Println(os.Getpid()); hang() }
	modes["changes-origin"] = func([]string) {
		fmt.Println(unix.Setrlimit(unix.RLIMIT_RSS, &unix.Rlimit{}), unix.Prlimit(0, unix.RLIMIT_RSS, &unix.Rlimit{}, nil))
	}
}

// founds is a gateway whose plugin leaves a process behind that has changed its directory and environment. It tells the
// number of that, and lives until it is killed.
func founds([]string) {
	p, err := Start(Command{Name: "plugin", Args: []string{"leaves-behind"}, Pipe: true,
		Confine: &confine.Policy{Children: true}})
	must(err)
	said, err := bufio.NewReader(p.Out()).ReadString('\n')
	must(err)
	fmt.Print(said)
	hang()
}

func leaveBehind() {
	c := exec.Command("/proc/self/exe", "behind")
	c.Dir, c.Env, c.Stdout = "/", []string{"NOTHING=said"}, os.Stdout
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(c.Start())
	hang()
}

// gatewayOf starts a gateway and gives what its plugin has left behind.
func gatewayOf(t *testing.T) (c *exec.Cmd, pid int) {
	t.Helper()
	c = exec.Command("/proc/self/exe", "founds")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, number(t, strings.TrimSpace(said))
}

// TestAbandonedEnd: what the plugins of a gateway that was killed have left behind ends, wherever it works and whatever
// its environment is. What a gateway that lives has started goes on, and so does who bears a part of the marks for
// reasons of his own.
func TestAbandonedEnd(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living, its := gatewayOf(t)
	killed, left := gatewayOf(t)
	others, orphan := watch(t, its), watch(t, left)
	strangers := map[string]*exec.Cmd{}
	for name, limits := range map[string]map[int]uint64{
		"who is marked":              {unix.RLIMIT_LOCKS: 0},
		"who may have few pages":     {unix.RLIMIT_LOCKS: 0, unix.RLIMIT_RSS: 1 << 20},
		"who has an origin alone":    {unix.RLIMIT_RSS: confine.Origin{Pid: killed.Process.Pid}.Limit()},
		"who is of a living gateway": {unix.RLIMIT_LOCKS: 0, unix.RLIMIT_RSS: originOf(t, living.Process.Pid).Limit()},
		"who can get new privileges": {unix.RLIMIT_LOCKS: 0, unix.RLIMIT_RSS: originOf(t, killed.Process.Pid).Limit()},
	} {
		c, _ := leaves(t, "/", []string{}, name != "who can get new privileges")
		for which, most := range limits {
			if err := unix.Prlimit(c.Process.Pid, which, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
				t.Fatal(err)
			}
		}
		strangers[name] = c
	}
	reused, ended := leaves(t, "/", []string{}, true) // its gateway's number is ours by now
	again := originOf(t, os.Getpid())
	again.Born--
	for which, most := range map[int]uint64{unix.RLIMIT_LOCKS: 0, unix.RLIMIT_RSS: again.Limit()} {
		if err := unix.Prlimit(reused.Process.Pid, which, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if orphan(0) {
		t.Fatal("what is there to end?")
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // killed
	told := map[int]int{}
	OnLeftEnded(func(pid int, _ string) { told[pid]++ })
	sweep(t.Context())
	OnLeftEnded(nil)
	if told[left] != 1 || told[reused.Process.Pid] != 1 || told[its] != 0 {
		t.Errorf("told were %v, and left behind %d and %d", told, left, reused.Process.Pid)
	}
	if !orphan(patience) {
		t.Fatal("what was left behind lives")
	}
	<-ended
	if others(0) {
		t.Error("what a living gateway's plugin has started has ended")
	}
	for name, c := range strangers {
		if err := c.Process.Signal(unix.Signal(0)); err != nil {
			t.Errorf("%s has ended: %v", name, err)
		}
	}
}

func originOf(t *testing.T, pid int) confine.Origin {
	t.Helper()
	born, err := bornAt(pid)
	if err != nil {
		t.Fatal(err)
	}
	return confine.Origin{Pid: pid, Born: born}
}

// TestOriginStays: a confined process has the origin that it was given, and cannot change it.
func TestOriginStays(t *testing.T) {
	p := begins(t, Command{Args: []string{"changes-origin"}, Pipe: true, Confine: &confine.Policy{Children: true}})
	said, err := io.ReadAll(p.Out())
	refused := unix.EPERM.Error()
	if err != nil || string(said) != refused+" "+refused+"\n" {
		t.Errorf("%q, %v", said, err)
	}
	q := begins(t, Command{Args: []string{"hang"}, Confine: &confine.Policy{}})
	o, found := confine.OriginAt(fmt.Sprintf("/proc/%d", q.Pid()))
	if own := originOf(t, os.Getpid()); !found || o.Pid != own.Pid || !o.Is(own.Born) {
		t.Errorf("%+v, %v; want %+v", o, found, own)
	}
}
