//go:build linux

package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the machine, a container or a service manager may give and withhold.

// childOf says whether a process is there and has that parent.
func childOf(pid, parent int) bool {
	its, err := parentOf(pid)
	return err == nil && its == parent
}

// gateway is one that starts a child, perhaps as another user, and tells what that reports, or why it does not start.
func gateway(args []string) {
	c := Command{Name: "inner", Args: []string{"report"}, Pipe: true}
	if len(args) > 0 {
		uid, _ := strconv.ParseUint(args[0], 10, 32)
		c.User = &User{UID: uint32(uid), GID: uint32(uid)}
	}
	p, err := Start(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(os.Stdout, p.Out())
	<-p.gone
}

// pair is a gateway of two children with users of their own, one of which has a process in a session of its own. It
// tells whether that outlives the end of the other, and of its own.
func pair() {
	path, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		fmt.Println(err)
		return
	}
	code, err := os.ReadFile(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	begin := func(uid uint32, script string) (*Process, int) {
		p, err := Start(Command{Name: "inner", Path: path, Digest: digestOf(code), Args: []string{"-c", script}, Pipe: true,
			User: &User{UID: uid, GID: uid}})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		said, _ := bufio.NewReader(p.Out()).ReadString('\n')
		pid, _ := strconv.Atoi(strings.TrimSpace(said))
		return p, pid
	}
	lives := func(p *Process, pid int) bool {
		p.In().Close()
		p.Exit()
		<-p.gone
		return pid == 0 || unix.Kill(pid, 0) == nil
	}
	other, _ := begin(64994, "echo; read x")
	p, pid := begin(64995, "(/usr/bin/setsid /bin/sleep 1000 >&2 & echo $!); read x")
	_, err = bornAt(pid)
	first := lives(other, pid) || hidden(err) // what /proc does not show at all is taken for anybody's
	fmt.Printf("lives: %v, %v\n", first, lives(p, pid))
}

// leave is a gateway whose child ends and leaves a process in hiding behind. It tells whether that lives.
func leave() {
	code, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := os.Stat(path); err != nil { // we may not look into its directory: then it is our own
		path = ""
	}
	c := Command{Name: "inner", Path: path, Args: []string{"keeps"}, Pipe: true}
	if path != "" {
		c.Digest = digestOf(code)
	}
	p, err := Start(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	said, err := bufio.NewReader(p.Out()).ReadString('\n')
	pid, _ := strconv.Atoi(strings.TrimSpace(said))
	p.In().Close()
	left := p.Exit()
	<-p.gone
	fmt.Printf("lives: %v, left: %d, loose: %v (%q, %v)\n", pid == 0 ||
		unix.Kill(pid, 0) == nil, len(left.Left), left.Loose, said, err)
}

// keep starts a process that hides, and ends with its stdin.
func keep() {
	c := exec.Command("/proc/self/exe", "hides")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Println(err)
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// hide is out of sight for who is not root, where /proc hides others' processes.
func hide() {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	fmt.Println(os.Getpid())
	hang()
}

// refused is leave where the kernel refuses calls that a container's filter may not know.
func refused() {
	runtime.LockOSThread() // exec keeps this thread's filter
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for _, n := range []uint32{unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_CLOSE_RANGE,
		unix.SYS_MEMFD_CREATE} {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: n},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", []string{"filtered", "leaves"}, os.Environ())
	}
	fmt.Println(err)
}

// noexec is refused where nothing in the temporary directory may be executed.
func noexec() {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("tmpfs", os.TempDir(), "tmpfs", unix.MS_NOEXEC, "")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	refused()
}

// masked is leave as the first process of a container, not root, where /proc shows nobody another's processes.
func masked() {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "hidepid=2")
	}
	for _, step := range []func() error{func() error { return syscall.Setgroups(nil) }, func() error {
		return syscall.Setgid(64992)
	},
		func() error { return syscall.Setuid(64992) }} {
		if err == nil {
			err = step()
		}
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", []string{"masked", "leaves"}, os.Environ())
	}
	fmt.Println(err)
}

// runs gives what a child says that was started some other way than ours.
func runs(t *testing.T, how *syscall.SysProcAttr, args ...string) string {
	t.Helper()
	c := exec.Command("/proc/self/exe", args...)
	c.SysProcAttr, c.Stderr = how, os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// A gateway that is not root but may switch users, as a service manager can start it, hands nothing of that on: with
// CAP_SETUID any plugin would be root. It may not look into the processes of other users, and knows whose they are by
// that. One that could not end what it starts does not start it.
func TestCapabilities(t *testing.T) {
	all := []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER,
		unix.CAP_KILL}
	as := func(caps []uintptr) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64993, Gid: 64993}, AmbientCaps: caps}
	}
	if !possible(as(all)) {
		return // it takes root to be given capabilities
	}
	tmp, err := os.MkdirTemp("", "yett-users-") // what t.TempDir makes others cannot reach
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(tmp) })
		err = os.Chmod(tmp, 0o777|os.ModeSticky)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	for name, args := range map[string][]string{"its own user": {"gateway"}, "another user": {"gateway", "64994"}} {
		said := runs(t, as(all), args...)
		var r report
		if err := json.Unmarshal([]byte(said), &r); err != nil {
			t.Fatalf("%s: %v: %s", name, err, said)
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if !strings.Contains(r.Status, set+":\t0000000000000000\n") {
				t.Errorf("%s: it kept capabilities:\n%s", name, r.Status)
			}
		}
	}
	if said := runs(t, as(all), "pair"); said != "lives: true, false\n" {
		t.Errorf("a process of another plugin: %s", said)
	}
	if said := runs(t, as(all[:5]), "gateway", "64994"); !strings.Contains(said,
		"user 64994: to run a process as another user the gateway needs CAP_KILL too") {
		t.Errorf("without the right to kill: %s", said)
	}
	if said := runs(t, as(nil), "gateway", "64993"); strings.Contains(said, "needs CAP_") {
		t.Errorf("its own user is no other: %s", said)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// In a /proc of another namespace the numbers of ours are strangers'. Nothing is started there: nobody could say who
// descends from it.
func TestForeignProc(t *testing.T) {
	for name, c := range map[string]struct {
		pid          int
		self, status string
		want         bool
	}{
		"ours":                {7, "7", "Name:\tyett\nTgid:\t7\nNSpid:\t7\nThreads:\t3\n", true},
		"a kernel before 4.1": {7, "7", "Name:\tyett\nTgid:\t7\n", true},
		"outside of ours":     {7, "4711", "Name:\tyett\nNSpid:\t4711\t7\n", false},
		"the same by chance":  {7, "7", "Name:\tyett\nNSpid:\t7\t7\n", false},
	} {
		if got := ownNumbers(c.pid, c.self, c.status); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	how := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		how.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if !possible(how) {
		return
	}
	if said := runs(t, how, "gateway"); !strings.Contains(said, "/proc is that of another PID namespace") {
		t.Error(said)
	}
}

// Where the kernel refuses pidfds, executable memory and the closing of many descriptors, all works that is promised.
func TestRefusedCalls(t *testing.T) {
	if said := runs(t, nil, "refused"); !strings.HasPrefix(said, "lives: false, left: 1, loose: <nil>") {
		t.Error(said)
	}
}

// closed is a gateway that is not root, where a directory has others in it that nobody may enter, or write to. It tells
// what is left.
func closed() {
	dir, err := MakeDir("closed", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, mode := range []os.FileMode{0, 0o500} {
		deep := filepath.Join(dir, fmt.Sprint("d", mode), "deep")
		err = errors.Join(err, os.MkdirAll(deep, 0o700), os.WriteFile(filepath.Join(deep, "file"), []byte("x"), 0),
			os.Chmod(deep, mode), os.Symlink("/", filepath.Join(filepath.Dir(deep), "link")), os.Chmod(filepath.Dir(deep), mode))
	}
	err = errors.Join(err, os.Chmod(dir, 0))
	RemoveDir(dir)
	_, gone := os.Lstat(dir)
	fmt.Printf("left: %v, %v\n", gone == nil, err)
}

// possible says whether a child can be started so: a machine may not give namespaces, nor root every right.
func possible(how *syscall.SysProcAttr) bool {
	try := exec.Command("/proc/self/exe", "ends")
	try.SysProcAttr = how
	return try.Run() == nil
}

// A process that /proc does not show is an orphan like any other.
func TestHiddenOrphan(t *testing.T) {
	how := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if !possible(how) {
		return // it takes root, with leave to mount
	}
	if said := runs(t, how, "masked"); !strings.HasPrefix(said, "lives: false, left: 1, loose: <nil>") {
		t.Error(said)
	}
}

// Where neither memory nor the temporary directory can be executed, the error says what would help.
func TestNothingExecutable(t *testing.T) {
	how := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if !possible(how) {
		return // it takes root, with leave to mount
	}
	t.Setenv("TMPDIR", t.TempDir())
	if said := runs(t, how, "noexec"); !strings.Contains(said, "temporary directory (TMPDIR) is mounted noexec") {
		t.Error(said)
	}
}

// A gateway that is out of descriptors cannot see what a child left behind. It says so, and ends it when it can.
func TestOutOfDescriptors(t *testing.T) {
	p := begins(t, shell(t, "(/usr/bin/setsid /bin/sleep 1000 >&2 & echo $!); read x"))
	pid := number(t, line(t, bufio.NewReader(p.Out())))
	dead := watch(t, pid)
	until(t, "it begins a session", func() bool { sid, err := unix.Getsid(pid); return err == nil && sid == pid })
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	// what is open stays open
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, werr := p.In().Write([]byte("\n"))
	e := ends(t, p)
	if err := errors.Join(unix.Setrlimit(unix.RLIMIT_NOFILE, &was), werr); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(e.Loose, unix.EMFILE) || len(e.Left) != 0 || dead(0) {
		t.Errorf("loose: %v, left: %q, dead: %v", e.Loose, e.Left, dead(0))
	}
	reap()
	if !dead(patience) {
		t.Error("it lives")
	}
	until(t, "nothing is owed", func() bool {
		reap()
		started.Lock()
		defer started.Unlock()
		return started.owed == nil
	})
}

// TestSearchChildren: the two ways to the children of a process tell the same.
func TestSearchChildren(t *testing.T) {
	p := begins(t, Command{Args: []string{"hang"}})
	listed, err := childrenOf(os.Getpid())
	found, serr := searchChildren(os.Getpid())
	if err != nil || serr != nil || !slices.Contains(found, p.Pid()) || !slices.Contains(listed, p.Pid()) {
		t.Errorf("process %d: %v %v, searched: %v %v", p.Pid(), listed, err, found, serr)
	}
}

// A TMPDIR that is not written from the root is one all the same.
func TestRelativeTemporary(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	if r := asks(t, Command{}); !filepath.IsAbs(r.Dir) || !strings.Contains(r.Dir, "/yett-") {
		t.Errorf("it works in %s", r.Dir)
	}
}

// What a process closes to itself goes with it all the same.
func TestClosedDirectories(t *testing.T) {
	how := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		how.Credential = &syscall.Credential{Uid: 64993, Gid: 64993}
	}
	if said := runs(t, how, "closes"); said != "left: false, <nil>\n" {
		t.Error(said)
	}
}
