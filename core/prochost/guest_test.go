package prochost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"github.com/yett-dev/yett/sdk/plugin"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// serveGuest is what this test binary does as a plugin.
func serveGuest(mode string) {
	switch mode {
	case "trivial":
		plugin.Serve(trivial())
	case "exits":
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(7)
	case "mute":
		io.Copy(io.Discard, os.Stdin)
		select {}
	case "no-plugin":
		fmt.Println("hello, world")
		os.Exit(0)
	default:
		serveStock(mode)
	}
}

// realStdout and realStderr are kept for good: a file that is collected closes its descriptor.
var realStdout, realStderr = os.NewFile(1, "stdout"), os.NewFile(2, "stderr")

// serveStock serves with go-plugin as it is, without our own side's help.
func serveStock(mode string) {
	os.Stdout = realStdout // sdk/plugin, which is in this binary too, made it stderr
	g := &guest{mode: mode}
	if strings.Contains(mode, "noise-before") {
		fmt.Println("loading…\n1 of 2|done")
	}
	config := &goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: plugin.ProtocolVersion, MagicCookieKey: plugin.CookieKey,
			MagicCookieValue: plugin.CookieValue}, Plugins: goplugin.PluginSet{"yett": &guestPlugin{g: g}},
		GRPCServer: goplugin.DefaultGRPCServer,
	}
	if strings.Contains(mode, "version-2") {
		config.ProtocolVersion = 2
	}
	goplugin.Serve(config)
}

type guestPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	g *guest
}

func (p *guestPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not here")
}

func (p *guestPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pluginv1.RegisterPluginServer(s, p.g)
	pluginv1.RegisterAuthorizerServer(s, p.g)
	pluginv1.RegisterScannerServer(s, p.g)
	pluginv1.RegisterSubscriberServer(s, p.g)
	return nil
}

// guest is a plugin whose calls say what it is to do: the tool id of a check is the name of the behaviour.
type guest struct {
	pluginv1.UnimplementedPluginServer
	pluginv1.UnimplementedAuthorizerServer
	pluginv1.UnimplementedScannerServer
	pluginv1.UnimplementedSubscriberServer
	mode string

	mu      sync.Mutex
	unready bool
	flood   bool
	asked   int
	secrets map[string]string
}

// guestSpec is this binary as a plugin.
func guestSpec(mode string) Spec {
	path, digest := self()
	return Spec{Name: "guest", Kind: Authorizer, Path: path, Digest: digest, Env: map[string]string{guestEnv: mode}}
}

// loaded is a plugin that is ready, and closed with the test.
func loaded(t testing.TB, s Spec, o Options, change func(*Spec)) *Plugin {
	t.Helper()
	if change != nil {
		change(&s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := Load(ctx, o, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// tells is how it says its secret back, if its mode is to do so.
func (g *guest) tells() (how string, tells bool) {
	_, how, tells = strings.Cut(g.mode, "tells-")
	return how, tells
}

func (g *guest) Info(context.Context, *pluginv1.InfoRequest) (*pluginv1.InfoResponse, error) {
	r := &pluginv1.InfoResponse{
		Name: "guest", Version: "1.2.3", ApiVersions: []uint32{1},
		Kinds: []pluginv1.Kind{pluginv1.Kind_KIND_AUTHORIZER, pluginv1.Kind_KIND_SCANNER,
			pluginv1.Kind_KIND_SUBSCRIBER}, Capabilities: &pluginv1.Capabilities{CheckStream: !strings.Contains(g.mode, "unary"),
			CacheKeyFields: []string{"tool_id", "args.to"}}, ConfigSchema: `{"type":"object"}`,
		Secrets:  []*pluginv1.SecretSpec{{Name: "token"}},
		Findings: []*pluginv1.FindingKind{{Kind: "SECRET_ACME"}},
	}
	switch {
	case strings.Contains(g.mode, "only-scanner"):
		r.Kinds = []pluginv1.Kind{pluginv1.Kind_KIND_SCANNER}
	case strings.Contains(g.mode, "api-7"):
		r.ApiVersions = []uint32{7}
	case strings.Contains(g.mode, "needs-secret"):
		r.Secrets = append(r.Secrets, &pluginv1.SecretSpec{Name: "licence", Required: true})
	case strings.Contains(g.mode, "two-at-once"):
		r.Capabilities.MaxInFlight = 2
	case strings.Contains(g.mode, "tells-version"):
		b, _ := os.ReadFile("/proc/self/fd/3") // before it is asked to take its settings
		r.Version = "1." + string(b)
	case strings.Contains(g.mode, "changes"): // the file is there from the second start on
		if _, err := os.Stat(os.Getenv("PROCHOST_FILE")); err == nil {
			r.Version = "6.6.6"
		}
		os.WriteFile(os.Getenv("PROCHOST_FILE"), nil, 0o600)
	}
	return r, nil
}

func (g *guest) Configure(_ context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	secrets := map[string]string{}
	for name, path := range r.Secrets {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		secrets[name] = string(b)
	}
	g.mu.Lock()
	g.secrets = secrets
	g.mu.Unlock()
	if how, tells := g.tells(); tells {
		if r, err := tellConfigure(how, secrets["token"]); r != nil || err != nil {
			return r, err
		}
	}
	switch {
	case strings.Contains(g.mode, "problems"):
		return &pluginv1.ConfigureResponse{Problems: []*pluginv1.Problem{{Field: "/tenant", Message: "is not known"}}}, nil
	case strings.Contains(g.mode, "invalid"):
		return nil, status.Error(codes.InvalidArgument, "no such tenant")
	}
	return &pluginv1.ConfigureResponse{}, nil
}

func (g *guest) Health(r *pluginv1.HealthRequest, s grpc.ServerStreamingServer[pluginv1.HealthResponse]) error {
	tick := time.NewTicker(time.Duration(r.IntervalMs) * time.Millisecond)
	defer tick.Stop()
	for {
		m := &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_SERVING}
		g.mu.Lock()
		flood := g.flood
		if flood {
			g.unready = !g.unready
		}
		if g.unready || strings.Contains(g.mode, "never-serves") {
			m.Status, m.Detail = pluginv1.HealthResponse_STATUS_NOT_SERVING, "the directory is away"
		}
		if how, _ := g.tells(); how == "health" {
			m.Status, m.Detail = pluginv1.HealthResponse_STATUS_NOT_SERVING, fmt.Sprintf("%q is refused", g.secrets["token"])
		}
		if strings.Contains(g.mode, "odd-health") {
			m.Status = 77
		}
		g.mu.Unlock()
		if err := s.Send(m); err != nil {
			return err
		}
		if flood {
			continue
		}
		select {
		case <-tick.C:
		case <-s.Context().Done():
			return nil
		}
	}
}

// answer does what the call's tool id says. Whatever is wrong with an answer, its effect is PERMIT: a host that falls
// for it is seen.
func (g *guest) answer(r *pluginv1.CheckRequest) *pluginv1.CheckResponse {
	a := &pluginv1.CheckResponse{Id: r.GetId(), Effect: pluginv1.CheckResponse_EFFECT_PERMIT, Code: "RULE_PERMIT",
		Reason: "bench"}
	g.mu.Lock()
	g.asked++
	asked := g.asked
	g.mu.Unlock()
	switch what, arg, _ := strings.Cut(r.GetCall().GetToolId(), "/"); what {
	case "yett:smoke":
		if strings.Contains(g.mode, "bad-smoke") {
			a.Effect = 99
		}
		if strings.Contains(g.mode, "error-smoke") {
			a.Error = "the directory is away"
		}
	case "set":
		overlay(a, r.Call.CallId)
	case "wait":
		d, _ := time.ParseDuration(arg)
		<-time.After(d) // this is what it is asked for
	case "silent":
		select {}
	case "crash":
		os.Exit(3)
	case "crash-if":
		if _, err := os.Stat(os.Getenv("PROCHOST_FILE")); os.IsNotExist(err) {
			os.WriteFile(os.Getenv("PROCHOST_FILE"), nil, 0o600)
			os.Exit(3)
		}
	case "huge":
		a.Reason = strings.Repeat("x", 5<<20)
	case "count":
		a.Reason, a.TtlMs = fmt.Sprint(asked), 60_000
		if arg == "defer" {
			a.Effect, a.Code = pluginv1.CheckResponse_EFFECT_DEFER, "RULE_DEFER"
		}
		if arg == "nottl" {
			a.TtlMs = 0
		}
	case "unready":
		g.mu.Lock()
		g.unready = arg == ""
		g.mu.Unlock()
	case "flood":
		g.mu.Lock()
		g.flood = true
		g.mu.Unlock()
	case "freeze":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {} // another thread may be the first to stop
	case "spawn": // a grandchild that holds everything it inherits
		c := exec.Command("/bin/sleep", "1000")
		c.Stdout, c.Stderr, c.Env = realStdout, realStderr, os.Environ()
		if err := c.Start(); err != nil {
			a.Error = err.Error()
		} else {
			a.Reason = fmt.Sprint(c.Process.Pid)
		}
	case "print":
		for range 4096 {
			fmt.Println(strings.Repeat("o", 255))
			fmt.Fprintln(realStdout, strings.Repeat("p", 255))
		}
	case "tell":
		g.tell(arg, a)
	case "say":
		a.Reason = g.say(arg, r)
	}
	return a
}

// overlay sets what the text names and leaves the rest.
func overlay(a *pluginv1.CheckResponse, text string) {
	set := &pluginv1.CheckResponse{}
	if err := prototext.Unmarshal([]byte(text), set); err != nil {
		a.Error = err.Error()
		return
	}
	for _, f := range strings.Fields(text) { // what is set to its zero value is not in set
		switch f {
		case `code:`:
			a.Code = ""
		case `reason:`:
			a.Reason = ""
		case `effect:`:
			a.Effect = 0
		}
	}
	proto.Merge(a, set)
}

// say tells what the process sees.
func (g *guest) say(what string, r *pluginv1.CheckRequest) string {
	switch what {
	case "env":
		names := []string{}
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			if name == "PROCHOST_SEEN" || strings.Contains(v, "token") {
				name += "=" + value
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	case "args":
		return strings.Join(os.Args[1:], " ")
	case "secret":
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.secrets["token"]
	case "dir":
		dir, _ := os.Getwd()
		info, err := os.Stat(dir)
		return fmt.Sprint(dir, " ", info.Mode(), " ", err)
	case "call":
		c := proto.Clone(r.Call).(*pluginv1.Call)
		return prototext.MarshalOptions{}.Format(c) + " " + r.Generation
	}
	return ""
}

func (g *guest) Check(_ context.Context, r *pluginv1.CheckRequest) (*pluginv1.CheckResponse, error) {
	return g.answer(r), nil
}

func (g *guest) CheckStream(s grpc.BidiStreamingServer[pluginv1.CheckRequest, pluginv1.CheckResponse]) error {
	var mu sync.Mutex
	for {
		r, err := s.Recv()
		if err != nil {
			return nil
		}
		go func() {
			a := g.answer(r)
			mu.Lock()
			defer mu.Unlock()
			s.Send(a)
		}()
	}
}

// Scan's content type says, as text, what to answer.
func (g *guest) Scan(ctx context.Context, r *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
	a := &pluginv1.ScanResponse{Id: r.Id}
	if r.ToolId == "fail" {
		return nil, status.Error(codes.Internal, "out of\npaper")
	}
	switch r.ToolId {
	case "tell":
		a.Findings = []*pluginv1.Finding{{Kind: "SECRET_ACME", End: 1, Severity: 1,
			Suggested: pluginv1.Finding_ACTION_REPLACE, Replacement: g.secrets["token"]}}
		return a, nil
	case "tell-error":
		a.Error = "cannot use " + g.secrets["token"]
		return a, nil
	}
	if r.ToolId == "silent" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	set := &pluginv1.ScanResponse{}
	if err := prototext.Unmarshal([]byte(r.ContentType), set); err != nil {
		return nil, err
	}
	proto.Merge(a, set)
	return a, nil
}

func (g *guest) Consume(s grpc.BidiStreamingServer[pluginv1.Batch, pluginv1.Ack]) error {
	for {
		b, err := s.Recv()
		if err != nil {
			return nil
		}
		switch how, _ := g.tells(); how {
		case "ack":
			return s.Send(&pluginv1.Ack{Error: "cannot use " + g.secrets["token"]})
		case "status":
			return status.Error(codes.Internal, "cannot use "+g.secrets["token"])
		}
		if err := s.Send(&pluginv1.Ack{Seq: b.LastSeq}); err != nil {
			return err
		}
	}
}
