package mesh_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/mesh"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const console = "https://yett.example"

// allOn has every door on.
func allOn() config.Doors {
	return config.Doors{ExtAuthz: config.DoorExtAuthz{Enabled: true, HTTP: true, AgentHeader: "X-Agent-Id",
		Headers: []string{"x-tenant"}, Bodies: "require"},
		ExtProc: config.DoorExtProc{Enabled: true, AgentHeader: "x-agent-id", PassTypes: []string{"image/png"}},
		ExtMCP:  config.DoorExtMCP{Enabled: true, AgentHeader: "x-agent-id"}}
}

func settings(t *testing.T, b *doortest.Bench, doors config.Doors) mesh.Settings {
	return mesh.Settings{Config: doors, Keys: b.Service, Limits: b.Limits, Asker: b.Asker,
		Console: func() string { return console }, NewID: func() string { return "req_test" }, Log: t.Logf}
}

// dial serves the doors until the test ends, and connects to them in the clear.
func dial(t *testing.T, set mesh.Settings) (*grpc.ClientConn, *mesh.Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := mesh.New(set)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), <-ended); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // in vain: it is closed already
	return conn, s
}

// as is a context that brings a key, as initial_metadata does.
func as(t *testing.T, key string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	if key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

// failure is a state of the gateway, or a caller, that no door may open to.
type failure struct {
	name string
	make func(t *testing.T, b *doortest.Bench) (key string)
}

var failures = []failure{
	{"no key", func(*testing.T, *doortest.Bench) string { return "" }},
	{"unknown key", func(*testing.T, *doortest.Bench) string { return "ye" + "tt_unknown" }},
	{"revoked key", func(_ *testing.T, b *doortest.Bench) string {
		k := b.Key("gone", "agent")
		b.Revoke(k)
		return k.Value
	}},
	{"missing scope", func(_ *testing.T, b *doortest.Bench) string { return b.Key("auditor", "auditor").Value }},
	{"unreachable store", func(_ *testing.T, b *doortest.Bench) string {
		k := b.Key("agent", "agent")
		b.BreakStore(true)
		return k.Value
	}},
}

// killed adds a kill of the agent. It is no failure of a scan.
var killed = failure{"killed agent", func(t *testing.T, b *doortest.Bench) string {
	k := b.Key("agent", "agent")
	if _, err := b.Service.Kill(context.Background(), doortest.Operator, &wire.KillRequest{Scope: "agent",
		Target: "agent"}); err != nil {
		t.Fatal(err)
	}
	return k.Value
}}

// A door that is off is not there.
func TestOff(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, config.Doors{}))
	err := conn.Invoke(as(t, b.Key("agent", "agent").Value), "/envoy.service.auth.v3.Authorization/Check",
		check("GET", "api.example", "/"), checkAnswer())
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
}

// kill is of one agent.
func kill(agent string) *wire.KillRequest { return &wire.KillRequest{Scope: "agent", Target: agent} }

// scoped is the value of a key that acts for one agent.
func scoped(t *testing.T, b *doortest.Bench, name, agent string) string {
	t.Helper()
	k, err := b.Service.CreateKey(context.Background(), ops.KeySpec{Name: name, Preset: "agent", Agents: []string{agent}},
		doortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	return k.Value
}
