// Package mcptest measures an MCP gateway from outside: with a raw client that gives the bytes of each message, the
// official conformance runner, unmodified SDK clients, and servers to put behind the gateway. The same test runs
// against a server directly and through the gateway, and compares. Only tests import it. It must never import what it
// measures or an SDK: those are programs (see testdata/install.sh and cmd/mcpsdk.mod), so that no code is shared.
package mcptest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// ServeRaw serves a raw server over HTTP in this process, and gives its URL.
func ServeRaw(t testing.TB, opt rawmcp.Options) (server *rawmcp.Server, url string) {
	t.Helper()
	server = rawmcp.New(opt)
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return server, web.URL + "/mcp"
}

var buildRaw = sync.OnceValues(func() (string, error) {
	return build("rawserver", nil, "github.com/yett-dev/yett/cmd/internal/mcptest/rawserver")
})

// RawProgram is the path of the raw server as a program, for configurations that name a command. Its flags are those of
// cmd/internal/mcptest/rawserver. The package's TestMain must call e2e.Run. With -short it skips the test.
func RawProgram(t testing.TB) string {
	t.Helper()
	return built(t, buildRaw)
}

const everythingPackage = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// The server of go-sdk lives in its module, which only cmd/mcpsdk.mod knows.
var buildEverything = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	modfile := filepath.Join(strings.TrimSpace(string(root)), "cmd", "mcpsdk.mod")
	return build("everything", []string{"-modfile=" + modfile}, everythingPackage)
})

// EverythingProgram is the path of go-sdk's server for the conformance runner. Its flags are -http ADDRESS, without
// which it serves stdio, and -stateless=false for the era with sessions. It skips the test unless YETT_CONFORMANCE
// is set.
func EverythingProgram(t testing.TB) string {
	t.Helper()
	conformanceDir(t)
	return built(t, buildEverything)
}

func build(name string, flags []string, pkg string) (string, error) {
	if e2e.Dir == "" {
		return "", errors.New("no directory for programs: call e2e.Run in the package's TestMain")
	}
	path := filepath.Join(e2e.Dir, name)
	args := append(append([]string{"build"}, flags...), "-o", path, pkg)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

func built(t testing.TB, build func() (string, error)) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: programs are not built")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startWithin is how long a program may take until it answers.
const startWithin = 20 * time.Second

// StartEverything serves go-sdk's server over HTTP in the era of a revision, and gives its URL.
func StartEverything(t testing.TB, revision string) (url string) {
	t.Helper()
	program := EverythingProgram(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-http", addr, fmt.Sprintf("-stateless=%t", revision == rawmcp.Modern))
	start(t, cmd)
	deadline := time.Now().Add(startWithin)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return "http://" + addr + "/mcp"
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen at %s: %v", program, addr, err)
		}
	}
}

// StartRaw starts the raw server as a program over HTTP, and gives its URL and what ends it before the test does. To
// start it again at the same place, give its flag -http the host and port of the first URL.
func StartRaw(t testing.TB, args ...string) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(RawProgram(t), append([]string{"-http", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	kill = start(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("rawserver printed no URL: %v", err)
	}
	return strings.TrimSpace(line), kill
}

// start starts a program and gives what ends it, which the end of the test does too. What the program prints on stderr
// is shown if the test fails.
func start(t testing.TB, cmd *exec.Cmd) (kill func()) {
	t.Helper()
	var said lockedBuffer
	if cmd.Stderr == nil {
		cmd.Stderr = &said
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("kill: %v", err)
		}
		_ = cmd.Wait() // it has been killed
	})
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("%s printed: %s", filepath.Base(cmd.Path), said.text())
		}
	})
	return kill
}

// lockedBuffer keeps the first part of what a program prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p[:min(len(p), max(0, 64<<10-l.b.Len()))])
	return len(p), nil
}

func (l *lockedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var _ io.Writer = (*lockedBuffer)(nil)
