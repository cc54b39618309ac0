package live

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
	"github.com/yett-dev/yett/core/testkit"
)

// instead writes a script that the hooks run in yett's place. $real is the true binary, and $in what the agent sent.
func (g *gateway) instead(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(g.dir, "instead")
	text := "#!/bin/bash\nreal=" + yett + "\nin=$(cat)\n" + script + "\n"
	if err := testkit.WriteProgram(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
	g.program = path
}

// permits is what every agent takes for a permit, so that a test which lets it through fails.
const permits = `printf '{}'; `

// failures are the ways in which a decision can fail to come. Each one leaves the gateway's policy permitting the call.
var failures = []struct {
	name string
	make func(t *testing.T, g *gateway) func(*hookfile.File)
}{
	{"binary missing", func(_ *testing.T, g *gateway) func(*hookfile.File) {
		g.program = "/run/yett/none"
		return nil
	}},
	{"killed", func(t *testing.T, g *gateway) func(*hookfile.File) {
		g.instead(t, permits+"kill -9 $$")
		return nil
	}},
	{"hanging", func(t *testing.T, g *gateway) func(*hookfile.File) {
		g.limit = "2"
		g.instead(t, permits+"exec sleep 100")
		return nil
	}},
	{"panicking", func(t *testing.T, g *gateway) func(*hookfile.File) {
		g.instead(t, permits+"printf 'panic: x\n\ngoroutine 1 [running]:\n' >&2; exit 2")
		return nil
	}},
	{"half an answer", func(t *testing.T, g *gateway) func(*hookfile.File) {
		g.instead(t, permits+"exit 1")
		return nil
	}},
	{"gateway down", func(_ *testing.T, g *gateway) func(*hookfile.File) {
		g.stop()
		return nil
	}},
	{"gateway slow", func(t *testing.T, g *gateway) func(*hookfile.File) {
		g.limit = "3"
		if err := g.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		})
		return nil
	}},
	{"500", func(t *testing.T, g *gateway) func(*hookfile.File) {
		return g.fakeGateway(t, `{"ok":false,"error":"it has failed","code":"internal","id":%s}`)
	}},
	{"garbage", func(t *testing.T, g *gateway) func(*hookfile.File) {
		return g.fakeGateway(t, `PERMIT %s`)
	}},
	{"half a permit", func(t *testing.T, g *gateway) func(*hookfile.File) {
		return g.fakeGateway(t, `{"id":%s,"ok":true,"effect":"PERMIT"}`)
	}},
	{"another user's gateway", func(t *testing.T, g *gateway) func(*hookfile.File) {
		return func(f *hookfile.File) {
			other := uint32(12345)
			f.SocketOwner = &other
		}
	}},
	{"program of exec missing", func(*testing.T, *gateway) func(*hookfile.File) {
		return func(f *hookfile.File) { f.Wrap = "/run/yett/none" }
	}},
	{"key revoked", func(t *testing.T, g *gateway) func(*hookfile.File) {
		out, err := exec.Command(yett, "keys", "revoke", g.id, "--data", g.data()).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return nil
	}},
	{"disk full", func(t *testing.T, g *gateway) func(*hookfile.File) {
		g.fillDisk(t)
		return nil
	}},
	{"file readable by others", func(t *testing.T, g *gateway) func(*hookfile.File) {
		g.mode = 0o644
		return nil
	}},
}

// TestFailures runs each agent with a call that its gateway would permit, while something fails: the tool never runs.
func TestFailures(t *testing.T) {
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			g := start(t, "1m")
			change := f.make(t, g)
			for _, c := range rig.Table {
				t.Run(c.Name, func(t *testing.T) {
					p := g.play(t, c, change, shell("touch ran"), done)
					if p.made("ran") {
						t.Error("the tool RAN")
					}
					if len(p.Calls()) == 0 {
						t.Error("the agent called no tool, so nothing was shown")
					}
				})
			}
		})
	}
}

// after says in a script whether the event is about a tool that has run.
const after = `case "$in" in *PostToolUse*|*PostToolBatch*|*AfterTool*|*toolResult*|*tool_result*|*tool.execute.after*) `

// TestUnscanned runs each agent with a call that is permitted, and a hook that fails once the tool has run: the model
// never sees the output.
func TestUnscanned(t *testing.T) {
	for name, script := range map[string]string{
		"killed":         after + permits + "kill -9 $$;; esac; printf %s \"$in\" | $real \"$@\"",
		"half an answer": after + "printf '{\"continue\"'; exit 1;; esac; printf %s \"$in\" | $real \"$@\"",
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, "1m")
			g.instead(t, script)
			for _, c := range rig.Table {
				t.Run(c.Name, func(t *testing.T) {
					p := g.play(t, c, nil, shell("touch ran; cat leak.txt"), done)
					if !p.made("ran") {
						t.Error("the tool did not run, so nothing was shown")
					}
					if p.Contains(secret) {
						t.Error("the model SAW the secret")
					}
				})
			}
		})
	}
}

// fakeGateway listens as root, whom the hooks trust, greets as a gateway does, and answers every request in one way.
func (g *gateway) fakeGateway(t *testing.T, answer string) func(*hookfile.File) {
	t.Helper()
	path := filepath.Join(g.dir, "fake.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				for in := bufio.NewReader(nc); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					_, rest, _ := strings.Cut(line, `"id":`)
					id := strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == '}' || r == '\n' })
					if len(id) == 0 {
						return
					}
					out := `{"ok":true,"protocol":1,"id":` + id[0] + "}\n"
					if !strings.Contains(line, `"type":"auth"`) && !strings.Contains(line, `"type":"hello"`) {
						out = fmt.Sprintf(answer, id[0]) + "\n"
					}
					if _, err := io.WriteString(nc, out); err != nil {
						return
					}
				}
			})
		}
	})
	return func(f *hookfile.File) { f.Socket = path }
}

// fillDisk moves the gateway to a small disk and leaves no room there.
func (g *gateway) fillDisk(t *testing.T) {
	t.Helper()
	g.stop()
	if err := os.MkdirAll(g.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(g.dir, "saved")
	if out, err := exec.Command("cp", "-a", g.data(), saved).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := unix.Mount("tmpfs", g.data(), "tmpfs", 0, "size=600m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(g.data(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if out, err := exec.Command("cp", "-a", saved+"/.", g.data()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	g.serve()
	full, err := os.Create(filepath.Join(g.data(), "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := full.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
}
