package obs

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/sdk"
)

// connections is how many may be open at once; another one closes the oldest that is not being answered.
const connections = 64

// Server shows the metrics on a listener of its own.
type Server struct {
	ln     net.Listener
	scheme string
	http   *http.Server
}

// Access says who may read the metrics. The zero Access lets everybody who can connect.
type Access struct {
	TLS   *tls.Config   // nil: in clear
	Token func() string // that a reader has to send; nil, or "": none
}

// Listen opens the listener; Serve answers on it. log gets what goes wrong there.
func (m *Metrics) Listen(addr string, who Access, log func(format string, args ...any)) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("server.metrics: %w", err)
	}
	acceptor := edge.NewAcceptor("metrics", log)
	ln, scheme := edge.NewDoor(connections, connections).Listen(ln, acceptor, nil, nil), "http"
	if who.TLS != nil { // above the door, so that the server knows the connection for what it is
		ln, scheme = tls.NewListener(ln, who.TLS), "https"
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.guarded(who.Token, promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{})))
	said := edge.NewThrottle("metrics", time.Second, log)
	return &Server{ln, scheme, &http.Server{Handler: edge.Served(edge.Exact(mux, http.NotFound)),
		ConnContext: edge.ConnContext, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: stdlog.New(logWriter{said}, "", 0)}}, nil
}

// guarded asks for the token, if there is one.
func (m *Metrics) guarded(token func() string, shown http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != nil && token() != "" {
			scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			is, want := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(token())) // of one length, whatever was sent
			same := subtle.ConstantTimeCompare(is[:], want[:]) == 1
			if !strings.EqualFold(scheme, "Bearer") || !same {
				m.Refused("metrics", sdk.CodeUnauthenticated)
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "send the token of server.metrics_token as Authorization: Bearer TOKEN", http.StatusUnauthorized)
				return
			}
		}
		shown.ServeHTTP(w, r)
	})
}

// logWriter gives the HTTP server's own messages, such as failed handshakes, to our log.
type logWriter struct{ said *edge.Throttle }

// Write logs one message.
func (l logWriter) Write(p []byte) (int, error) {
	l.said.Log("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// URL is where the metrics are.
func (s *Server) URL() string { return s.scheme + "://" + s.ln.Addr().String() + "/metrics" }

// Serve answers until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Close ends the listener and waits for what runs until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if lnErr := s.ln.Close(); lnErr != nil && !errors.Is(lnErr, net.ErrClosed) {
		err = errors.Join(err, lnErr)
	}
	return err
}
