//go:build linux && (amd64 || arm64)

package host

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit/intruder"
)

const intruderArg = "wasm-intruder="

func init() {
	if len(os.Args) != 2 || !strings.HasPrefix(os.Args[1], intruderArg) {
		return
	}
	var at intruder.Target
	err := json.Unmarshal([]byte(strings.TrimPrefix(os.Args[1], intruderArg)), &at)
	if err == nil && at.Own != "" { // else the half that the launcher does has to do
		err = confine.Seal()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(intruder.Try(at))
	os.Exit(0)
}

// sealedTry is what an intruder achieves in the place of a worker.
func sealedTry(t *testing.T, at intruder.Target, policy *confine.Policy) (intruder.Outcome, []confine.Gap) {
	t.Helper()
	told, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	p, err := supervise.Start(supervise.Command{Name: "intruder", Args: []string{intruderArg + string(told)}, Pipe: true,
		Env: childEnv, Confine: policy})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	var out intruder.Outcome
	if err := json.NewDecoder(p.Out()).Decode(&out); err != nil {
		t.Fatalf("%v, %v", err, endOf(p))
	}
	io.Copy(io.Discard, p.Out())
	p.Exit()
	return out, p.Gaps()
}

// TestWorkerSealed: whoever takes a worker over has no file, no socket, no process, and nothing of others. Without the
// seal, as in the gateway itself, most of it would succeed.
func TestWorkerSealed(t *testing.T) {
	dir := t.TempDir()
	at := intruder.Target{Pid: os.Getpid(), File: filepath.Join(dir, "key"), Dir: dir, Own: dir}
	if err := os.WriteFile(at.File, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at.TCP = l.Addr().String()
	spec := Spec{}
	out, gaps := sealedTry(t, at, sealed(&spec))
	if len(gaps) > 0 {
		t.Skip("this kernel lacks what the test is about: ", confine.Told(gaps))
	}
	for name, failed := range out {
		if (failed == "") != (name == "memory.file" || name == "memory.shared" || name == "thread") {
			t.Errorf("%s: %q", name, failed)
		}
	}
	out, _ = sealedTry(t, at, nil)
	for _, name := range []string{"file.read", "dir.write", "tcp.connect", "fork", "signal.kill", "limit"} {
		if out[name] != "" {
			t.Errorf("unsealed: %s: %s", name, out[name])
		}
	}
}

// filters is how many filters of system calls a process is under; "" where the kernel does not tell, or the process has
// ended.
func filters(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(status)) {
		if n, is := strings.CutPrefix(line, "Seccomp_filters:"); is {
			return strings.TrimSpace(n)
		}
	}
	return ""
}

// TestModulesRunSealed: the processes that modules run in are under both filters, the launcher's and their own, before
// they read a module.
func TestModulesRunSealed(t *testing.T) {
	outside, err := strconv.Atoi(filters(os.Getpid())) // a container's
	if gaps := confine.Gaps(&confine.Policy{Worker: true}); len(gaps) > 0 || err != nil {
		t.Skip("this kernel lacks what the test is about: ", err, confine.Told(gaps))
	}
	both := strconv.Itoa(outside + 2)
	w := spawn(t, finder(), nil, tuning(nil))
	if n := filters(w.State().Pid); n != both {
		t.Errorf("a worker is under %s filters", n)
	}
	tr := newTrial()
	start := tr.start
	tr.start = func(c supervise.Command) (*supervise.Process, error) {
		p, err := start(c)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		// the module is not sent yet
		for limit := time.Now().Add(20 * time.Second); err == nil && filters(p.Pid()) != both; <-tick.C {
			if time.Now().After(limit) {
				t.Errorf("an admission process is under %s filters", filters(p.Pid()))
				break
			}
		}
		return p, err
	}
	if v, err := tr.admit(specOf(guest{scan: i32(0)})); err != nil || !v.OK {
		t.Errorf("%+v, %v", v, err)
	}
}
