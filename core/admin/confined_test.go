package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/confine"
)

// restraintEnv makes this binary another process: what holds it back, then whether it is a server or a peer, on which
// directory.
const restraintEnv = "ADMIN_RESTRAINT"

// held is what holds a process back.
type held struct {
	NoNewPrivs bool
	Filters    int
	Marked     bool
}

type part struct {
	held
	Server  bool
	Data    string
	Entered bool // what holds it back does
}

func TestMain(m *testing.M) {
	text := os.Getenv(restraintEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := play(text); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func play(text string) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	if !p.Entered {
		return p.enter()
	}
	if p.Server {
		return p.serve()
	}
	c, err := Dial(p.Data)
	if err != nil {
		return err
	}
	defer c.Close()
	var out map[string]any
	err = c.Do(context.Background(), "GET", "/status", nil, &out)
	fmt.Println(out["version"], err)
	return nil
}

// enter holds this thread back, which becomes the process as it starts itself again.
func (p part) enter() error {
	runtime.LockOSThread()
	if p.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	for range p.Filters {
		pass := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
		program := unix.SockFprog{Len: 1, Filter: &pass}
		const setFilter = 1
		if _, _, failed := unix.Syscall(unix.SYS_SECCOMP, setFilter, 0, uintptr(unsafe.Pointer(&program))); failed != 0 {
			return failed
		}
	}
	if p.Marked {
		if err := confine.Mark(); err != nil {
			return err
		}
	}
	p.Entered = true
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.Setenv(restraintEnv, string(text)); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

// serve answers until its input ends, and says what it logs.
func (p part) serve() error {
	tellTime = time.Minute
	s, err := Listen(p.Data, Settings{Version: "v", OwnProc: func() error {
		return nil
	}, Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	fmt.Println("serves")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err := s.Close(context.Background()); err != nil {
		return err
	}
	return <-served
}

func playing(t *testing.T, p part) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", restraintEnv+"="+string(text))
	return c
}

// TestConfinedPeers: whoever is confined further than the server administers nothing, and is told so, and so is the
// log. A server that is confined itself lets in those that are confined as it is, and no plugin of another gateway
// among them.
func TestConfinedPeers(t *testing.T) {
	free, bound, one, two, plugin := held{}, held{NoNewPrivs: true}, held{true, 1, false}, held{true, 2, false},
		held{true, 1, true}
	for name, c := range map[string]struct {
		server held
		in     []held
		out    []held
	}{
		"a free server":          {free, []held{free}, []held{one, two, plugin, {Marked: true}}},
		"a server with a filter": {one, []held{free, bound, one}, []held{two, plugin, {true, 2, true}, {Marked: true}}},
		"a server with two":      {two, []held{free, one, two}, []held{plugin, {true, 3, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			server := playing(t, part{held: c.server, Server: true, Data: data})
			in, err := server.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			said := bufio.NewReader(out)
			if line, err := said.ReadString('\n'); line != "serves\n" {
				t.Fatalf("%q, %v", line, err)
			}
			for i, peer := range append(c.in, c.out...) {
				got, err := playing(t, part{held: peer, Data: data}).Output()
				if want := i < len(c.in); err != nil || want != bytes.Equal(got, []byte("v <nil>\n")) ||
					!want && !bytes.Contains(got, []byte("is confined further than this server")) {
					t.Errorf("%+v: %q, %v", peer, got, err)
				}
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			log, err := io.ReadAll(said)
			// not each one, so soon
			if n := strings.Count(string(log), "refused a connection"); err != nil || n > len(c.out) || n < min(1, len(c.out)) {
				t.Errorf("the log tells %d of %d, %v:\n%s", n, len(c.out), err, log)
			}
			if err := server.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
