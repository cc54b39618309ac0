//go:build linux

package supervise

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/testkit"
)

func TestEnds(t *testing.T) {
	for mode, want := range map[string]struct {
		code   int
		signal string
		cause  Cause
		err    string
	}{
		"crash":  {3, "", CauseExited, "ended with exit status 3: could not go on"},
		"panic":  {2, "", CauseExited, "ended with exit status 2: panic: on purpose"},
		"filled": {4, "", CauseExited, "ended with exit status 4: write file: file too large"},
		"cpu":    {-1, "SIGKILL", CauseCPU, "used up its processor time of 1 s"},
	} {
		if mode == "cpu" && testkit.Quick() {
			continue // it burns a second of processor time
		}
		t.Run(mode, func(t *testing.T) {
			l := Limits{FileSize: 1000}
			if mode == "cpu" {
				l.CPU = time.Second
			}
			p := begins(t, Command{Args: []string{mode}, Limits: l})
			e := ends(t, p)
			if e.Code != want.code || e.Signal != want.signal || e.Cause != want.cause || e.Err != want.err {
				t.Errorf("%#v", e)
			}
			p.Kill() // of no effect, above all not on whoever has the number now
			p.Terminate()
		})
	}
}

// TestMemoryIsItsOwn: a process is not told to take what the one that started it takes.
func TestMemoryIsItsOwn(t *testing.T) {
	ballast := make([]byte, 192<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	p := begins(t, Command{Path: "/bin/sh", Digest: fileDigest(t, "/bin/sh"), Args: []string{"-c", "sleep 600"}})
	runtime.KeepAlive(ballast)
	p.Kill()
	if e := ends(t, p); e.Usage.MaxRSS == 0 || e.Usage.MaxRSS > 64<<20 {
		t.Errorf("a shell took %d MiB", e.Usage.MaxRSS>>20)
	}
}

func TestMemory(t *testing.T) {
	testkit.Long(t, "processes that take all the memory they may")
	const mode = `x=0123456789; while :; do x=$x$x; done`
	p := begins(t, Command{Path: "/bin/sh", Digest: fileDigest(t, "/bin/sh"), Args: []string{"-c", mode},
		Limits: Limits{Memory: 64 << 20, CPU: 30 * time.Second}})
	if e := ends(t, p); e.Code == 0 || e.Usage.MaxRSS > 64<<20 || e.Cause == CauseCPU {
		t.Errorf("%#v", e)
	}
	if raceEnabled {
		return // the race detector needs more address space than can be limited
	}
	for name, l := range map[string]Limits{"address space": {Memory: 1 << 30}, "data": {Data: 512 << 20}} {
		p = begins(t, Command{Args: []string{"memory"}, Limits: l})
		e := ends(t, p)
		want := fmt.Sprintf("ran out of memory: up to %d MiB were resident, limited to ", e.Usage.MaxRSS>>20)
		if key := strings.Contains(e.Err, "limited to 512 MiB (limits.memory) (exit status 2)"); key != (name == "data") {
			t.Errorf("%s: %q", name, e.Err)
		}
		if e.Cause != CauseMemory || !strings.HasPrefix(e.Err, want) || e.Usage.MaxRSS > 1<<30 {
			t.Errorf("%s: %#v", name, e)
		}
		if len(e.Stderr) > maxStderr {
			t.Errorf("%s: %d bytes of stderr", name, len(e.Stderr))
		}
	}
}

func TestKill(t *testing.T) {
	for _, mode := range []string{"hang", "stop", "outflood", "garbage", "ignores"} {
		t.Run(mode, func(t *testing.T) {
			p := begins(t, Command{Args: []string{mode}, Pipe: true})
			switch mode {
			case "stop":
				line(t, bufio.NewReader(p.Out()))
				until(t, "it has stopped itself", func() bool {
					stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
					return bytes.Contains(stat, []byte(") T "))
				})
			case "ignores":
				line(t, bufio.NewReader(p.Out()))
				p.Terminate()
			case "garbage":
				b := make([]byte, 6)
				if _, err := io.ReadFull(p.Out(), b); err != nil || !bytes.Equal(b, []byte{0xff, 0, 0x80, '{', '\n', 0xfe}) {
					t.Errorf("%x %v", b, err)
				}
			case "outflood":
				if _, err := io.CopyN(io.Discard, p.Out(), 10<<20); err != nil {
					t.Error(err)
				}
			}
			var all sync.WaitGroup
			for range 8 {
				all.Go(p.Kill)
			}
			all.Wait()
			if e := ends(t, p); e.Cause != CauseKilled || e.Signal != "SIGKILL" || e.Code != -1 {
				t.Errorf("%#v", e)
			}
		})
	}
}

func TestTerminate(t *testing.T) {
	p := begins(t, Command{Args: []string{"hang"}})
	p.Terminate()
	if e := ends(t, p); e.Cause != CauseKilled || e.Signal != "SIGTERM" {
		t.Errorf("%#v", e)
	}
}

func TestKilledFromOutside(t *testing.T) {
	p := begins(t, Command{Args: []string{"hang"}})
	unix.Kill(p.Pid(), unix.SIGKILL)
	if e := ends(t, p); e.Cause != CauseOutside || !strings.Contains(e.Err, "SIGKILL from outside") {
		t.Errorf("%#v", e)
	}
	p = begins(t, Command{Args: []string{"hang"}})
	unix.Kill(p.Pid(), unix.SIGSEGV)
	if e := ends(t, p); e.Cause == CauseOutside || e.Cause == CauseKilled || e.Err == "" {
		t.Errorf("%#v", e)
	}
}

// A grandchild holds all the pipes. It dies with the group, whether the child is killed or ends by itself.
func TestGrandchildDies(t *testing.T) {
	for mode, cause := range map[string]Cause{"": CauseKilled, "session": CauseKilled, "exit": CauseExited} {
		t.Run("grandchild "+mode, func(t *testing.T) {
			p := begins(t, Command{Args: append([]string{"parent"}, strings.Fields(mode)...), Pipe: true})
			out := bufio.NewReader(p.Out())
			first, err := out.ReadString('\n') // a grandchild may be dead by the time we look
			if err != nil {
				t.Fatal(err)
			}
			pid := number(t, strings.TrimSpace(first))
			dead := func(time.Duration) bool { return true }
			if mode != "exit" {
				dead = watch(t, pid)
				p.Kill()
			}
			if e := ends(t, p); e.Cause != cause {
				t.Errorf("%#v", e)
			}
			if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
				t.Errorf("%q %v: somebody holds the pipe", rest, err)
			}
			if !dead(patience) {
				t.Error("the grandchild lives")
			}
			if mode == "exit" {
				until(t, "the grandchild is dead", func() bool { return gone(pid) })
			}
		})
	}
}

// gone says whether a process is no more, or waits for somebody to reap it.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// holds runs a script, which is to read a line and to end, while somebody else holds its stdout, who is out of reach.
func holds(t *testing.T, script string) *Process {
	t.Helper()
	p := begins(t, shell(t, "echo ready; "+script))
	if got := line(t, bufio.NewReader(p.Out())); got != "ready" {
		t.Fatal(got)
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", p.Pid()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := p.In().Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if e := ends(t, p); e.Code != 7 {
		t.Fatalf("%#v", e)
	}
	return p
}

// Who holds the pipes must not hold us up.
func TestHeldPipes(t *testing.T) {
	p := holds(t, "read x; exit 7")
	if rest, err := io.ReadAll(p.Out()); !errors.Is(err, ErrHeld) || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
	if _, err := p.In().Write([]byte("x")); err == nil {
		t.Error("stdin is still open")
	}
}

// What the process wrote before it ended is read in whole, however late.
func TestLateReader(t *testing.T) {
	p := holds(t, "read x; echo what it wrote; exit 7")
	out := p.Out().(*output)
	out.f.SetReadDeadline(time.Unix(1, 0)) // as it is a long time after
	b := make([]byte, 3)
	n, err := p.Out().Read(b)
	if n == 0 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	rest, err := io.ReadAll(p.Out())
	if got := string(b[:n]) + string(rest); !errors.Is(err, ErrHeld) || got != "what it wrote\n" {
		t.Errorf("%q %v", got, err)
	}
}

func TestForkBomb(t *testing.T) {
	p := begins(t, Command{Args: []string{"forks", "24"}, Pipe: true})
	out := bufio.NewReader(p.Out())
	var dead []func(time.Duration) bool
	for s := line(t, out); s != "done"; s = line(t, out) {
		dead = append(dead, watch(t, number(t, s)))
	}
	if len(dead) != 24 {
		t.Errorf("%d grandchildren", len(dead))
	}
	p.Kill()
	ends(t, p)
	for _, d := range dead {
		if !d(patience) {
			t.Error("a grandchild lives")
		}
	}
	if !maySwitch(t) {
		return // the limit counts all of a user's processes, so it takes a user of its own, and the right to switch
	}
	p = begins(t, Command{Args: []string{"forks", "200"}, Pipe: true, User: &User{UID: 64996, GID: 64996},
		Limits: Limits{Processes: 60}})
	out = bufio.NewReader(p.Out())
	n, refused := 0, false
	for {
		s, err := out.ReadString('\n')
		if err != nil || s == "done\n" {
			break // the limit may also have hit a thread of the child, which ends a Go program
		}
		n, refused = n+1, refused || strings.HasPrefix(s, "refused: ")
	}
	if n > 60 {
		t.Errorf("%d grandchildren under a limit of 60 processes", n)
	}
}

// When a gateway is killed with SIGKILL, nothing of ours runs in it any more: the kernel ends its children.
func TestParentKilled(t *testing.T) {
	c := exec.Command("/proc/self/exe", "middle")
	r, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	dead := watch(t, number(t, line(t, bufio.NewReader(r))))
	if dead(0) {
		t.Fatal("the child is dead before its parent")
	}
	c.Process.Kill()
	c.Wait()
	if !dead(patience) {
		t.Error("the child outlived its parent")
	}
}

// A launch whose parent is not who it should be ends instead of running on as an orphan.
func TestLaunchWithoutParent(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, plan := range map[string]struct{ text, want string }{
		"orphan":      {`{"Name":"x","Parent":1073741824,"Dir":"/","Target":-1,"Path":"/bin/true","CloseFrom":3,"Status":4}`, "launch x: the parent 1073741824 is gone"},
		"not a plan":  {`{]`, "launch: read the plan: "},
		"half a plan": {`{"Name":"x"`, "launch: read the plan: "},
	} {
		c := exec.Command("/proc/self/exe")
		c.Args, c.Env = []string{launchName}, []string{launchEnv + "=3"}
		var said bytes.Buffer
		c.Stderr = &said
		planIn, planOut, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.ExtraFiles = []*os.File{planIn, null}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		planIn.Close()
		io.WriteString(planOut, plan.text)
		planOut.Close()
		c.Wait()
		if c.ProcessState.ExitCode() != launchFails || !strings.HasPrefix(said.String(), plan.want) {
			t.Errorf("%s: %v, %s", name, c.ProcessState, said.String())
		}
	}
}

func TestStartIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed my mind"))
	if _, err := start(ctx, Command{Name: "x", Args: []string{"hang"}}); err == nil ||
		!strings.Contains(err.Error(), "changed my mind") {
		t.Error(err)
	}
}

func TestWithoutLaunch(t *testing.T) {
	launchable.Store(false)
	defer launchable.Store(true)
	if _, err := Start(Command{Name: "x", Args: []string{"hang"}}); err == nil ||
		!strings.Contains(err.Error(), "first thing in main") {
		t.Error(err)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p, err := Start(Command{Name: "bench", Args: []string{"echo"}})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
	}
}
