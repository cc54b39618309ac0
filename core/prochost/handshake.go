package prochost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	coreProtocol = 1        // of go-plugin
	maxNoise     = 64 << 10 // bytes of stdout before the handshake line
	maxHandshake = 16 << 10 // bytes of that line; a certificate is about 1 KiB
	noiseLines   = 20       // of them that are logged
)

// hello is what a plugin says of itself on stdout.
type hello struct {
	path string // of its socket
	cert string // base64 of DER
}

// parseHello reads the line "core|protocol|network|address|kind of RPC|certificate|…".
func parseHello(line, dir string) (hello, error) {
	parts := strings.Split(line, "|")
	core, version := parts[0], parts[1]
	if core != strconv.Itoa(coreProtocol) {
		return hello{}, refusef("it speaks version %q of go-plugin's handshake, expected %d", quote.Short(core, 20),
			coreProtocol)
	}
	if version != strconv.Itoa(pluginv1.ProtocolVersion) {
		return hello{}, refusef("it speaks version %q of the plugin protocol, expected %d", quote.Short(version, 20),
			pluginv1.ProtocolVersion)
	}
	if len(parts) < 5 || parts[4] != "grpc" {
		return hello{}, refusef("it does not speak gRPC (handshake %q)", quote.Short(line, 200))
	}
	if parts[2] != "unix" {
		return hello{}, refusef("it listens on network %q, expected a Unix socket", quote.Short(parts[2], 20))
	}
	h := hello{path: filepath.Clean(parts[3])}
	if !strings.HasPrefix(h.path, dir+string(filepath.Separator)) {
		return hello{}, refusef("its socket %q is not in its private directory, which %s names", quote.Short(parts[3], 200),
			envSocketDir)
	}
	if len(parts) < 6 || parts[5] == "" { // without, every process of this user could give it orders
		return hello{}, refusef("it offers no TLS: its certificate is missing in the handshake, as an answer to ours in %s",
			envClientCert)
	}
	h.cert = parts[5]
	return h, nil
}

// isHello tells the handshake from what a plugin printed before it.
func isHello(line string) bool {
	parts := strings.SplitN(line, "|", 4)
	if len(parts) < 4 {
		return false
	}
	for _, p := range parts[:2] {
		if _, err := strconv.ParseUint(p, 10, 16); err != nil {
			return false
		}
	}
	return true
}

// findHello reads lines until one is the handshake. What came before it goes to noise.
func findHello(r *bufio.Reader, noise func(line string)) (string, error) {
	for read := 0; ; {
		line, err := readLine(r, maxHandshake)
		read += len(line) + 1
		if err == nil && isHello(line) {
			return line, nil
		}
		if line != "" {
			noise(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return "", fmt.Errorf("it closed its stdout without a handshake")
		case err != nil:
			return "", fmt.Errorf("read the handshake: %w", err)
		case read > maxNoise:
			return "", fmt.Errorf("more than %d bytes on its stdout and no handshake", maxNoise)
		}
	}
}

var errLongLine = errors.New("a line is too long")

// readLine reads one line of at most so many bytes, without its end.
func readLine(r *bufio.Reader, most int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return string(line[:most]), fmt.Errorf("%w: more than %d bytes", errLongLine, most)
		case err == nil:
			return strings.TrimRight(string(line), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return string(line), err
		}
	}
}

// readStdout finds the handshake and goes on reading for as long as there is something, so that a plugin which prints
// is not stopped by it.
func (s *Session) readStdout(found chan<- string, failed chan<- error) {
	r := bufio.NewReaderSize(s.process.Out(), 4<<10)
	lines := 0
	line, err := findHello(r, func(line string) {
		if lines++; lines <= noiseLines {
			s.o.Log(s.spec.Name, LevelStdout, quote.Short(line, 1<<10))
		}
	})
	if err != nil {
		failed <- err
	} else {
		found <- line
	}
	supervise.Follow(r, s.process.Done(), func(line string) { s.o.Log(s.spec.Name, LevelStdout, line) })
}

// awaitHello waits for the handshake line, the end of the process or of ctx.
func (s *Session) awaitHello(ctx context.Context) (hello, error) {
	found, failed := make(chan string, 1), make(chan error, 1)
	s.spawn(func() { s.readStdout(found, failed) })
	select {
	case line := <-found:
		return parseHello(line, s.dir)
	case err := <-failed:
		return hello{}, s.because(ctx, err)
	case <-ctx.Done():
		return hello{}, fmt.Errorf("no handshake: %w", context.Cause(ctx))
	}
}

// because prefers the way a process ended over what was noticed of it.
func (s *Session) because(ctx context.Context, err error) error {
	if err == nil || s.process.Pid() == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endNotice)
	defer cancel()
	select {
	case <-s.process.Done():
		return fmt.Errorf("%w: the process %s", err, s.process.Exit())
	case <-ctx.Done():
		return err
	}
}

// reach connects to the socket that a process named, and makes sure that it is this process (or one that it started)
// which listens there: a plugin must not send us to somebody else's socket.
func (s *Session) reach(ctx context.Context, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to its socket: %w", err)
	}
	got, err := peer.Of(conn.(*net.UnixConn))
	if err == nil {
		got.Close()
		if peer.Session(got.Pid) != s.process.Pid() {
			err = errors.New("another process listens there")
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to its socket: %w", err)
	}
	return conn, nil
}
