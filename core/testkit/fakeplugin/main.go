// Command fake is a plugin that does one thing wrong, for the tests of whatever runs plugins. FAKE_MODE says which
// (fake modes lists them), FAKE_ARG is the mode's number, duration or word, FAKE_OUT a file that it appends to,
// FAKE_VERSION what Info says, FAKE_UNARY=1 takes away CheckStream. Everything it does to the machine has a bound of
// its own. It speaks go-plugin and sdk/proto/v1 without sdk/plugin, so that a mistake of the one cannot hide in the
// other. What it answers wrongly it answers as PERMIT: a host that falls for it is seen.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// How host and plugin recognise each other.
const (
	cookieKey       = "YETT_PLUGIN"
	cookieValue     = "9b2d7f0c-yett-plugin"
	protocolVersion = 1
)

const lifetime = 30 * time.Minute // of a fake that nobody ends

func main() {
	if len(os.Args) > 1 {
		os.Exit(command(os.Args[1:]))
	}
	f, err := newFake()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		os.Exit(2)
	}
	time.AfterFunc(lifetime, func() { os.Exit(9) })
	f.note("start", map[string]any{"pid": os.Getpid(), "mode": f.mode.name})
	if f.mode.start != nil {
		f.mode.start(f)
	}
	if f.mode.instead != nil {
		f.mode.instead(f)
		return
	}
	f.serve()
}

// command lists the modes, for tests that go through all of them.
func command(args []string) int {
	if len(args) != 1 || args[0] != "modes" {
		fmt.Fprintln(os.Stderr, "usage: fake modes")
		return 2
	}
	for _, m := range modes() {
		fmt.Fprintf(os.Stdout, "%s\t%s\t%s\n", m.name, m.group, m.what)
	}
	return 0
}

// newFake reads the environment.
func newFake() (*fake, error) {
	name := os.Getenv("FAKE_MODE")
	if name == "" {
		name = "good"
	}
	for _, m := range modes() {
		if m.name == name {
			f := &fake{mode: m, arg: os.Getenv("FAKE_ARG"), out: os.Getenv("FAKE_OUT"), version: os.Getenv("FAKE_VERSION"),
				unary:  os.Getenv("FAKE_UNARY") != "",
				stdout: os.Stdout, stderr: os.Stderr, drain: make(chan struct{})}
			if f.version == "" {
				f.version = "1.0.0"
			}
			return f, nil
		}
	}
	return nil, fmt.Errorf("there is no mode %q: see fake modes", name)
}

// number is FAKE_ARG as a number.
func (f *fake) number(otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(f.arg, 10, 64); err == nil {
		return n
	}
	return otherwise
}

// duration is FAKE_ARG as a duration.
func (f *fake) duration(otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(f.arg); err == nil {
		return d
	}
	return otherwise
}

// word is FAKE_ARG as it is.
func (f *fake) word(otherwise string) string {
	if f.arg != "" {
		return f.arg
	}
	return otherwise
}

// serve speaks go-plugin until the host ends it.
func (f *fake) serve() {
	f.onTerm()
	version := uint(protocolVersion)
	if f.mode.protocol != 0 {
		version = f.mode.protocol
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: version, MagicCookieKey: cookieKey,
			MagicCookieValue: cookieValue}, Plugins: goplugin.PluginSet{"yett": &served{f: f}},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			if f.mode.codec != nil {
				options = append(options, grpc.ForceServerCodecV2(f.mode.codec(f)))
			}
			f.server.Store(grpc.NewServer(options...))
			return f.server.Load()
		},
	})
	if f.mode.deaf {
		forever()
	}
}

// served registers the services with go-plugin.
type served struct {
	goplugin.NetRPCUnsupportedPlugin
	f *fake
}

// GRPCClient is the host's side, which is elsewhere.
func (s *served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the plugin's side")
}

// GRPCServer registers the services.
func (s *served) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	pluginv1.RegisterPluginServer(server, &pluginService{f: s.f})
	pluginv1.RegisterAuthorizerServer(server, &authorizerService{f: s.f})
	pluginv1.RegisterScannerServer(server, &scannerService{f: s.f})
	pluginv1.RegisterSubscriberServer(server, &subscriberService{f: s.f})
	return nil
}
