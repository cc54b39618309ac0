package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Serve is main's whole body. It serves p, and more plugins of other kinds with the same Info and settings, until the
// host ends it, and returns when everything is done; what cannot be served is said on stderr, and the process ends with
// status 1.
//
// The program can also be started by hand: with --info it prints what it is as JSON, with --listen unix:///PATH it
// serves there for a host whose configuration says connect. SIGTERM drains: Health says so, what was begun is answered
// for at most 20 s, then Close runs for at most 5 s. SIGINT is left to the host. The process ends when its parent has
// ended.
func Serve(p Plugin, more ...Plugin) {
	if code := run(os.Args[1:], p, more); code != 0 {
		os.Exit(code)
	}
}

func run(args []string, p Plugin, more []Plugin) (code int) {
	name := filepath.Base(os.Args[0])
	all, err := gather(p, more)
	if err != nil {
		return refuse("%s is no plugin that can be served:\n%v", name, err)
	}
	log, err := newLog(os.Stderr)
	if err != nil {
		return refuse("%s: %v", name, err)
	}
	started := os.Getenv(CookieKey) == CookieValue
	switch {
	case len(args) == 1 && args[0] == "--info":
		if err := printInfo(handshakeTo, all); err != nil {
			return refuse("%s: %v", name, err)
		}
		return 0
	case len(args) == 2 && args[0] == "--listen":
		if err := listen(args[1], all, log); err != nil {
			return refuse("%s: --listen %s: %v", name, args[1], err)
		}
		return 0
	case !started:
		return refuse("This is %s %s, a plugin for Yett. It is not run by hand: the gateway starts it.\n"+
			"  yett plugin conform %s   tells whether it keeps the rules\n"+
			"  yett plugin run %s       starts it and asks it\n"+
			"  %s --info                prints what it is", all.info.Name, all.info.Version, os.Args[0], os.Args[0], os.Args[0])
	case len(args) > 0:
		return refuse("%s takes no arguments from a host: %q", name, args)
	}
	return serveHost(all, log)
}

func refuse(format string, args ...any) int {
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
	return 1
}

// newLog makes the logger that everything of the process uses.
func newLog(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if text := os.Getenv("YETT_PLUGIN_LOG"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("YETT_PLUGIN_LOG: %q, must be debug, info, warn or error", text)
		}
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), nil
}

// hosted is what go-plugin wants a plugin to be. It is only ever a server.
type hosted struct {
	goplugin.NetRPCUnsupportedPlugin
	server *server
}

// GRPCServer registers our services.
func (h hosted) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	h.server.register(g)
	return nil
}

// GRPCClient is the host's side, which is not here.
func (hosted) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is no client")
}

// serveHost serves the process that started us.
func serveHost(all *parts, log *slog.Logger) int {
	s := newServer(all, log)
	std := &stdio{log: log, stderr: os.Stderr}
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM)
	defer signal.Stop(stop)
	go watchParent(os.Getppid(), log)
	if err := std.handshake(); err != nil {
		return refuse("the handshake cannot be made: %v", err)
	}
	var g atomic.Pointer[grpc.Server]
	over, code := make(chan struct{}), make(chan int, 1)
	go func() {
		select {
		case <-stop:
			code <- s.end(g.Load(), stop)
		case <-over:
			code <- 0
		}
	}()
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: CookieKey,
			MagicCookieValue: CookieValue}, Plugins: goplugin.PluginSet{"plugin": hosted{server: s}},
		Logger: std.logger(),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			g.Store(grpc.NewServer(append(append(opts, options()...), std.options()...)...))
			return g.Load()
		},
	})
	std.restore()
	if g.Load() == nil {
		return 1 // go-plugin has logged why
	}
	close(over)
	s.close()
	return <-code
}

// end drains and then stops the server, which makes what serves it return. A second signal cuts it short.
func (s *server) end(g *grpc.Server, again <-chan os.Signal) int {
	if g == nil {
		os.Exit(0) // told to end before there was anything to serve
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	go func() {
		select {
		case <-again:
			cancel()
		case <-ctx.Done():
		}
	}()
	left := s.drain(ctx)
	halt(g)
	if left > 0 {
		s.log.Error("ended with calls that were not answered", "calls", left)
		return 1
	}
	return 0
}

// halt stops a server when its streams have ended, and in any case soon: go-plugin's own streams last as long as the
// connection.
func halt(g *grpc.Server) {
	t := time.AfterFunc(200*time.Millisecond, g.Stop)
	g.GracefulStop()
	t.Stop()
}

// watchParent ends the process when its parent is gone: then nobody reads its answers and nobody would end it. The
// kernel does the same at once for processes that the gateway started; this is for all others.
func watchParent(parent int, log *slog.Logger) {
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			log.Error("the parent process has ended, and so does the plugin", "parent", parent)
			os.Exit(1)
		}
	}
}
