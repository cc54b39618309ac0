package plugin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// pluginMain is main of the test binary when it is a plugin. It prints whenever an author might.
func pluginMain(mode string) {
	fmt.Println("printed before Serve")
	a := sample()
	if mode == "noisy" {
		go func() {
			for {
				fmt.Print("printed while serving, ")
				<-time.After(time.Millisecond)
			}
		}()
	}
	check := a.Check
	if mode == "bench" {
		a.Info.MaxInFlight = 64
		Serve(a)
		return
	}
	a.Check = func(ctx context.Context, c *Call) (sdk.Verdict, error) {
		fmt.Println(strings.Repeat("printed in Check ", 10_000)) // more than a pipe holds
		switch c.ToolID {
		case "wait": // for the end of draining's time of grace, as far as a file says
			slog.Info("waiting")
			for {
				if _, err := os.Stat(string(c.AgentID)); err == nil {
					return sdk.Verdict{Effect: sdk.Deny, Code: "WAITED"}, nil
				}
				<-time.After(time.Millisecond)
			}
		case "hang":
			slog.Info("hanging")
			select {}
		}
		return check(ctx, c)
	}
	a.Configure = func(_ context.Context, s Settings) error { s.Log.Info("configured"); return nil }
	a.Close = func(context.Context) error { slog.Info("closed"); fmt.Fprintln(os.Stderr, "CLOSED"); return nil }
	Serve(a)
}

// parentMain starts a plugin, says where it is and ends: what becomes of the plugin?
func parentMain() {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = []string{modeKey + "=quiet", CookieKey + "=" + CookieValue, "TMPDIR=" + os.TempDir()}
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, _ = bufio.NewReader(out).ReadString('\n')
	fmt.Println(cmd.Process.Pid)
}

// started is a plugin process under go-plugin's own client.
type started struct {
	client *goplugin.Client
	cmd    *exec.Cmd
	conn   *grpc.ClientConn
	stderr *syncBuffer
}

type clientPart struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (clientPart) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("no server")
}

func (clientPart) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

func self(t testing.TB, mode string, env ...string) *exec.Cmd {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(me, "-test.run=^$")
	cmd.Args = cmd.Args[:1]
	cmd.Env = append([]string{modeKey + "=" + mode, "TMPDIR=" + t.TempDir()}, env...)
	return cmd
}

// start starts a plugin and configures it with nothing.
func start(t testing.TB, cmd *exec.Cmd) *started {
	t.Helper()
	s := connect(t, cmd)
	m, err := pluginv1.NewPluginClient(s.conn).Configure(t.Context(), &pluginv1.ConfigureRequest{Instance: "one"})
	if err != nil || len(m.GetProblems()) > 0 {
		t.Fatal(m, err)
	}
	return s
}

func connect(t testing.TB, cmd *exec.Cmd) *started {
	t.Helper()
	s := &started{stderr: &syncBuffer{}, cmd: cmd}
	s.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: CookieKey,
			MagicCookieValue: CookieValue}, Plugins: goplugin.PluginSet{"plugin": clientPart{}}, Cmd: s.cmd, AutoMTLS: true,
		SkipHostEnv: true, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, StartTimeout: 20 * time.Second,
		Stderr: s.stderr, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(s.client.Kill)
	rpc, err := s.client.Client()
	if err != nil {
		t.Fatalf("%v\n%s", err, s.stderr)
	}
	got, err := rpc.Dispense("plugin")
	if err != nil {
		t.Fatal(err)
	}
	s.conn, _ = got.(*grpc.ClientConn)
	return s
}

// ended waits until the process is gone and gives its status.
func (s *started) ended(t *testing.T) int {
	t.Helper()
	for range 4000 {
		if s.client.Exited() {
			return s.cmd.ProcessState.ExitCode()
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("still there\n%s", s.stderr)
	return 0
}

// TestProcess is a whole life: prints everywhere, checks over mutual TLS, an interrupt that means somebody else,
// SIGTERM with calls in flight.
func TestProcess(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"quiet", "noisy"} {
		t.Run(mode, func(t *testing.T) {
			// go-plugin replaces os.Stdout under everybody's feet: where others print at that time, that is a race by design.
			s := start(t, self(t, mode, map[string]string{"quiet": "X=1",
				"noisy": "GORACE=exitcode=0 log_path=/dev/null"}[mode]))
			stream, err := pluginv1.NewAuthorizerClient(s.conn).CheckStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			health, err := pluginv1.NewPluginClient(s.conn).Health(t.Context(), &pluginv1.HealthRequest{IntervalMs: 60_000})
			if err != nil {
				t.Fatal(err)
			}
			status := func(want pluginv1.HealthResponse_Status) {
				t.Helper()
				if m, err := health.Recv(); err != nil || m.GetStatus() != want {
					t.Fatal(m, err)
				}
			}
			status(pluginv1.HealthResponse_STATUS_SERVING)
			answers := func(want string) {
				t.Helper()
				if m, err := stream.Recv(); err != nil || m.GetCode() != want {
					t.Fatal(m, err)
				}
			}
			if err := stream.Send(request(1, "deny")); err != nil {
				t.Fatal(err)
			}
			answers("NO")
			if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			release := filepath.Join(t.TempDir(), "release")
			wait := request(2, "wait")
			wait.Call.AgentId = release
			if err := stream.Send(wait); err != nil {
				t.Fatal(err)
			}
			for !strings.Contains(s.stderr.String(), "waiting") {
				<-time.After(time.Millisecond)
			}
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			status(pluginv1.HealthResponse_STATUS_DRAINING)
			if err := stream.Send(request(3, "permit")); err != nil { // was on its way
				t.Fatal(err)
			}
			answers("OK")
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			answers("WAITED")
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("the stream ends with %v", err)
			}
			if code := s.ended(t); code != 0 {
				t.Errorf("status %d\n%s", code, s.stderr)
			}
			for _, want := range []string{"CLOSED", `"msg":"configured","instance":"one"`, "printed before Serve"} {
				if !strings.Contains(s.stderr.String(), want) {
					t.Errorf("stderr has no %q", want)
				}
			}
		})
	}
}

// TestTwoSigterms: who does not want to wait for a check that hangs says so twice.
func TestTwoSigterms(t *testing.T) {
	t.Parallel()
	s := start(t, self(t, "quiet"))
	stream, err := pluginv1.NewAuthorizerClient(s.conn).CheckStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(request(1, "hang")); err != nil {
		t.Fatal(err)
	}
	health, err := pluginv1.NewPluginClient(s.conn).Health(t.Context(), &pluginv1.HealthRequest{IntervalMs: 5})
	if err != nil {
		t.Fatal(err)
	}
	// a check that was not begun when it is asked to end holds nothing up
	for !strings.Contains(s.stderr.String(), "hanging") {
		<-time.After(time.Millisecond)
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	for {
		if m, err := health.Recv(); err != nil || m.GetStatus() == pluginv1.HealthResponse_STATUS_DRAINING {
			break
		}
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.ended(t); code != 1 {
		t.Errorf("status %d\n%s", code, s.stderr)
	}
}

func TestDiesWithItsParent(t *testing.T) {
	t.Parallel()
	out, err := self(t, "parent").Output()
	if err != nil {
		t.Fatal(err, string(out))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	for range 4000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Error("the plugin outlives its parent")
}

// TestByHand runs the program as a curious person would.
func TestByHand(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		env    string
		status int
		stdout string
		stderr string
	}{
		{"nothing", nil, "", 1, "printed before Serve\n", "yett plugin conform"},
		{"info", []string{"--info"}, "", 0, `"name": "sample"`, ""},
		{"other", []string{"--help"}, "", 1, "", "not run by hand"},
		{"arguments from a host", []string{"--verbose"}, CookieKey + "=" + CookieValue, 1, "", "takes no arguments"},
		{"another cookie", nil, CookieKey + "=1", 1, "", "not run by hand"},
		{"log level", nil, "YETT_PLUGIN_LOG=loud", 1, "", "must be debug, info, warn or error"},
		{"listen where", []string{"--listen", "/tmp/x"}, "", 1, "", "unix:// and an absolute path"},
	} {
		cmd := self(t, "quiet", c.env)
		cmd.Args = append(cmd.Args, c.args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != c.status {
			t.Errorf("%s: %v\n%s", c.name, err, &stderr)
		}
		if !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: stdout %s\nstderr %s", c.name, &stdout, &stderr)
		}
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	cmd := self(t, "quiet")
	cmd.Args = append(cmd.Args, "--listen", "unix://"+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	m, err := pluginv1.NewPluginClient(conn).Info(t.Context(), &pluginv1.InfoRequest{})
	if err != nil || m.GetName() != "sample" {
		t.Error(m, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can reach the socket: %v, %v", info, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
}

// TestServeListenerRefuses wants the reason, and the listener closed.
func TestServeListenerRefuses(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := ServeListener(t.Context(), l, Authorizer{}); err == nil {
		t.Error("served")
	}
	if _, err := l.Accept(); err == nil {
		t.Error("still open")
	}
}

// BenchmarkProcess is CheckStream as the gateway uses it: another process, mutual TLS, 64 at once.
func BenchmarkProcess(b *testing.B) {
	s := start(b, self(b, "bench"))
	stream, err := pluginv1.NewAuthorizerClient(s.conn).CheckStream(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	req := request(1, "deny")
	credit := make(chan struct{}, 64)
	var wg sync.WaitGroup
	b.ResetTimer()
	wg.Go(func() {
		for range b.N {
			credit <- struct{}{}
			if stream.Send(req) != nil {
				return
			}
		}
	})
	for range b.N {
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
		<-credit
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
}
