package plugin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
)

// ServeListener serves p, and more plugins of other kinds, on l until ctx ends; then it drains as Serve does and
// returns nil. It is for plugins that somebody else than the gateway starts (connect: in its configuration) and for
// tests. Whoever can connect to l is answered: keep its socket private, or wrap l in TLS that asks for the host's
// certificate and offers "h2". ServeListener closes l. Logs go to stderr.
func ServeListener(ctx context.Context, l net.Listener, p Plugin, more ...Plugin) error {
	all, err := gather(p, more)
	if err != nil {
		_ = l.Close()
		return err
	}
	log, err := newLog(os.Stderr)
	if err != nil {
		_ = l.Close()
		return err
	}
	return serveOn(ctx, l, all, log)
}

func serveOn(ctx context.Context, l net.Listener, all *parts, log *slog.Logger) error {
	s := newServer(all, log)
	s.outside = true
	return serveServer(ctx, l, s)
}

func serveServer(ctx context.Context, l net.Listener, s *server) error {
	g := grpc.NewServer(options()...)
	s.register(g)
	over, code := make(chan struct{}), make(chan int, 1)
	go func() {
		select {
		case <-ctx.Done():
			code <- s.end(g, nil)
		case <-over:
			code <- 0
		}
	}()
	err := g.Serve(newPatient(l, s.log))
	close(over)
	if <-code != 0 {
		err = errors.Join(err, errors.New("ended with calls that were not answered"))
	}
	s.close()
	return err
}

// listen serves at an address of the operator's, for a host that does not start the plugin.
func listen(address string, all *parts, log *slog.Logger) error {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return errors.New("must be unix:// and an absolute path")
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	// Whoever the host is, it may become root or be given a group; nobody else is let in.
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	return serveOn(ctx, l, all, log)
}
