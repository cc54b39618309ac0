//go:build linux && (amd64 || arm64)

package supervise

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/intruder"
	"golang.org/x/sys/unix"
)

func init() {
	modes["intrudes"] = intrudes
	modes["hidden"] = func([]string) {
		fmt.Println(confine.Hide())
		io.Copy(io.Discard, os.Stdin)
	}
	modes["processors"] = func([]string) {
		fmt.Printf("%d.", runtime.NumCPU())
		hang()
	}
	modes["multiplies"] = func([]string) { intruder.Threads(4096); hang() }
	modes["fills"] = func([]string) { intruder.Fill(".", 4<<30); hang() }
	modes["fills-hidden"] = func([]string) {
		f, _ := os.Create("hidden")
		os.Remove("hidden")
		block := make([]byte, 1<<20)
		for range 4 << 10 {
			f.Write(block)
		}
		hang()
	}
	modes["listens"] = func([]string) { listens(); hang() }
	modes["maps"] = func([]string) { intruder.Map(512 << 20); hang() }
	modes["litters"] = func([]string) {
		for n := range 4 * diskFiles {
			os.WriteFile(strconv.Itoa(n), nil, 0o600)
		}
		hang()
	}
}

func listens() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	fmt.Println(err, unix.Listen(fd, 5)) // the kernel picks a port
}

// intrudes tries everything on what the test named, and tells what became of it.
func intrudes(args []string) {
	var at intruder.Target
	if err := json.Unmarshal([]byte(args[0]), &at); err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(intruder.Try(at))
}

// victim is what an intruder goes for, all of it this test's and of the user that the intruder has.
func victim(t *testing.T, user *User) intruder.Target {
	t.Helper()
	dir, err := MakeDir("victim", user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveDir(dir) })
	own := func(path string) string {
		if user != nil {
			if err := os.Chown(path, int(user.UID), int(user.GID)); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	at := intruder.Target{Dir: dir, File: filepath.Join(dir, "audit.key"), Socket: filepath.Join(dir, "sock"),
		Abstract: "yett-" + filepath.Base(dir)}
	for _, path := range []string{at.File, filepath.Join(dir, "victim")} {
		if err := os.WriteFile(path, []byte("key"), 0o600); err != nil {
			t.Fatal(err)
		}
		own(path)
	}
	for _, l := range []struct{ network, address string }{{"unix", at.Socket}, {"unix", "@" + at.Abstract},
		{"tcp", "127.0.0.1:0"}} {
		listener, err := net.Listen(l.network, l.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		at.TCP = listener.Addr().String()
	}
	own(at.Socket)
	at.Pid = begins(t, Command{Name: "victim", Args: []string{"hang"}, Dir: dir, User: user}).Pid()
	return at
}

// try starts an intruder and gives what became of its attempts.
func try(t *testing.T, at intruder.Target, user *User, policy *confine.Policy) (intruder.Outcome, []confine.Gap) {
	t.Helper()
	own, err := MakeDir("intruder", user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveDir(own) })
	at.Own = own
	told, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	p := begins(t, Command{Args: []string{"intrudes", string(told)}, Dir: own, User: user, Pipe: true, NoInput: true,
		Confine: policy, Env: map[string]string{"GORACE": "atexit_sleep_ms=0"}})
	var out intruder.Outcome
	if err := json.NewDecoder(p.Out()).Decode(&out); err != nil {
		t.Fatalf("%v, %v", err, ends(t, p))
	}
	return out, p.Gaps()
}

// keeps is what a confined program must still be able to do.
var keeps = []string{"own.write", "dev.write", "system.read", "unix.listen", "thread", "own.execute"}

// lasts is what an intruder of the same user succeeds with when nothing confines it: the control of what the test below
// shows.
var lasts = []string{"file.read", "file.link", "file.mode", "file.mode.at", "file.mode.open", "file.owner",
	"file.times", "file.fd.mode", "file.fd.owner", "own.mode", "own.setid", "dir.list", "dir.write", "dir.remove",
	"proc.environ", "proc.mem", "proc.fd", "proc.cwd",
	"signal.kill", "signal.thread", "signal.queue", "signal.pidfd", "limit", "priority", "affinity", "processors",
	"unix.path", "unix.abstract", "tcp.connect", "tcp.listen", "udp", "unix.pair", "unix.pair.raw", "fork", "fork.exec",
	"memory.file", "memory.shared", "memory.device", "hide", "outlive"}

// byNetwork is what depends on the network that the policy leaves.
var byNetwork = map[string]bool{"unix.path": true, "unix.abstract": true, "tcp.connect": true, "tcp.listen": true,
	"udp": true, "tcp.multipath": true, "tcp.fastopen": true, "unix.pair": true, "unix.pair.raw": true}

func eachUser(t *testing.T, run func(t *testing.T, user *User)) {
	t.Run("own user", func(t *testing.T) { run(t, nil) })
	if maySwitch(t) {
		t.Run("ordinary user", func(t *testing.T) { run(t, &User{UID: 64999, GID: 64998}) })
	}
}

// TestConfined: an intruder of the gateway's own user, and one of another user that attacks its own kind, are refused
// everything, and can still work.
func TestConfined(t *testing.T) {
	eachUser(t, func(t *testing.T, user *User) {
		at := victim(t, user)
		out, gaps := try(t, at, user, &confine.Policy{Network: &confine.Network{}})
		t.Log("gaps:", confine.Told(gaps))
		open := map[string]bool{}
		for _, g := range gaps {
			open[g.Part] = true
		}
		if open[confine.PartSeccomp] || open[confine.PartFiles] {
			t.Skip("this kernel lacks what the test is about: ", confine.Told(gaps))
		}
		for name, failed := range out {
			may := false
			for _, k := range keeps {
				may = may || k == name
			}
			if may != (failed == "") {
				t.Errorf("%s: %q", name, failed)
			}
		}
		for name, failed := range out {
			if strings.HasPrefix(name, "call.") && name != "call.clone3" && failed != unix.EPERM.Error() {
				t.Errorf("%s came to %q: the kernel looked at it", name, failed)
			}
		}
	})
}

// TestLeavesAProcessor: who is confined leaves one processor to the gateway, where there are several; a worker and who
// is not confined may use all.
func TestLeavesAProcessor(t *testing.T) {
	all := runtime.NumCPU()
	for name, c := range map[string]struct {
		policy *confine.Policy
		want   int
	}{
		"confined": {&confine.Policy{}, max(1, all-1)},
		"worker":   {&confine.Policy{Worker: true}, all},
		"open":     {nil, all},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(Command{Name: "processors", Args: []string{"processors"}, Pipe: true, Confine: c.policy})
			must(err)
			defer func() { p.Kill(); <-p.gone }()
			got, err := bufio.NewReader(p.Out()).ReadString('.')
			if want := fmt.Sprintf("%d.", c.want); err != nil || got != want {
				t.Errorf("it may use %q processors of %d, want %q: %v", got, all, want, err)
			}
		})
	}
}

// TestUnconfined: without confinement the same attempts succeed.
func TestUnconfined(t *testing.T) {
	eachUser(t, func(t *testing.T, user *User) {
		out, _ := try(t, victim(t, user), user, nil)
		for _, name := range append(lasts, keeps...) {
			if out[name] != "" {
				t.Errorf("%s: %s", name, out[name])
			}
		}
	})
}

// TestConfinedNetwork: a policy's ports are all that is left of TCP, and the network is open where the policy says
// nothing.
func TestConfinedNetwork(t *testing.T) {
	at := victim(t, nil)
	_, text, _ := net.SplitHostPort(at.TCP)
	port := uint16(number(t, text))
	for name, c := range map[string]struct {
		network *confine.Network
		open    map[string]bool
	}{
		"open":       {nil, map[string]bool{"unix.path": true, "tcp.connect": true, "tcp.listen": true, "udp": true, "tcp.multipath": true, "tcp.fastopen": true, "unix.pair": true, "unix.pair.raw": true}},
		"its port":   {&confine.Network{Ports: []uint16{port}}, map[string]bool{"unix.path": true, "tcp.connect": true, "udp": true, "unix.pair": true, "unix.pair.raw": true}},
		"other port": {&confine.Network{Ports: []uint16{1}}, map[string]bool{"unix.path": true, "udp": true, "unix.pair": true, "unix.pair.raw": true}},
		"none":       {&confine.Network{}, map[string]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			out, gaps := try(t, at, nil, &confine.Policy{Network: c.network})
			if len(gaps) > 0 {
				t.Skip("this kernel lacks what the test is about: ", confine.Told(gaps))
			}
			for what := range byNetwork {
				if got := out[what] == ""; got != c.open[what] {
					t.Errorf("%s: %q", what, out[what])
				}
			}
		})
	}
}

// TestConfinedPaths: what a policy names is open, and no more; what is not there is told.
func TestConfinedPaths(t *testing.T) {
	at := victim(t, nil)
	out, gaps := try(t, at, nil, &confine.Policy{Read: []string{at.File}, Write: []string{at.Dir}, Children: true})
	if len(gaps) > 0 {
		t.Skip("this kernel lacks what the test is about: ", confine.Told(gaps))
	}
	for _, name := range []string{"file.read", "dir.list", "dir.write", "dir.remove", "fork"} {
		if out[name] != "" {
			t.Errorf("%s: %s", name, out[name])
		}
	}
	for _, name := range []string{"file.mode", "file.mode.at", "file.owner", "file.times", "file.fd.mode", "file.fd.owner",
		"file.fd.times", "file.fd.attribute",
		"own.mode", "own.setid", "proc.environ", "ptrace", "signal.kill", "signal.thread", "signal.queue", "signal.pidfd",
		"limit", "fork.exec", "unix.abstract"} {
		if out[name] == "" {
			t.Errorf("%s succeeded", name)
		}
	}
	out, _ = try(t, at, nil, &confine.Policy{Read: []string{at.Dir}})
	if out["file.read"] != "" || out["dir.write"] == "" || out["dir.remove"] == "" {
		t.Errorf("read only: %v", out)
	}
	_, err := Start(Command{Name: "lost", Args: []string{"hang"},
		Confine: &confine.Policy{Read: []string{"/no/such/path"}}})
	if err == nil || !strings.Contains(err.Error(), "paths.read: open /no/such/path") {
		t.Error(err)
	}
}

// TestConfinedStatus: what the kernel itself says of a confined process.
func TestConfinedStatus(t *testing.T) {
	eachUser(t, func(t *testing.T, user *User) {
		p := begins(t, Command{Args: []string{"report"}, User: user, Pipe: true, NoInput: true, Confine: &confine.Policy{}})
		var r report
		if err := json.NewDecoder(p.Out()).Decode(&r); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
			"CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
			if !strings.Contains(r.Status, line) {
				t.Errorf("no %q in\n%s", line, r.Status)
			}
		}
		if len(p.Gaps()) == 0 && !strings.Contains(r.Status, "Seccomp:\t2") {
			t.Errorf("no filter in\n%s", r.Status)
		}
		if r.Death != int(syscall.SIGKILL) {
			t.Errorf("signal at the parent's death: %d", r.Death)
		}
	})
}

// TestHidden: nobody of the same user reads the memory, environment or descriptors of a process that hid itself, or
// traces it.
func TestHidden(t *testing.T) {
	if !maySwitch(t) && os.Geteuid() == 0 {
		t.Skip("root may look into everything, and may not become another user here")
	}
	var user *User
	if os.Geteuid() == 0 {
		user = &User{UID: 64999, GID: 64998}
	}
	p := begins(t, Command{Args: []string{"hidden"}, User: user, Pipe: true})
	if said := line(t, bufio.NewReader(p.Out())); said != "<nil>" {
		t.Fatal(said)
	}
	out, _ := try(t, intruder.Target{Pid: p.Pid()}, user, nil)
	for _, name := range []string{"proc.environ", "proc.mem", "proc.maps", "proc.fd", "proc.cwd", "ptrace", "vm.read",
		"pidfd.getfd"} {
		if out[name] == "" {
			t.Errorf("%s succeeded", name)
		}
	}
	if out["signal.kill"] != "" {
		t.Errorf("the intruder did not even reach it: %s", out["signal.kill"])
	}
}

// TestWatched: what the kernel does not limit is limited all the same: threads, page tables, a directory that is
// filled, files that nobody sees, and files without number. The process is killed, and says why.
func TestWatched(t *testing.T) {
	over := map[string]string{
		"multiplies":   `^killed by the supervisor: it has \d{3,4} threads, limited to 200 \(limits.threads\)$`,
		"maps":         `^killed by the supervisor: it takes \d{3} MiB of memory with its page tables and what it shares, limited to 256 MiB \(limits.memory\)$`,
		"fills":        `^killed by the supervisor: its working directory takes \d+ MiB with 0 MiB of removed files that it keeps, limited to 32 MiB \(limits.disk\)$`,
		"fills-hidden": `^killed by the supervisor: its working directory takes \d+ MiB with \d+ MiB of removed files that it keeps, limited to 32 MiB \(limits.disk\)$`,
		"litters":      `^killed by the supervisor: its working directory has more than 16384 files, the most for which limits.disk is measured$`,
		"listens":      `^killed by the supervisor: it listens on TCP port \d+, which network does not list \(1\)$`,
	}
	if raceEnabled {
		delete(over, "maps") // the race detector needs more private memory than can be limited
	}
	if testkit.Quick() { // these write for seconds
		delete(over, "fills-hidden")
		delete(over, "litters")
	}
	for mode, want := range over {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := Limits{Threads: 200, Disk: 32 << 20, FileSize: 1 << 30}
			if mode == "maps" {
				l.Data = 256 << 20
			}
			policy := &confine.Policy{}
			if mode == "listens" {
				policy.Network = &confine.Network{Ports: []uint16{1}}
			}
			p := begins(t, Command{Args: []string{mode}, Limits: l, Confine: policy})
			if e := ends(t, p); e.Cause != CauseLimit || !regexp.MustCompile(want).MatchString(e.Err) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestConfinedRequired: where a part is missing, a process that requires it does not start.
func TestConfinedRequired(t *testing.T) {
	said, gaps, err := readGaps(launchGaps + `[{"Part":"seccomp","Why":"none"}]` + launchSet + "exec: no")
	if err != nil || said != launchSet+"exec: no" || len(gaps) != 1 || gaps[0].Part != confine.PartSeccomp {
		t.Errorf("%q, %v, %v", said, gaps, err)
	}
	p, err := Start(Command{Name: "strict", Args: []string{"hang"}, Confine: &confine.Policy{Required: true}})
	if err == nil {
		p.Kill()
		ends(t, p)
	}
	if lacks := confine.Gaps(&confine.Policy{}); (err == nil) != (len(lacks) == 0) {
		t.Errorf("%v, although this machine lacks %v", err, lacks)
	}
}
