package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
	"github.com/yett-dev/yett/sdk/client"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, fill)) }

// fill builds what the tests start.
func fill(share string) error {
	for name, pkg := range map[string]string{"yett": "../../../yett", "mcpserver": "../rig/mcpserver"} {
		build := exec.Command("go", "build", "-o", filepath.Join(share, name), pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

const yett = rig.Share + "/yett"

const config = `version: 1
server: {listen: "127.0.0.1:8420"}
console: {enabled: false}
socket: {path: %s/yett.sock, mode: "0666"}
defers: {ttl: %s}
plugins:
  secrets: {kind: scanner, builtin: secrets}
chains:
  authorize:
    steps: [{name: house, rules: [rules.yaml]}]
  scan_output:
    steps: [{use: secrets}]
    actions:
      - {kinds: ["SECRET_*"], action: redact, replacement: "[{kind}]"}
`

// says is a condition on the command of every agent's shell.
func says(word string) string {
	return fmt.Sprintf(`has(args.command) && args.command.contains("%[1]s") || `+
		`has(args.commands) && args.commands.exists(c, c.contains("%[1]s"))`, word)
}

func rules() string {
	return "rules:\n" +
		"  - {id: never, tools: [\"**\"], when: '" + says("never-this") + "', effect: deny, message: The rule denies it.}\n" +
		"  - {id: ask, tools: [\"**\"], when: '" + says("ask-first") + "', effect: defer}\n" +
		"  - {id: no-tool, tools: [\"mcp.*/fail\"], effect: deny, message: That tool is closed.}\n" +
		"  - {id: rest, tools: [\"**\"], effect: permit}\n"
}

// gateway is a running gateway with an agent's key and an approver.
type gateway struct {
	t        *testing.T
	dir      string
	program  string      // what the hooks run; the gateway's own binary if empty
	limit    string      // instead of the guard line's seconds
	mode     os.FileMode // of the hook's own file; 0600 if 0
	cmd      *exec.Cmd
	key, id  string // the agents' key
	approver *client.Client
}

// start starts a gateway, which ends with the test. A call waits ttl for its approval.
func start(t *testing.T, ttl string) *gateway {
	t.Helper()
	if os.Getenv(rig.Switch) == "" {
		t.Skip("runs real coding agents: set YETT_AGENTS=1, and YETT_AGENTS_CLIENTS to the folder of npm ci")
	}
	dir := t.TempDir()
	// the agents' users reach the socket, and nothing else
	for d := dir; d != "/tmp"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	g := &gateway{t: t, dir: dir}
	for name, text := range map[string]string{"yett.yaml": fmt.Sprintf(config, dir, ttl), "rules.yaml": rules()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.serve()
	g.key, g.id = g.newKey("agent", "agent")
	boss, _ := g.newKey("boss", "approver")
	var err error
	if g.approver, err = client.New(client.Options{URL: "http://127.0.0.1:8420", Key: boss}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.approver.Close() })
	return g
}

func (g *gateway) data() string { return filepath.Join(g.dir, "data") }

// serve runs the gateway until stop or the end of the test.
func (g *gateway) serve() {
	g.t.Helper()
	cmd := exec.Command(yett, "serve", "--config", filepath.Join(g.dir, "yett.yaml"), "--data", g.data())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.cmd = cmd
	said, ready := &strings.Builder{}, make(chan bool, 1)
	go func() {
		in := bufio.NewScanner(stderr)
		for in.Scan() {
			said.WriteString(in.Text() + "\n")
			if strings.Contains(in.Text(), "serving on") {
				ready <- true
			}
		}
		close(ready)
	}()
	if !<-ready {
		g.t.Fatalf("the gateway does not start: %v\n%s", cmd.Wait(), said.String())
	}
	g.t.Cleanup(g.stop)
}

// stop ends the gateway, and waits for its end.
func (g *gateway) stop() {
	if g.cmd == nil {
		return
	}
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Error(err)
	}
	if err := g.cmd.Wait(); err != nil {
		g.t.Error(err)
	}
	g.cmd = nil
}

func (g *gateway) newKey(name, preset string) (key, id string) {
	g.t.Helper()
	out, err := exec.Command(yett, "keys", "create", name, "--preset", preset, "--data", g.data(), "-o", "json").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		g.t.Fatalf("keys create: %s", exit.Stderr)
	}
	var k struct{ Key, ID string }
	if err := errors.Join(err, json.Unmarshal(out, &k)); err != nil {
		g.t.Fatalf("keys create: %v: %s", err, out)
	}
	return k.Key, k.ID
}

// hookFile writes a run's own file, below its HOME.
func (g *gateway) hookFile(p *rig.Place, agent string, change func(*hookfile.File)) string {
	g.t.Helper()
	root, no := uint32(0), hookfile.Duration(0)
	f := &hookfile.File{Agent: agent, Socket: filepath.Join(g.dir, "yett.sock"), SocketOwner: &root, Key: g.key, Wait: &no,
		Servers: []string{"tester"}}
	if change != nil {
		change(f)
	}
	text, err := f.Marshal()
	if err != nil {
		g.t.Fatal(err)
	}
	p.Write(".config/yett/hooks/"+agent+".json", string(text))
	path := filepath.Join(p.Home, ".config/yett/hooks/"+agent+".json")
	mode := g.mode
	if mode == 0 {
		mode = 0o600
	}
	if err := os.Chmod(path, mode); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// pending waits until a call waits for approval, and gives it.
func (g *gateway) pending(ctx context.Context) (client.Pending, error) {
	for {
		list, err := g.approver.Approvals(ctx, "", 0)
		if err != nil {
			return client.Pending{}, err
		}
		if len(list.Approvals) > 0 {
			return list.Approvals[0], nil
		}
		select {
		case <-ctx.Done():
			return client.Pending{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// guard is the line that stands in an agent's configuration.
func (g *gateway) guard(agent string, phase hook.Phase, file string) string {
	g.t.Helper()
	timeout, err := exec.LookPath("timeout")
	if err != nil {
		g.t.Fatal(err)
	}
	program := g.program
	if program == "" {
		program = yett
	}
	line, err := hook.Guard(hook.Agent(agent), phase, hook.Command{Yett: program, Config: file, Timeout: timeout})
	if err != nil {
		g.t.Fatal(err)
	}
	if g.limit != "" {
		real := hook.TimingOf(hook.Agent(agent), phase).Guard
		short := strings.Replace(line, fmt.Sprintf(" -k 1 %d ", int(real.Seconds())), " -k 1 "+g.limit+" ", 1)
		if agent == "opencode" {
			short = strings.Replace(line, fmt.Sprintf("limit = %d\n", real.Milliseconds()), "limit = "+g.limit+"000\n", 1)
		}
		if short == line {
			g.t.Fatalf("the guard line has no limit: %s", line)
		}
		line = short
	}
	return line
}
