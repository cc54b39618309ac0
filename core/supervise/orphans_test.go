//go:build linux

package supervise

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shell is a command of /bin/sh.
func shell(t *testing.T, script string) Command {
	t.Helper()
	path, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	return Command{Path: path, Digest: fileDigest(t, path), Args: []string{"-c", script}, Pipe: true,
		Env: map[string]string{"PATH": os.Getenv("PATH")}}
}

// TestOrphans: a process that a child has put into a session of its own and left without a parent is ours: who asks for
// its origin finds us. When it ends, it is waited for.
func TestOrphans(t *testing.T) {
	p := begins(t, shell(t, "(setsid sleep 1000 >&2 & echo $!); exec sleep 1000"))
	orphan := number(t, line(t, bufio.NewReader(p.Out())))
	t.Cleanup(func() { unix.Kill(orphan, unix.SIGKILL) })
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); !childOf(orphan, os.Getpid()); <-tick.C {
		if parent, _ := parentOf(orphan); parent == 1 && os.Getpid() != 1 || time.Now().After(limit) {
			t.Fatalf("the orphan belongs to %d, this is %d", parent, os.Getpid())
		}
	}
	p.Survey()
	if err := unix.Kill(orphan, 0); err != nil {
		t.Fatalf("it lives, and was waited for: %v", err)
	}
	unix.Kill(orphan, unix.SIGKILL)
	for limit := time.Now().Add(patience); unix.Kill(orphan, 0) == nil; <-tick.C {
		if p.Survey(); time.Now().After(limit) {
			t.Fatal("it is dead, and nobody waits for it")
		}
	}
}

// settles waits until a process that a shell told of is what it is to be: until then it is that shell's, which dies
// with its group.
func settles(t *testing.T, pid int) {
	t.Helper()
	until(t, "it sleeps in a session of its own, without a parent", func() bool {
		session, err := unix.Getsid(pid)
		return err == nil && session == pid && nameOf(pid) == "sleep" && childOf(pid, os.Getpid())
	})
}

// TestOrphansEnd: what a process leaves behind ends with it, also what has done all to hide where it came from; what
// another one has left behind does not, nor what was there before.
func TestOrphansEnd(t *testing.T) {
	const leaves, hides = "(setsid sleep 1000 >&2 & echo $!); read x",
		"(cd /; env -i /usr/bin/setsid /bin/sleep 1000 >&2 & echo $!); read x"
	orphan := func(script string, env string) (*Process, func(time.Duration) bool) {
		c := shell(t, script)
		c.Env["MARK"] = env
		p := begins(t, c)
		pid := number(t, line(t, bufio.NewReader(p.Out())))
		dead := watch(t, pid)
		settles(t, pid)
		return p, dead
	}
	older, hidden := orphan(hides, "1")
	// the kernel counts in hundredths of a second, and what is as old counts as younger
	<-time.After(30 * time.Millisecond)
	p, own := orphan(leaves, "2")
	other, others := orphan(leaves, "3")
	ended := func(p *Process) {
		t.Helper()
		defer func() {
			if left := p.Exit().Left; len(left) != 1 || !strings.HasPrefix(left[0], "sleep (") {
				t.Errorf("left: %q", left)
			}
		}()
		if _, err := p.In().Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		ends(t, p)
	}
	ended(p)
	if !own(patience) || others(0) || hidden(0) {
		t.Errorf("its own is dead: %v; the other's: %v; the older one: %v", own(0), others(0), hidden(0))
	}
	ended(other)
	if !others(patience) || hidden(0) {
		t.Errorf("the other's is dead: %v; the older one: %v", others(0), hidden(0))
	}
	ended(older)
	if !hidden(patience) {
		t.Error("the hidden one lives")
	}
}

// TestOrphansOfTheEnding: what a process has left behind is its own while it is looked for, and not that of an older
// one that ends then.
func TestOrphansOfTheEnding(t *testing.T) {
	begin := func(mark string) (*Process, int) {
		c := shell(t, "(setsid sleep 1000 >&2 & echo $!); read x")
		c.Env["MARK"] = strings.Repeat(mark, tellingEnviron)
		p := begins(t, c)
		pid := number(t, line(t, bufio.NewReader(p.Out())))
		t.Cleanup(func() { unix.Kill(pid, unix.SIGKILL) })
		settles(t, pid)
		return p, pid
	}
	older, own := begin("a")
	<-time.After(30 * time.Millisecond) // the kernel counts in hundredths of a second
	p, left := begin("b")
	started.Lock()
	delete(started.pids, p.pid)
	found, err := endOrphansOf(older, false)
	started.ending[p] = true
	claimed, err2 := endOrphansOf(older, false)
	delete(started.ending, p)
	started.pids[p.pid] = p
	started.Unlock()
	if err != nil || err2 != nil || found[left] == "" || found[own] == "" || claimed[left] != "" || claimed[own] == "" {
		t.Errorf("of nobody: %v %v; of one that ends: %v %v; own %d, the other's %d", found, err, claimed, err2, own, left)
	}
}

// TestOwedOrphans: what a process left and could not be killed is killed later, also where somebody looks before the
// process is forgotten.
func TestOwedOrphans(t *testing.T) {
	p := begins(t, shell(t, "(setsid sleep 1000 >&2 & echo $!); read x"))
	orphan := number(t, line(t, bufio.NewReader(p.Out())))
	dead := watch(t, orphan)
	settles(t, orphan)
	started.Lock()
	started.pids[p.pid] = &Process{} // as if it had ended
	started.ending[p] = true
	started.Unlock()
	defer func() {
		started.Lock()
		defer started.Unlock()
		delete(started.ending, p)
		started.pids[p.pid] = p
	}()
	p.owe()
	owed := true
	for owed {
		started.Lock()
		endOwed()
		owed = started.owed != nil
		started.Unlock()
	}
	if !dead(0) {
		t.Error("nothing is owed any more, and it lives")
	}
}

// TestOthersChildren: what this program starts without us is not waited for behind its back.
func TestOthersChildren(t *testing.T) {
	other, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 7"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(other.Pid)
	p := begins(t, shell(t, strings.Repeat(":;", 10)))
	ends(t, p)
	p.Survey()
	if state, err := other.Wait(); err != nil || state.ExitCode() != 7 {
		t.Errorf("%v %v", state, err)
	}
}

// TestOrphansOfOthers: what was seen to descend from another process is that one's, although it hides; what none of
// ours can have started is nobody's to kill.
func TestOrphansOfOthers(t *testing.T) {
	p := begins(t, shell(t, "read x"))
	other := begins(t, shell(t, "cd /; (env -i /usr/bin/setsid /bin/sleep 1000 >&2 & echo $!; exec sleep 1000) & echo "+
		"$!; read x"))
	out := bufio.NewReader(other.Out())
	one, two := number(t, line(t, out)), number(t, line(t, out))
	if childOf(one, two) {
		one, two = two, one
	}
	helper := watch(t, two)
	until(t, "it begins a session", func() bool { group, err := unix.Getpgid(two); return err == nil && group == two })
	other.Survey()
	unix.Kill(one, unix.SIGKILL)
	until(t, "it becomes an orphan", func() bool { return childOf(two, os.Getpid()) })
	stranger, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"},
		&os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		t.Fatal(err)
	}
	strangers := watch(t, stranger.Pid)
	if _, err := p.In().Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if ends(t, p); len(p.Exit().Left) != 0 || helper(0) || strangers(0) && !confined(os.Getpid()) {
		t.Errorf("killed: %q; the other's helper is dead: %v; the stranger: %v", p.Exit().Left, helper(0), strangers(0))
	}
	if _, err := other.In().Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if ends(t, other); !helper(patience) {
		t.Error("the helper outlives its plugin")
	}
}

// TestBorrowedNames: what a process leaves behind does not live on under the name of one that says little of itself, or
// of one that was started later.
func TestBorrowedNames(t *testing.T) {
	little := shell(t, "read x")
	little.Env = map[string]string{"MALLOC_ARENA_MAX": "1"}
	begins(t, little)
	told := filepath.Join(t.TempDir(), "told")
	if err := unix.Mkfifo(told, 0o600); err != nil {
		t.Fatal(err)
	}
	p := begins(t, shell(t, "cd /; (env -i MALLOC_ARENA_MAX=1 /usr/bin/setsid /bin/sleep 1000 >&2 & echo $!); "+
		"(env -i /usr/bin/setsid /bin/sh -c 'read x <"+told+"; cd $x; exec /bin/sleep 1000' >&2 & echo $!); read x"))
	out := bufio.NewReader(p.Out())
	borrowing, moving := number(t, line(t, out)), number(t, line(t, out))
	borrows, moves := watch(t, borrowing), watch(t, moving)
	settles(t, borrowing)
	<-time.After(30 * time.Millisecond) // the kernel counts in hundredths of a second
	later := begins(t, shell(t, "read x"))
	if err := os.WriteFile(told, []byte(later.dir+"\n"), 0); err != nil {
		t.Fatal(err)
	}
	until(t, "it moves", func() bool {
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", moving))
		return err == nil && cwd == later.dir
	})
	if _, err := p.In().Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if ends(t, p); !borrows(0) || !moves(0) {
		t.Errorf("dead: the one with a short environment %v, the one in a later one's directory %v", borrows(0), moves(0))
	}
}

// TestGapsInTheListOfChildren: what a process leaves behind is told and ends, although the kernel's list of children
// misses it a few times in a row.
func TestGapsInTheListOfChildren(t *testing.T) {
	p := begins(t, shell(t, "(setsid sleep 1000 >&2 & echo $!); read x"))
	orphan := number(t, line(t, bufio.NewReader(p.Out())))
	dead := watch(t, orphan)
	settles(t, orphan)
	whole := ownChildren
	t.Cleanup(func() { started.Lock(); ownChildren = whole; started.Unlock() })
	const gap = 2 * 4 // each look lists twice: once to wait for the dead
	lists := 0
	started.Lock()
	ownChildren = func() ([]int, error) { // with started held
		pids, err := whole()
		if lists++; lists <= gap {
			pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == orphan })
		}
		return pids, err
	}
	started.Unlock()
	if _, err := p.In().Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	ends(t, p)
	if left := p.Exit().Left; len(left) != 1 || !strings.HasPrefix(left[0], "sleep (") || !dead(patience) {
		t.Errorf("left: %q, dead: %v", left, dead(0))
	}
}
