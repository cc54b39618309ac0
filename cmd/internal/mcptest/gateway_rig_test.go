package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// gateway is the real program in front of MCP servers.
type gateway struct {
	t        testing.TB
	dir      string // of its configuration
	kept     bool   // its data outlive a restart
	data     string
	url      string // of the server NAME, without NAME; it stays the same over a restart
	api      string
	agent    string // keys
	approver string
	pid      int
	end      func()
}

// setup is what a gateway is started with.
type setup struct {
	Servers string // the section mcp.servers, each server on a line of its own
	Rules   string // lists of rules; "" permits everything
	MCP     string // further members of the section mcp
	Scan    string // the section chains.scan_output; "" redacts secrets
	Kept    bool   // the data outlive a restart; each start compiles the scanners anew then
}

const (
	permitAll     = `  - {id: all, tools: ["**"], effect: permit}` + "\n"
	redactSecrets = `{budget: 30s, steps: [{use: secrets}], actions: [{kinds: ["SECRET_*"], action: redact}, {action: flag}]}`
)

// behind names a server at a URL, for setup.Servers.
func behind(name, url string) string { return fmt.Sprintf("    %s: {url: %s}\n", name, url) }

// startGateway starts the program and waits until it serves. The test's end ends it.
func startGateway(t testing.TB, s setup) *gateway {
	t.Helper()
	e2e.Binary(t)
	if s.Rules == "" {
		s.Rules = permitAll
	}
	if s.Scan == "" {
		s.Scan = redactSecrets
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, dir: t.TempDir(), kept: s.Kept, url: "http://" + ln.Addr().String() + "/mcp/"}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`version: 1
server: {metrics: "off"}
mcp:
  enabled: true
  listen: %s
%s  servers:
%schains:
  authorize: {budget: 30s, steps: [{name: rules, rules: [rules.yaml]}]}
  scan_output: %s
plugins:
  secrets: {kind: scanner, builtin: secrets, limits: {timeout: 30s}}
  injection: {kind: scanner, builtin: injection, limits: {timeout: 30s}}
`, ln.Addr(), s.MCP, s.Servers, s.Scan)
	for name, text := range map[string]string{"yett.yaml": config, "rules.yaml": "rules:\n" + s.Rules} {
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.start()
	return g
}

// start starts the program on the gateway's directory.
func (g *gateway) start() {
	g.t.Helper()
	args := []string{"dev", "--output", "json", "--listen", "127.0.0.1:0", "--config", filepath.Join(g.dir, "yett.yaml")}
	if g.kept {
		args = append(args, "--data", filepath.Join(g.dir, "data"))
	}
	cmd := exec.Command(e2e.Binary(g.t), args...)
	cmd.Dir, cmd.Env = g.dir, g.env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	g.end = start(g.t, cmd)
	g.pid = cmd.Process.Pid
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var at struct {
		URL  string
		Data string
		Keys struct{ Agent, Approver string }
	}
	if err != nil || json.Unmarshal(line, &at) != nil || at.Keys.Agent == "" {
		g.t.Fatalf("the gateway did not start: %v: %s", err, line)
	}
	g.api, g.data, g.approver = at.URL, at.Data, at.Keys.Approver
	if g.agent == "" {
		g.agent = at.Keys.Agent
	}
}

// restart kills the program and starts it again at its place. The agent's key is the one of before.
func (g *gateway) restart() {
	g.t.Helper()
	g.end()
	g.start()
}

// env is what the program gets of the environment: nothing that a developer has set for a gateway of theirs.
func (g *gateway) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "XDG_CACHE_HOME=" + e2e.Cache(), "TMPDIR=" + g.dir}
}

// yett runs the program as a person does, with a key, and gives what it printed.
func (g *gateway) yett(ctx context.Context, key string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, e2e.Binary(g.t), args...)
	cmd.Dir, cmd.Env = g.dir, append(g.env(), "YETT_URL="+g.api, "YETT_API_KEY="+key)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("yett %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return out, err
}

// newKey makes a key of an agent.
func (g *gateway) newKey(name string) string {
	g.t.Helper()
	out, err := g.yett(context.Background(), "", "keys", "create", name, "--data", g.data, "-o", "json")
	var made struct{ Key string }
	if err != nil || json.Unmarshal(out, &made) != nil || made.Key == "" {
		g.t.Fatalf("%v: %s", err, out)
	}
	return made.Key
}

// waits gives the tokens of the calls that wait for a person.
func (g *gateway) waits(ctx context.Context) (tokens []string, err error) {
	out, err := g.yett(ctx, g.approver, "approvals", "list", "-o", "jsonl")
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var one struct {
			Token string `json:"defer_token"`
		}
		if err := json.Unmarshal(line, &one); err != nil || one.Token == "" {
			return nil, fmt.Errorf("%v: %s", err, line)
		}
		tokens = append(tokens, one.Token)
	}
	return tokens, nil
}

// answerNext waits until a call waits for a person and answers it, with "approve" or "deny".
func (g *gateway) answerNext(ctx context.Context, with string) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		tokens, err := g.waits(ctx)
		if err != nil {
			return err
		}
		if len(tokens) > 0 {
			_, err := g.yett(ctx, g.approver, "approvals", with, tokens[0], "--reason", "the test says so")
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no call waits for a person: %w", ctx.Err())
		}
	}
}

// client is a raw client with the agent's key, connected to a server in an era.
func (g *gateway) client(name, era string) *HTTP {
	return &HTTP{URL: g.url + name, Era: era, Header: Bearer(g.agent)}
}

// peakMemory is the most memory that the program has had, in bytes. Without Linux's /proc it skips the test.
func (g *gateway) peakMemory() int64 {
	g.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.pid))
	if err != nil {
		g.t.Skipf("the memory of a process can be read on Linux only: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		g.t.Fatal(err)
	}
	return kilobytes << 10
}

// alive demands that the program still runs and serves a server.
func (g *gateway) alive(name, era string) {
	g.t.Helper()
	c := g.client(name, era)
	if _, err := c.Open(context.Background()); err != nil {
		g.t.Errorf("the gateway does not serve %s any more: %v", name, err)
		return
	}
	messages, err := do(context.Background(), c, Call(era, "1", "echo", `{"still":"there"}`))
	if err != nil || !bytes.Contains(messages[len(messages)-1], []byte(`there`)) {
		g.t.Errorf("%s does not answer any more: %q, %v", name, messages, err)
	}
}
