package conform

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/supervise"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	maxLine   = 16 << 10 // bytes of a handshake line
	maxStdout = 64 << 10 // bytes of standard output that are kept
)

// handshake is a plugin's first line: core|app|network|address|protocol|certificate.
type handshake struct {
	network, address string
	cert             []byte // DER; nil when it offers none
}

// directSession is a process that the suite started by itself, without the gateway's host: so the handshake and all of
// standard output can be seen.
type directSession struct {
	process *supervise.Process
	conn    *grpc.ClientConn
	line    handshake
	took    time.Duration // from start to handshake
	dir     string        // where its socket is

	mu     sync.Mutex
	stdout []byte // what came after the handshake
	rest   error  // how it ended
	read   chan struct{}
}

func (s *directSession) Conn() grpc.ClientConnInterface { return s.conn }
func (s *directSession) Process() *supervise.Process    { return s.process }

// Close ends the connection and kills the process.
func (s *directSession) Close(ctx context.Context) error {
	var errs []error
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	s.process.Kill()
	select {
	case <-s.read:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("end the plugin: %w", context.Cause(ctx)))
	}
	errs = append(errs, os.RemoveAll(s.dir))
	return errors.Join(errs...)
}

// noise is what the plugin wrote to standard output beside the handshake.
func (s *directSession) noise() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stdout)
}

// held says whether another process kept standard output open when the plugin had ended.
func (s *directSession) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.rest, supervise.ErrHeld)
}

// startDirect starts a file and shakes hands. With mtls both ends show certificates, as the gateway wants it.
func startDirect(ctx context.Context, o Options, digest string, mtls bool, log func(string)) (_ *directSession,
	err error) {
	s := &directSession{read: make(chan struct{})}
	if s.dir, err = os.MkdirTemp("", "yett-conform-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && s.process == nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	all := maps.Clone(o.Env)
	if all == nil {
		all = map[string]string{}
	}
	all[pluginv1.CookieKey] = pluginv1.CookieValue
	all["PLUGIN_PROTOCOL_VERSIONS"] = "97,1" // one that nobody speaks: the plugin has to choose
	all["PLUGIN_UNIX_SOCKET_DIR"] = s.dir
	var key *prochost.ClientKey
	if mtls {
		if key, err = prochost.NewClientKey(); err != nil {
			return nil, err
		}
		all["PLUGIN_CLIENT_CERT"] = string(key.PEM)
	}
	var policy *confine.Policy
	if !o.Unconfined {
		p := o.Confine
		p.Write = append(slices.Clone(p.Write), s.dir) // where its socket goes
		policy = &p
	}
	began := time.Now()
	s.process, err = supervise.Start(supervise.Command{Name: "conform", Path: o.Path, Digest: digest, Env: all, Pipe: true,
		NoInput: true, Log: log, Limits: limits, Confine: policy})
	if err != nil {
		return nil, err
	}
	if err = s.shake(ctx, key, o.start); err != nil {
		s.process.Kill()
		<-s.read
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	s.took = time.Since(began)
	return s, nil
}

// shake reads the handshake and dials.
func (s *directSession) shake(ctx context.Context, key *prochost.ClientKey, most time.Duration) error {
	line := make(chan string, 1)
	go s.readOut(line)
	var text string
	var ok bool
	select {
	case text, ok = <-line:
	case <-time.After(most):
		return failed("print the handshake line to standard output as soon as the socket is there (sdk/plugin does)",
			"no handshake line within %v", most)
	case <-ctx.Done():
		return fmt.Errorf("no handshake line: %w", context.Cause(ctx))
	}
	if !ok {
		s.process.Kill()
		return failed("look at what it writes to standard error (--log)",
			"it ended, or closed its standard output, without a handshake line: %s", s.process.Exit())
	}
	var err error
	if s.line, err = parseHandshake(text); err != nil {
		return err
	}
	transport, err := transportFor(key, s.line.cert)
	if err != nil {
		return err
	}
	s.conn, err = s.dial(transport)
	return err
}

func (s *directSession) dial(transport credentials.TransportCredentials) (*grpc.ClientConn, error) {
	dialer := net.Dialer{Timeout: startLimit}
	return grpc.NewClient("passthrough:plugin", grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, s.line.network, s.line.address)
		}))
}

// readOut reads standard output to its end: the first line goes to line, the beginning of the rest is kept.
func (s *directSession) readOut(line chan<- string) {
	defer close(s.read)
	r := bufio.NewReaderSize(s.process.Out(), maxLine)
	first, err := r.ReadSlice('\n')
	switch {
	case err == nil, errors.Is(err, bufio.ErrBufferFull):
		line <- string(first)
	default: // a line without an end is none
		close(line)
		return
	}
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		s.mu.Lock()
		s.stdout = append(s.stdout, buf[:min(n, maxStdout-len(s.stdout))]...)
		s.rest = err
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

const handshakeAdvice = "the first line on standard output is 1|1|unix|PATH|grpc|CERTIFICATE, with an empty " +
	"CERTIFICATE when PLUGIN_CLIENT_CERT is not set; nothing goes before it"

// parseHandshake reads the line as strictly as the gateway.
func parseHandshake(text string) (h handshake, err error) {
	bad := func(why string, args ...any) error {
		shown := oneLine(text)
		if len(shown) > 120 {
			shown = strings.ToValidUTF8(shown[:120], "") + "…"
		}
		return failed(handshakeAdvice, "the handshake line %q %s", shown, fmt.Sprintf(why, args...))
	}
	if !strings.HasSuffix(text, "\n") {
		return h, bad("has more than %d bytes", maxLine)
	}
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), "|")
	switch {
	case len(parts) < 5:
		return h, bad("has %d parts, wants at least 5", len(parts))
	case parts[0] != "1":
		return h, bad("names core protocol %s, wants 1", parts[0])
	case parts[1] != "1":
		return h, bad("chooses protocol version %s of the offered 97 and 1, wants 1: there is no other version", parts[1])
	case parts[2] != "unix":
		return h, bad("offers a %s socket, wants unix: whoever is on the machine could reach another one", parts[2])
	case parts[3] == "" || !strings.HasPrefix(parts[3], "/"):
		return h, bad("has no absolute path of a socket")
	case parts[4] != "grpc":
		return h, bad("names the protocol %s, wants grpc", parts[4])
	}
	h.network, h.address = parts[2], parts[3]
	if len(parts) > 5 && parts[5] != "" {
		if h.cert, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(parts[5], "=")); err != nil {
			return h, bad("has a certificate that is no base64")
		}
		if _, err := x509.ParseCertificate(h.cert); err != nil {
			return h, bad("has a certificate that cannot be read: %v", err)
		}
	}
	return h, nil
}

// transportFor trusts exactly the certificate of the handshake, as the gateway does. key is nil without TLS.
func transportFor(key *prochost.ClientKey, server []byte) (credentials.TransportCredentials, error) {
	if key == nil {
		return insecure.NewCredentials(), nil
	}
	if server == nil {
		return nil, failed("when PLUGIN_CLIENT_CERT is set, serve TLS, demand that certificate of the client, and put "+
			"your own into the sixth part of the handshake line (unpadded base64 of the DER)",
			"the handshake line has no certificate although PLUGIN_CLIENT_CERT was set: the connection would not be protected")
	}
	config, err := key.Pinned(base64.RawStdEncoding.EncodeToString(server))
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

// stranger is a client that holds no certificate of ours.
func (s *directSession) stranger() (*grpc.ClientConn, error) {
	// whom it trusts does not matter: it must not be let in
	return s.dial(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}))
}
