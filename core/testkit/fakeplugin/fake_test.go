//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// patience bounds every wait for something that comes; shortly bounds those for what never does.
const (
	patience = 60 * time.Second
	shortly  = 300 * time.Millisecond
)

var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fake-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "fake")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the fake is not built")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run is one process of the fake with a plain go-plugin host.
type run struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    string // FAKE_OUT
	stderr *buffer
	conn   *grpc.ClientConn
	err    error // of the start

	plugin     pluginv1.PluginClient
	authorizer pluginv1.AuthorizerClient
	scanner    pluginv1.ScannerClient
	subscriber pluginv1.SubscriberClient
}

type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b.Len() < 1<<20 {
		b.b.Write(p)
	}
	return len(p), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// dialed gives the connection that go-plugin makes.
type dialed struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (dialed) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return errors.New("not here") }

func (dialed) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// launch starts a fake. The start may take so long.
func launch(t *testing.T, mode, arg string, start time.Duration, env ...string) *run {
	t.Helper()
	r := &run{t: t, out: filepath.Join(t.TempDir(), "out"), stderr: &buffer{}}
	r.cmd = exec.Command(binary(t))
	r.cmd.Env = append([]string{"FAKE_MODE=" + mode, "FAKE_ARG=" + arg, "FAKE_OUT=" + r.out, "TMPDIR=" + t.TempDir()},
		env...)
	ownGroup(r.cmd)
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: protocolVersion, MagicCookieKey: cookieKey,
			MagicCookieValue: cookieValue}, Plugins: goplugin.PluginSet{"yett": dialed{}}, Cmd: r.cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, AutoMTLS: true, SkipHostEnv: true, StartTimeout: start,
		Stderr: r.stderr, Logger: hclog.New(&hclog.LoggerOptions{Output: io.Discard}),
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(4 << 20))},
	})
	t.Cleanup(func() {
		killGroup(r.cmd) // first: go-plugin's own kill would wait for a stopped one, and for who holds the pipes
		for _, line := range strings.Split(r.lines(), "\n") {
			var l struct{ Child int }
			if json.Unmarshal([]byte(line), &l) == nil && l.Child > 0 {
				killOne(l.Child)
			}
		}
		client.Kill()
	})
	protocol, err := client.Client()
	if err != nil {
		r.err = err
		return r
	}
	raw, err := protocol.Dispense("yett")
	if err != nil {
		r.err = err
		return r
	}
	r.conn = raw.(*grpc.ClientConn)
	r.plugin, r.authorizer = pluginv1.NewPluginClient(r.conn), pluginv1.NewAuthorizerClient(r.conn)
	r.scanner, r.subscriber = pluginv1.NewScannerClient(r.conn), pluginv1.NewSubscriberClient(r.conn)
	return r
}

// up starts a fake that must come up, and configures it.
func up(t *testing.T, mode, arg string, env ...string) *run {
	t.Helper()
	r := launch(t, mode, arg, patience, env...)
	if r.err != nil {
		t.Fatalf("%v\n%s", r.err, r.stderr)
	}
	if resp, err := r.configure(patience, false); err != nil || len(resp.Problems) > 0 {
		t.Fatalf("configure: %v %v", err, resp)
	}
	return r
}

func (r *run) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *run) configure(d time.Duration, only bool) (*pluginv1.ConfigureResponse, error) {
	return r.plugin.Configure(r.within(d), &pluginv1.ConfigureRequest{Config: []byte(`{"note":"x"}`), ValidateOnly: only})
}

func request(id uint64, tool string) *pluginv1.CheckRequest {
	return &pluginv1.CheckRequest{Id: id, DeadlineUnixNano: time.Now().Add(time.Minute).UnixNano(),
		Call: &pluginv1.Call{AgentId: "a", ToolId: tool, Digest: make([]byte, 32)}}
}

func (r *run) check(d time.Duration, id uint64, tool string) (*pluginv1.CheckResponse, error) {
	return r.authorizer.Check(r.within(d), request(id, tool))
}

func (r *run) scan(d time.Duration, text string) (*pluginv1.ScanResponse, error) {
	return r.scanner.Scan(r.within(d), &pluginv1.ScanRequest{Id: 1, DeadlineUnixNano: time.Now().Add(d).UnixNano(),
		Text: []byte(text)})
}

// good checks that a fake answers as a good one, on each of its services.
func (r *run) good() {
	r.t.Helper()
	stream, err := r.authorizer.CheckStream(r.within(patience))
	if err != nil {
		r.t.Fatal(err)
	}
	for i, c := range []struct {
		tool   string
		effect pluginv1.CheckResponse_Effect
	}{{"fake/permit/x", pluginv1.CheckResponse_EFFECT_PERMIT}, {"fake/deny/x", pluginv1.CheckResponse_EFFECT_DENY},
		{"fake/defer/x", pluginv1.CheckResponse_EFFECT_DEFER}, {"fake/other", pluginv1.CheckResponse_EFFECT_ABSTAIN},
		{"other/permit/x", pluginv1.CheckResponse_EFFECT_ABSTAIN}, {"fake/slow/x", pluginv1.CheckResponse_EFFECT_PERMIT}} {
		id := uint64(i + 1)
		if a, err := r.check(patience, id, c.tool); err != nil || a.Id != id || a.Effect != c.effect || a.Error != "" ||
			(a.Code == "") != (a.Effect == pluginv1.CheckResponse_EFFECT_ABSTAIN) {
			r.t.Errorf("%s: %v %v", c.tool, err, a)
		}
		if err := stream.Send(request(id, c.tool)); err != nil {
			r.t.Fatal(err)
		}
		if a, err := stream.Recv(); err != nil || a.Id != id || a.Effect != c.effect {
			r.t.Errorf("%s, on the stream: %v %v", c.tool, err, a)
		}
	}
	if a, err := r.scan(patience, "a FAKEMARK and a FAKEMARK"); err != nil || len(a.Findings) != 2 ||
		a.Findings[1].Start != 17 || a.Findings[1].End != 25 {
		r.t.Errorf("scan: %v %v", err, a)
	}
}

// lines are what the fake wrote to FAKE_OUT.
func (r *run) lines() string {
	text, err := os.ReadFile(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return string(text)
}

// ended waits for the end of the process.
func (r *run) ended() {
	r.t.Helper()
	deadline := time.NewTimer(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for alive(r.cmd) {
		select {
		case <-tick.C:
		case <-deadline.C:
			r.t.Fatal("the process does not end")
		}
	}
}

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may be gone
	}
}

// alive reports whether the process is there; go-plugin reaps it as soon as it has ended.
func alive(cmd *exec.Cmd) bool { return syscall.Kill(cmd.Process.Pid, 0) == nil }

func terminate(cmd *exec.Cmd) error { return syscall.Kill(cmd.Process.Pid, syscall.SIGTERM) }

func killOne(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) } // it may be gone
