//go:build linux

package supervise

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/testkit"
	"golang.org/x/sys/unix"
)

func TestEcho(t *testing.T) {
	p := begins(t, Command{Args: []string{"echo"}, Pipe: true})
	want := strings.Repeat("hello ", 100_000)
	go func() {
		io.WriteString(p.In(), want)
		p.In().Close()
	}()
	got, err := io.ReadAll(p.Out())
	if err != nil || string(got) != want {
		t.Errorf("%d bytes back of %d, %v", len(got), len(want), err)
	}
	if e := ends(t, p); e.Code != 0 || e.Err != "" || e.Cause != CauseExited || e.Usage.MaxRSS == 0 || e.Usage.CPU == 0 {
		t.Errorf("%#v", e)
	}
}

func TestWithoutPipes(t *testing.T) {
	p := begins(t, Command{Args: []string{"echo"}}) // reads /dev/null, so it ends
	if e := ends(t, p); e.Code != 0 {
		t.Error(e)
	}
	if _, err := p.In().Write([]byte("x")); err == nil {
		t.Error("a write went nowhere")
	}
	if b, err := io.ReadAll(p.Out()); len(b) > 0 || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

func TestRefusals(t *testing.T) {
	good := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		Command
		want string
	}{
		"no name":          {Command{}, "name: 0 bytes"},
		"long name":        {Command{Name: strings.Repeat("n", 65)}, "name: 65 bytes, wants 1 to 64"},
		"relative":         {Command{Name: "x", Path: "sh", Digest: good}, "not absolute"},
		"no digest":        {Command{Name: "x", Path: "/bin/sh"}, `digest: ""`},
		"upper case":       {Command{Name: "x", Path: "/bin/sh", Digest: "sha256:" + strings.Repeat("A", 64)}, "lower-case"},
		"other sum":        {Command{Name: "x", Path: "/bin/sh", Digest: "md5:" + strings.Repeat("0", 64)}, "digest: "},
		"digest of ours":   {Command{Name: "x", Digest: good}, "without a path"},
		"wrong digest":     {Command{Name: "x", Path: "/bin/sh", Digest: good}, ": the file is not the one that was admitted"},
		"missing":          {Command{Name: "x", Path: "/nowhere/at/all", Digest: good}, "no such file"},
		"directory":        {Command{Name: "x", Path: "/tmp", Digest: good}, "not a regular file"},
		"device":           {Command{Name: "x", Path: "/dev/zero", Digest: good}, "not a regular file"},
		"relative dir":     {Command{Name: "x", Dir: "tmp"}, "dir: "},
		"missing dir":      {Command{Name: "x", Dir: "/nowhere"}, "chdir /nowhere"},
		"zero in args":     {Command{Name: "x", Args: []string{"a", "b\x00"}}, "args: number 1"},
		"empty variable":   {Command{Name: "x", Env: map[string]string{"": "v"}}, "env: "},
		"variable with =":  {Command{Name: "x", Env: map[string]string{"a=b": "v"}}, "env: "},
		"zero in variable": {Command{Name: "x", Env: map[string]string{"a": "\x00"}}, "env: "},
		"too much":         {Command{Name: "x", Args: []string{strings.Repeat("a", maxPlan)}}, "at most 1048576"},
		"one too long":     {Command{Name: "x", Args: []string{strings.Repeat("\x01", maxPlan/2)}}, "exec: argument list too long"},
		"negative":         {Command{Name: "x", Limits: Limits{CPU: -1}}, "negative"},
		"keeps no input":   {Command{Name: "x", KeepInput: true}, "without a pipe"},
		"nil file":         {Command{Name: "x", ExtraFiles: []*os.File{nil}}, "number 0 is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(c.Command)
			if p != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwants %q", err, c.want)
			}
		})
	}
}

func TestNotExecutable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := testkit.WriteProgram(path, []byte("neither a binary nor a script")); err != nil {
		t.Fatal(err)
	}
	_, err := Start(Command{Name: "text", Path: path, Digest: fileDigest(t, path)})
	if !errors.Is(err, unix.ENOEXEC) && (err == nil || !strings.Contains(err.Error(), "exec format error")) {
		t.Error(err)
	}
}

// asks starts a child that reports on itself.
func asks(t *testing.T, c Command) (r report) {
	t.Helper()
	c.Args, c.Pipe = append([]string{"report"}, c.Args...), true
	p := begins(t, c)
	data, err := io.ReadAll(p.Out())
	end := ends(t, p) // all that it wrote is logged by then
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Fatalf("%v: %s; %+v", err, data, end)
	}
	if r.Pid != p.Pid() {
		t.Errorf("it is process %d, said to be %d", r.Pid, p.Pid())
	}
	return r
}

func TestEnvironment(t *testing.T) {
	t.Setenv("YETT_OF_THE_PARENT", "must not be seen")
	if r := asks(t, Command{}); len(r.Env) != 0 {
		t.Errorf("not empty: %q", r.Env)
	}
	r := asks(t, Command{Env: map[string]string{"B": "2", "A": "", "C": "ä = b\n"},
		Args: []string{"one", "", "two words"}})
	if want := []string{"A=", "B=2", "C=ä = b\n"}; !slices.Equal(r.Env, want) {
		t.Errorf("%q, want %q", r.Env, want)
	}
	if want := []string{"report", "one", "", "two words"}; !slices.Equal(r.Args[1:], want) {
		t.Errorf("%q, want %q", r.Args[1:], want)
	}
}

func TestSurroundings(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine")
	f, err := os.Create(mine)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	leak, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 40) // as if inherited: not closed by exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	extra, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()

	r := asks(t, Command{ExtraFiles: []*os.File{extra}})
	if r.Group != r.Pid || r.Session != r.Pid {
		t.Errorf("process %d, group %d, session %d", r.Pid, r.Group, r.Session)
	}
	if r.Death != int(unix.SIGKILL) {
		t.Errorf("its parent's death sends signal %d", r.Death)
	}
	if !strings.Contains(r.Status, "NoNewPrivs:\t1\n") {
		t.Error("it may gain privileges")
	}
	if r.Umask != 0o077 {
		t.Errorf("umask %o", r.Umask)
	}
	if !slices.Contains(r.Files, "3 "+os.DevNull) {
		t.Errorf("the extra file is not descriptor 3: %q", r.Files)
	}
	for _, open := range r.Files {
		if strings.Contains(open, mine) || !regexp.MustCompile(`^([0-2] (pipe:|/dev/null)|3 /dev/null|\d+ (anon_inode:|/proc/\d+/fd|/sys/fs/cgroup/))`).MatchString(open) {
			t.Errorf("descriptor %s is open", open)
		}
	}
	if r.Entries != 0 || !strings.Contains(filepath.Base(r.Dir), "yett-TestSurroundings.") {
		t.Errorf("works in %s with %d entries", r.Dir, r.Entries)
	}
	until(t, "its directory is removed", func() bool { _, err := os.Stat(r.Dir); return errors.Is(err, os.ErrNotExist) })

	if r.Autogroup != "" && !strings.HasSuffix(r.Autogroup, " nice 0\n") {
		t.Errorf("the priority of its session is %q", r.Autogroup)
	}
	var said lines
	low := asks(t, Command{Background: true, Log: said.log})
	refused := slices.ContainsFunc(said.all, func(l string) bool {
		return strings.HasPrefix(l, "yett: the session's priority stays: ")
	})
	if low.Nice != max(r.Nice, backgroundNice) ||
		low.Autogroup != "" && strings.HasSuffix(low.Autogroup, " nice 10\n") == refused {
		t.Errorf("nice %d, in the background %d, its session's %q, and it says %q", r.Nice, low.Nice, low.Autogroup, said.all)
	}

	dir := t.TempDir()
	if r := asks(t, Command{Dir: dir}); r.Dir != dir {
		t.Errorf("works in %s, not %s", r.Dir, dir)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the caller's directory: %v", err)
	}
}

func TestLimitsAreSet(t *testing.T) {
	r := asks(t, Command{Limits: Limits{CPU: 90*time.Second + 1, Files: 77, FileSize: 4096, Processes: 5000,
		Data: 1 << 45}})
	for name, c := range map[string]struct {
		which int
		want  uint64
	}{
		"Max core file size": {unix.RLIMIT_CORE, 0}, "Max cpu time": {unix.RLIMIT_CPU, 91}, "Max open files": {unix.RLIMIT_NOFILE, 77}, "Max file size": {unix.RLIMIT_FSIZE, 4096},
		"Max processes": {unix.RLIMIT_NPROC, 5000}, "Max data size": {unix.RLIMIT_DATA, 1 << 45}, "Max address space": {unix.RLIMIT_AS, unix.RLIM_INFINITY},
	} {
		var ours unix.Rlimit // never above what already holds
		if err := unix.Getrlimit(c.which, &ours); err != nil {
			t.Fatal(err)
		}
		soft, hard := min(c.want, ours.Max), min(c.want, ours.Max)
		if c.want == unix.RLIM_INFINITY { // not limited: it is as it was
			soft = ours.Cur
		}
		if !regexp.MustCompile(name + ` +` + written(soft) + ` +` + written(hard) + ` `).MatchString(r.Limits) {
			t.Errorf("%s is not %d and %d:\n%s", name, soft, hard, r.Limits)
		}
	}
}

// A program that is confined cannot use up what all programs of its user share: the kernel counts these by user.
func TestSharedLimitsOfTheConfined(t *testing.T) {
	for name, c := range map[string]struct {
		which int
		want  uint64
	}{"Max pending signals": {unix.RLIMIT_SIGPENDING, 1024}, "Max msgqueue size": {unix.RLIMIT_MSGQUEUE, 0},
		"Max stack size": {unix.RLIMIT_STACK, 8 << 20}} {
		var ours unix.Rlimit
		if err := unix.Getrlimit(c.which, &ours); err != nil {
			t.Fatal(err)
		}
		for _, policy := range []*confine.Policy{nil, {}} {
			soft, hard := ours.Cur, ours.Max
			if policy != nil {
				soft, hard = min(c.want, ours.Max), min(c.want, ours.Max)
			}
			r := asks(t, Command{Confine: policy})
			if !regexp.MustCompile(name + ` +` + written(soft) + ` +` + written(hard) + ` `).MatchString(r.Limits) {
				t.Errorf("%s is not %d and %d, confined %t:\n%s", name, soft, hard, policy != nil, r.Limits)
			}
		}
	}
}

// written is a limit as the kernel writes it.
func written(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

func TestUser(t *testing.T) {
	if !maySwitch(t) {
		if _, err := Start(Command{Name: "user", Args: []string{"report"}, User: &User{UID: 64999, GID: 64998}}); err == nil {
			t.Error("switched users without the right to")
		}
		return
	}
	r := asks(t, Command{User: &User{UID: 64999, GID: 64998, Groups: []uint32{64997}}})
	if r.UID != 64999 || r.GID != 64998 || !slices.Equal(r.Groups, []string{"64997"}) {
		t.Errorf("user %d, group %d, groups %v", r.UID, r.GID, r.Groups)
	}
	if r.Death != int(unix.SIGKILL) {
		t.Errorf("its parent's death sends signal %d: the switch cleared it", r.Death)
	}
	if !strings.Contains(r.Status, "CapEff:\t0000000000000000\n") {
		t.Error("it kept capabilities")
	}
	if r := asks(t, Command{User: &User{UID: 64999, GID: 64998}}); len(r.Groups) != 0 {
		t.Errorf("groups %v", r.Groups)
	}
}

// A change of the file between the check and the start changes nothing, whether it is replaced or written to.
func TestSwappedBinary(t *testing.T) {
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, swap := range map[string]func(path string) error{
		"untouched": func(string) error { return nil },
		"replaced": func(path string) error {
			if err := testkit.WriteProgram(path+".new", []byte("#!/bin/sh\necho swapped\n")); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"written": func(path string) error { return testkit.WriteProgram(path, []byte("#!/bin/sh\necho swapped\n")) },
		"removed": os.Remove,
	} {
		for kind, program := range map[string][]byte{"binary": own, "script": []byte("#!/bin/sh\ncat\n")} {
			if testkit.Quick() && kind == "binary" && name != "replaced" {
				continue // each copies and starts this program
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "program")
				if err := testkit.WriteProgram(path, program); err != nil {
					t.Fatal(err)
				}
				b := &birth{command: Command{Name: "swap", Path: path, Digest: digestOf(program), Args: []string{"echo"},
					Pipe: true}}
				if kind == "script" {
					b.command.Args = nil
				}
				defer b.release()
				if err := b.prepare(); err != nil {
					t.Fatal(err)
				}
				if err := swap(path); err != nil {
					t.Fatal(err)
				}
				p, err := b.launch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(p.In(), "what was checked")
				p.In().Close()
				got, err := io.ReadAll(p.Out())
				if e := ends(t, p); string(got) != "what was checked" || err != nil || e.Code != 0 {
					t.Errorf("%q %v %+v", got, err, e)
				}
				<-p.gone
			})
		}
	}
}

// Where memory cannot be executed, the copy is a file without a name.
func TestUnnamedCopy(t *testing.T) {
	program := []byte("#!/bin/sh\necho it runs\n")
	i, err := unnamedCopy(bytes.NewReader(program), digestOf(program))
	if err != nil {
		t.Fatal(err)
	}
	i.name = "program"
	b := &birth{command: Command{Name: "unnamed", Pipe: true}, image: i}
	defer b.release()
	kept := b.image
	if err := b.prepare(); err != nil {
		t.Fatal(err)
	}
	b.image.release()
	b.image = kept
	p, err := b.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p.Out())
	if e := ends(t, p); string(got) != "it runs\n" || err != nil || e.Code != 0 {
		t.Errorf("%q %v %+v", got, err, e)
	}
	<-p.gone
	if _, err := unnamedCopy(bytes.NewReader(program), digestOf([]byte("other"))); err == nil {
		t.Error("a copy of other bytes")
	}
}

// The kernel ties a child to the thread that forked it. A caller's thread may end; the child must not.
func TestCallersThreadEnds(t *testing.T) {
	tid := make(chan int, 1)
	got := make(chan *Process, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		p, err := Start(Command{Name: "thread", Args: []string{"echo"}, Pipe: true})
		if err != nil {
			t.Error(err)
		}
		got <- p
		tid <- unix.Gettid()
	}()
	p := <-got
	if p == nil {
		return
	}
	defer func() { p.Kill(); ends(t, p) }()
	id := <-tid
	if id == os.Getpid() {
		return // the main thread is never ended
	}
	until(t, "the caller's thread is gone", func() bool {
		return errors.Is(unix.Tgkill(os.Getpid(), id, 0), unix.ESRCH)
	})
	io.WriteString(p.In(), "still here\n")
	if s := line(t, bufio.NewReader(p.Out())); s != "still here" {
		t.Error(s)
	}
}
