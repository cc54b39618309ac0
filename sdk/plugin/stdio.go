package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	hclog "github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// handshakeTo is the stdout that the host reads the handshake from. It is taken out of everybody's reach before main
// begins, since the host takes the first line for the handshake whoever wrote it.
var handshakeTo = divert()

func divert() *os.File {
	out := os.Stdout
	if os.Getenv(CookieKey) == CookieValue {
		os.Stdout = os.Stderr
	}
	return out
}

// stdio keeps an author's prints out of the handshake and out of go-plugin's pipes, which nobody need read: then a
// print would block once they are full.
type stdio struct {
	log    *slog.Logger
	stderr *os.File
	once   sync.Once
}

// handshake makes os.Stdout a pipe for as long as go-plugin writes to it. The line that is the handshake goes to the
// host, everything else that was printed into the log.
func (s *stdio) handshake() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	os.Stdout = w
	go s.sift(r)
	return nil
}

// sift ends with the process: somebody may have kept the pipe.
func (s *stdio) sift(r io.Reader) {
	const core = "1|1|" // go-plugin's version and ours
	lines, sent := bufio.NewReader(r), false
	for {
		line, err := lines.ReadString('\n')
		if at := strings.Index(line, core); at >= 0 && !sent {
			sent = true
			if _, err := io.WriteString(handshakeTo, line[at:]); err != nil {
				s.log.Error("the handshake could not be written", "error", err)
			}
			line = line[:at]
		}
		if line = strings.TrimRight(line, "\n"); line != "" {
			s.log.Info("stdout", "line", clip(line))
		}
		if err != nil {
			return
		}
	}
}

// restore undoes what go-plugin did to os.Stdout and os.Stderr. It runs with the first request, and go-plugin has
// changed them before it takes one.
func (s *stdio) restore() {
	s.once.Do(func() { os.Stdout, os.Stderr = s.stderr, s.stderr })
}

func (s *stdio) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any,
			error) {
			s.restore()
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			s.restore()
			return next(srv, stream)
		}),
	}
}

// logger makes go-plugin's messages of ours.
func (s *stdio) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, JSONFormat: true, Output: relog{s.log}})
}

// relog takes lines of hclog's JSON.
type relog struct{ log *slog.Logger }

func (r relog) Write(line []byte) (int, error) {
	var m struct {
		Message string `json:"@message"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		m.Message = string(line)
	}
	r.log.Warn("go-plugin", "message", clip(m.Message), "error", clip(m.Error))
	return len(line), nil
}
