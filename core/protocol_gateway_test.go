package core

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

// vectorDir is where the shared vectors are, and setupDir the gateway that they are run against.
const (
	vectorDir = "../sdk/testdata/vectors"
	setupDir  = vectorDir + "/setup"
)

// patience bounds every wait for an answer: a hang is a failure.
const patience = 30 * time.Second

// stage is a whole gateway with listeners, set up as sdk/testdata/vectors/setup says.
type stage struct {
	*testing.T
	g    *Gateway
	keys map[string]ops.NewKey
	http http.Client
	once sync.Once
}

// newStage starts one. The modules are compiled once, into cache.
func newStage(t *testing.T, cache string) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "yett") // the path of a socket is short, a test's directory may not be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	cfg, err := config.Load(config.Sources{File: filepath.Join(setupDir, "yett.yaml"), Builtins: scanners.Names(),
		Serve: true, Flags: map[string]any{"storage.path": dir}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	g, err := New(ctx, cfg, Options{Version: "1.0.0", CacheDir: cache, Log: logTo(t.Logf), OnFatal: func(err error) {
		t.Error(err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, g: g, keys: map[string]ops.NewKey{},
		http: http.Client{Transport: &http.Transport{}, Timeout: patience}}
	t.Cleanup(s.stop)
	s.makeKeys(ctx)
	if err := g.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// stop ends the gateway, once.
func (s *stage) stop() {
	s.once.Do(func() {
		s.http.CloseIdleConnections()
		if err := s.g.Close(context.Background()); err != nil {
			s.Error(err)
		}
	})
}

func (s *stage) makeKeys(ctx context.Context) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(setupDir, "keys.json"))
	if err != nil {
		s.Fatal(err)
	}
	var file struct {
		Keys map[string]struct {
			Preset, State  string
			Redeem         string
			Scopes, Agents []string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		s.Fatal(err)
	}
	for name, k := range file.Keys {
		spec := ops.KeySpec{Name: name, Preset: k.Preset, Scopes: k.Scopes, Agents: k.Agents, Redeem: k.Redeem}
		switch k.State {
		case "":
			s.makeKey(ctx, spec)
		case "revoked":
			if err := s.g.Service().RevokeKey(ctx, s.makeKey(ctx, spec).Key.ID, maker); err != nil {
				s.Fatal(err)
			}
		case "expired":
			s.makeExpired(ctx, spec)
		default:
			s.Fatalf("key %s: unknown state %q", name, k.State)
		}
	}
}

// maker is who makes the keys.
var maker = store.Who{Principal: "test", Method: "system", Surface: "system"}

func (s *stage) makeKey(ctx context.Context, spec ops.KeySpec) *ops.NewKey {
	s.Helper()
	made, err := s.g.Service().CreateKey(ctx, spec, maker)
	if err != nil {
		s.Fatalf("key %s: %v", spec.Name, err)
	}
	s.keys[spec.Name] = *made
	return made
}

// makeExpired makes a key that ends soon, and waits for its end.
func (s *stage) makeExpired(ctx context.Context, spec ops.KeySpec) {
	s.Helper()
	var e *sdk.Error
	for soon := 20 * time.Millisecond; ; soon *= 2 {
		spec.ExpiresAt = time.Now().Add(soon)
		made, err := s.g.Service().CreateKey(ctx, spec, maker)
		if err == nil {
			s.keys[spec.Name] = *made
			break
		}
		if !errors.As(err, &e) || e.Field != "expires_at" { // else the machine was slow
			s.Fatalf("key %s: %v", spec.Name, err)
		}
	}
	for {
		<-time.After(time.Until(spec.ExpiresAt))
		if _, err := s.g.Service().KeyOf(s.keys[spec.Name].Value); errors.As(err, &e) && e.Code == sdk.CodeKeyExpired {
			return
		}
	}
}

// answer is what came back over HTTP.
type answer struct {
	status int
	header http.Header
	body   []byte
	stream *sseReader // instead of body
}

// ask sends one HTTP request. The headers are written as given.
func (s *stage) ask(method, path string, header http.Header, body []byte) (*answer, error) {
	req, err := http.NewRequest(method, s.g.URL()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	req.Header = header
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	out := &answer{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		out.stream = &sseReader{body: resp.Body, r: bufio.NewReader(resp.Body)}
		s.Cleanup(func() { _ = resp.Body.Close() }) // it is the reader's end that counts
		return out, nil
	}
	out.body, err = io.ReadAll(resp.Body)
	return out, errors.Join(err, resp.Body.Close())
}

// sseReader reads server-sent events.
type sseReader struct {
	body io.Closer
	r    *bufio.Reader
}

// block is the next block of lines, without the empty line that ends it.
func (e *sseReader) block() (string, error) {
	var out strings.Builder
	for {
		line, err := e.r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line == "\n" {
			return strings.TrimSuffix(out.String(), "\n"), nil
		}
		out.WriteString(line)
	}
}

// event is the next block that is no comment.
func (e *sseReader) event() (string, error) {
	for {
		b, err := e.block()
		if err != nil || !strings.HasPrefix(b, ":") {
			return b, err
		}
	}
}

// line is one connection to the socket.
type line struct {
	net.Conn
	r *bufio.Reader
}

func (s *stage) dial() *line {
	s.Helper()
	c, err := net.Dial("unix", s.g.SocketPath())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() }) // it may be closed already
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		s.Fatal(err)
	}
	return &line{c, bufio.NewReader(c)}
}

// read is the next line without its end.
func (l *line) read() (string, error) {
	text, err := l.r.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}
