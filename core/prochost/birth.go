package prochost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strings"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/core/supervise"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// maxSocketDir leaves room for a file's name in the 108 bytes of a Unix socket's address.
const maxSocketDir = 80

// The variables of go-plugin's handshake.
const (
	envVersions   = "PLUGIN_PROTOCOL_VERSIONS"
	envSocketDir  = "PLUGIN_UNIX_SOCKET_DIR"
	envClientCert = "PLUGIN_CLIENT_CERT"
)

func reservedEnv(name string) bool {
	return name == pluginv1.CookieKey || strings.HasPrefix(name, "PLUGIN_")
}

// birth is what one start of a plugin needs: directory, secrets, certificate. Whoever makes it releases it, unless a
// handshake took it over.
type birth struct {
	o       *Options
	s       *Spec
	dir     string            // private to the process; removed at its end
	files   []*os.File        // secrets, as the process's descriptors 3 and up
	secrets map[string]string // name → path in the process
	pair    *ClientKey        // ours, for mutual TLS
	command supervise.Command

	conn  net.Conn    // Connect
	ended func(error) // Connect: tells that the connection is no more
}

// newBirth makes everything that a start needs.
func newBirth(o *Options, s *Spec) (_ *birth, err error) {
	b := &birth{o: o, s: s, secrets: map[string]string{}, command: supervise.Command{Name: s.Name}}
	if s.Connect != "" {
		return b, nil
	}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	policy, err := s.policy()
	if err != nil {
		return nil, err
	}
	if b.dir, err = privateDir(s); err != nil {
		return nil, err
	}
	if err := b.putSecrets(); err != nil {
		return nil, err
	}
	if b.pair, err = NewClientKey(); err != nil {
		return nil, err
	}
	env := maps.Clone(s.Env)
	if env == nil {
		env = map[string]string{}
	}
	env[pluginv1.CookieKey] = pluginv1.CookieValue
	env[envVersions] = fmt.Sprint(pluginv1.ProtocolVersion)
	env[envSocketDir] = b.dir
	if _, set := env["TMPDIR"]; !set { // it may write nowhere else
		env["TMPDIR"] = b.dir
	}
	env[envClientCert] = string(b.pair.PEM)
	b.command = supervise.Command{Name: s.Name, Path: s.Path, Digest: s.Digest, Env: env, Dir: b.dir, Limits: s.Limits,
		// decisions have somebody waiting
		User: s.User, Pipe: true, NoInput: true, ExtraFiles: b.files, Confine: policy, Background: s.Kind == Subscriber,
		Log: func(line string) { o.Log(s.Name, LevelStderr, line) }}
	return b, nil
}

// policy is what the kernel takes from the process; nil: nothing.
func (s *Spec) policy() (*confine.Policy, error) {
	if s.Limits.Processes > 0 && s.User == nil && os.Geteuid() == 0 {
		return nil, refusef("limits.processes: the kernel does not count root's processes: give the plugin a user")
	}
	if s.Unconfined {
		return nil, nil
	}
	p := s.Confine
	p.Children = s.Limits.Processes > 0
	return &p, nil
}

// gapsOf says what a process is not confined in.
func gapsOf(s *Spec, p *supervise.Process) []confine.Gap {
	switch {
	case s.Connect != "":
		return nil // somebody else starts it
	case s.Unconfined:
		return []confine.Gap{{Part: confine.PartOff, Why: "the configuration turned its confinement off (confine: off)"}}
	}
	return p.Gaps()
}

// privateDir is an empty directory for one process, where its socket goes too.
func privateDir(s *Spec) (string, error) {
	dir, err := supervise.MakeDir("plugin", s.User)
	if err != nil {
		return "", err
	}
	if len(dir) > maxSocketDir {
		supervise.RemoveDir(dir)
		return "", refusef("%s is too long for the directory of a socket: at most %d bytes (TMPDIR)", dir, maxSocketDir)
	}
	return dir, nil
}

// start starts the process, or dials. It is supervise's Start, and its default for a program.
func (b *birth) start(ctx context.Context) (*supervise.Process, error) {
	if b.s.Connect == "" {
		return supervise.Start(b.command)
	}
	return b.dial(ctx)
}

// dial connects to a plugin that somebody else runs and makes sure of who that is.
func (b *birth) dial(ctx context.Context) (*supervise.Process, error) {
	path, err := socketPath(b.s.Connect)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if want := b.s.Peer.UID; want != nil {
		if err := checkUser(conn.(*net.UnixConn), path, *want); err != nil {
			conn.Close()
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	b.conn = conn
	var p *supervise.Process
	p, b.ended = supervise.Outside(b.s.Name, func(bool) {
		conn.Close()
		go b.ended(errLost)
	})
	return p, nil
}

// checkUser is an error unless a process of that user listens at the other end, and no gateway has started it: another
// plugin of the same user is not the one that is meant.
func checkUser(conn *net.UnixConn, path string, want uint32) error {
	got, err := peer.Of(conn)
	if err != nil {
		return err
	}
	defer got.Close()
	if got.UID != want {
		return fmt.Errorf("the other end of %s is user %d, expected user %d", path, got.UID, want)
	}
	if n, some := peer.Nobody(); some && got.UID == n {
		return fmt.Errorf("the other end of %s is user %d, which is anybody without a number in this user namespace: run "+
			"the plugin as another user", path, n)
	}
	if err := got.Unmarked(); err != nil {
		return fmt.Errorf("the other end of %s is not taken for the plugin by its user: %w", path, err)
	}
	return nil
}

// release closes and removes what no process uses (any longer).
func (b *birth) release() {
	b.closeFiles()
	if b.conn != nil {
		b.conn.Close()
	}
	if b.ended != nil {
		b.ended(errors.New("the connection was closed"))
	}
	if b.dir != "" {
		supervise.RemoveDir(b.dir)
	}
}

func (b *birth) closeFiles() {
	for _, f := range b.files {
		f.Close()
	}
	b.files = nil
}
