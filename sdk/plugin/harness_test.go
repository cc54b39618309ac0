package plugin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// modeKey makes the test binary be a plugin.
const modeKey = "YETT_TEST_PLUGIN"

func TestMain(m *testing.M) {
	switch os.Getenv(modeKey) {
	case "":
	case "parent":
		parentMain()
		return
	default:
		pluginMain(os.Getenv(modeKey))
		return
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // those that may run beside each other wait
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// raw is the wire without anything of ours on the host's side.
type raw struct {
	plugin     pluginv1.PluginClient
	authorizer pluginv1.AuthorizerClient
	scanner    pluginv1.ScannerClient
	subscriber pluginv1.SubscriberClient
	server     *server
	logs       *syncBuffer
	drain      func() error
}

type syncBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = append(b.b, p...)
	return len(p), nil
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.b)
}

// load serves plugins in this process. They are not configured yet.
func load(t testing.TB, first Plugin, more ...Plugin) *raw {
	t.Helper()
	all, err := gather(first, more)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{
		plugin: pluginv1.NewPluginClient(conn), authorizer: pluginv1.NewAuthorizerClient(conn),
		scanner: pluginv1.NewScannerClient(conn), subscriber: pluginv1.NewSubscriberClient(conn), logs: &syncBuffer{},
	}
	r.server = newServer(all, slog.New(slog.NewJSONHandler(r.logs, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serveServer(ctx, l, r.server) }()
	r.drain = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		if err := r.drain(); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	})
	return r
}

func (r *raw) configure(t testing.TB, config string) {
	t.Helper()
	m, err := r.plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{Config: []byte(config)})
	if err != nil || len(m.GetProblems()) > 0 {
		t.Fatal(m, err)
	}
}

// request is one that holds.
func request(id uint64, tool string) *pluginv1.CheckRequest {
	return &pluginv1.CheckRequest{Id: id, Generation: "g", DeadlineUnixNano: time.Now().Add(time.Minute).UnixNano(),
		Call: &pluginv1.Call{
			ToolId: tool, Args: []byte(`{"amount":1.0}`), Digest: make([]byte, 32), TimeUnixNano: 1,
		}}
}

// sample does as the tool's name says.
func sample() Authorizer {
	return Authorizer{
		Info: Info{Name: "sample", Version: "1", ConfigSchema: "{}", CacheKeyFields: []string{"tool_id", "args.amount"},
			MaxInFlight: 8},
		Validate: func(_ context.Context, s Settings) error {
			var c struct {
				Limit *int
				Bad   bool `json:"bad"`
			}
			if err := s.Decode(&c); err != nil {
				return err
			}
			if c.Bad {
				return Problems{{"/bad", "must not be"}, {"", "at all"}}
			}
			return nil
		},
		Check: func(ctx context.Context, c *Call) (sdk.Verdict, error) {
			switch c.ToolID {
			case "permit":
				return sdk.Verdict{Effect: sdk.Permit, Code: "OK", TTL: time.Second}, nil
			case "deny":
				return sdk.Verdict{Effect: sdk.Deny, Code: "NO", Reason: "because", RuleID: "r", Message: "m"}, nil
			case "defer":
				return sdk.Verdict{Effect: sdk.Defer, Code: "ASK", Approvals: 2, From: []string{"role:approver"},
					Expires: time.Minute, Priority: sdk.PriorityHigh}, nil
			case "error":
				return sdk.Verdict{Effect: sdk.Permit, Code: "OK"}, errors.New("the database is down")
			case "mute":
				return sdk.Verdict{}, errors.New("")
			case "panic":
				panic(fmt.Sprint("with ", c.ToolID))
			case "late":
				<-ctx.Done()
				return sdk.Verdict{Effect: sdk.Permit, Code: "OK"}, nil
			case "no-code":
				return sdk.Verdict{Effect: sdk.Permit}, nil
			case "long-deny":
				return sdk.Verdict{Effect: sdk.Deny, Code: "NO", Reason: strings.Repeat("x", 1025)}, nil
			case "no-code-defer":
				return sdk.Verdict{Effect: sdk.Defer}, nil
			case "no-effect":
				return sdk.Verdict{Effect: 9, Code: "OK"}, nil
			}
			return sdk.Verdict{}, nil
		},
	}
}
