package prochost

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// startError is what Wait says of a plugin that does not come up.
func startError(t *testing.T, s Spec, o Options) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := Load(ctx, o, s)
	if err != nil {
		return err
	}
	defer func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	err = p.Wait(ctx)
	if err == nil {
		t.Fatal("it came up")
	}
	if v, cerr := check(p, "permit"); cerr == nil {
		t.Errorf("it answers: %+v", v)
	}
	return err
}

// TestStartErrors: what does not come up says why, and whether only the operator can mend it.
func TestStartErrors(t *testing.T) {
	brief := func(s *Spec) { s.StartTimeout = 300 * time.Millisecond }
	for i, c := range []struct {
		mode, want string
		words      string // of the plugin itself
		refused    bool
		change     func(*Spec)
		check      func(string, []byte) error
		late       bool // shows only once it has started: a machine that is slow gets more time for that
	}{
		{mode: "stock", want: "its digest is", refused: true, change: func(s *Spec) { s.Digest = "sha256:" + strings.Repeat("0", 64) }},
		{mode: "stock", want: "no such file", refused: true, change: func(s *Spec) { s.Path = filepath.Join(t.TempDir(), "none") }},
		{mode: "stock", want: "not a regular file", refused: true, change: func(s *Spec) { s.Path = os.TempDir() }},
		{mode: "exits", want: "exit status 7", words: "no licence found"},
		{mode: "mute", want: "not ready within 300ms", change: brief},
		{mode: "no-plugin", want: "ended with exit status 0"},
		{mode: "stock-version-2", want: `version "2" of the plugin protocol, expected 1`, refused: true},
		{mode: "stock-only-scanner", want: "kinds: it is no authorizer", refused: true},
		{mode: "stock-api-7", want: "api_versions: [7] do not include 1", refused: true},
		{mode: "stock-needs-secret", want: "secrets: it needs licence", refused: true},
		{mode: "stock", want: "secrets: it takes none called other", refused: true, change: func(s *Spec) { s.Secrets = map[string][]byte{"other": nil} }},
		{mode: "stock-problems", want: "/tenant: is not known", refused: true},
		{mode: "stock-invalid", want: "no such tenant", refused: true},
		{mode: "stock", want: "config: /x is wrong", refused: true, check: func(string, []byte) error { return errors.New("/x is wrong") }},
		{mode: "stock", want: "probe: config_schema is odd", refused: true, check: func(string, []byte) error { return oddSchema{} }},
		{mode: "trivial", want: "it takes no config", refused: true, change: func(s *Spec) { s.Config = []byte(`{"a":1}`) }},
		{mode: "stock-never-serves", want: "it does not serve (not serving)", words: "the directory is away", change: func(s *Spec) { s.StartTimeout = time.Second }, late: true},
		{mode: "stock-odd-health", want: "unknown health status 77"},
		{mode: "stock-bad-smoke", want: "unknown effect 99"},
		{mode: "stock-unary-bad-smoke", want: "unknown effect 99"},
	} {
		if testkit.Quick() && i%3 != 0 {
			continue // each starts a process
		}
		t.Run(c.mode+" "+c.want, func(t *testing.T) {
			s := guestSpec(c.mode)
			if c.change != nil {
				c.change(&s)
			}
			err := startError(t, s, Options{CheckConfig: c.check})
			for c.late && s.StartTimeout < patience && !strings.Contains(err.Error(), c.want) {
				s.StartTimeout *= 4
				err = startError(t, s, Options{CheckConfig: c.check})
			}
			var r *Refused
			if !strings.Contains(err.Error(), c.want) || errors.As(err, &r) != c.refused {
				t.Errorf("refused: %v: %v", r != nil, err)
			}
			if words := chain.Words(err); words != c.words || c.words != "" && strings.Contains(err.Error(), c.words) {
				t.Errorf("%v: it said %q, want %q, and not in the error", err, words, c.words)
			}
		})
	}
}

// TestSpecs: what an operator can get wrong.
func TestSpecs(t *testing.T) {
	uid := uint32(7)
	for want, change := range map[string]func(*Spec){
		`name "a b"`:           func(s *Spec) { s.Name = "a b" },
		"unknown kind: kind 0": func(s *Spec) { s.Kind = 0 },
		"no absolute path":     func(s *Spec) { s.Path = "bin/x" },
		"digest:":              func(s *Spec) { s.Digest = "sha256:abc" },
		"peer: only with":      func(s *Spec) { s.Peer = &Peer{UID: &uid} },
		"not together":         func(s *Spec) { s.Connect = "unix:///x" },
		"unix:///path": func(s *Spec) {
			*s = Spec{Name: "a", Kind: Scanner, Connect: "tcp://x:1", Peer: &Peer{UID: &uid}}
		},
		"a uid or certificates": func(s *Spec) { *s = Spec{Name: "a", Kind: Scanner, Connect: "unix:///x"} },
		"all three of ca, cert": func(s *Spec) {
			*s = Spec{Name: "a", Kind: Scanner, Connect: "unix:///x", Peer: &Peer{CAFile: "x"}}
		},
		"secrets: not with connect": func(s *Spec) {
			*s = Spec{Name: "a", Kind: Scanner, Connect: "unix:///x", Peer: &Peer{UID: &uid},
				Secrets: map[string][]byte{"a": nil}}
		},
		"the handshake's own":            func(s *Spec) { s.Env = map[string]string{"PLUGIN_CLIENT_CERT": "x"} },
		"no name of a variable":          func(s *Spec) { s.Env = map[string]string{"A=B": "x"} },
		"config: expected a JSON object": func(s *Spec) { s.Config = []byte("[]") },
		"replicas: 17":                   func(s *Spec) { s.Replicas = 17 },
		"max_in_flight: 5000":            func(s *Spec) { s.MaxInFlight = 5000 },
		"queue: 70000":                   func(s *Spec) { s.Queue = 70000 },
		"replicas: a subscriber":         func(s *Spec) { s.Kind, s.Replicas = Subscriber, 2 },
		"timeout: -1s":                   func(s *Spec) { s.Timeout = -time.Second },
		"breaker.failures: 1.5":          func(s *Spec) { s.Breaker.Failures = 1.5 },
		"generation: 300 bytes":          func(s *Spec) { s.Generation = strings.Repeat("x", 300) },
		"secrets: a has":                 func(s *Spec) { s.Secrets = map[string][]byte{"a": make([]byte, maxSecret+1)} },
		"cache.entries: 100000000":       func(s *Spec) { s.Cache.Entries = 100000000 },
	} {
		s := guestSpec("stock")
		change(&s)
		var r *Refused
		if p, err := Load(context.Background(), Options{}, s); err == nil || !strings.Contains(err.Error(), want) ||
			!errors.As(err, &r) {
			t.Errorf("%s: %v, %v", want, p, err)
		}
	}
}

// TestWhatItGets: its own directory, exactly the environment that was written down, secrets in files and nowhere else.
func TestWhatItGets(t *testing.T) {
	t.Setenv("YETT_PEPPER", "of the gateway")
	token := "to" + "ken-" + t.Name()
	s := guestSpec("stock")
	s.Env["PROCHOST_SEEN"] = "x"
	s.Secrets = map[string][]byte{"token": []byte(token)}
	p := loaded(t, s, Options{}, generous)
	for what, want := range map[string]string{
		"env": "PLUGIN_CLIENT_CERT PLUGIN_PROTOCOL_VERSIONS PLUGIN_UNIX_SOCKET_DIR PROCHOST_GUEST PROCHOST_SEEN=x " +
			"TMPDIR YETT_PLUGIN",
		"args":   "",
		"secret": token,
	} {
		if v, err := check(p, "say/"+what); err != nil || v.Reason != want {
			t.Errorf("%s: %q, %v", what, v.Reason, err)
		}
	}
	v, err := check(p, "say/dir")
	if err != nil || !strings.HasSuffix(v.Reason, " drwx------ <nil>") {
		t.Errorf("directory: %q, %v", v.Reason, err)
	}
	pid := p.Status().Replicas[0].Pid
	for _, file := range []string{"environ", "cmdline"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil || bytes.Contains(b, []byte(token)) || bytes.Contains(b, []byte("pepper")) {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	if in, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid)); err != nil || in != os.DevNull {
		t.Errorf("stdin is %q, %v", in, err)
	}
	dir, _, _ := strings.Cut(v.Reason, " ")
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// TestSecretsAsFiles: where there are no files in memory.
func TestSecretsAsFiles(t *testing.T) {
	b := &birth{s: &Spec{Secrets: map[string][]byte{"a": []byte("value")}}, dir: t.TempDir(), secrets: map[string]string{}}
	if err := b.putFile("a"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(b.secrets["a"])
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v", info, err)
	}
	if got, err := os.ReadFile(b.secrets["a"]); err != nil || string(got) != "value" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBackground: what decides has the gateway's own priority, what reads afterwards a lower one.
func TestBackground(t *testing.T) {
	path, digest := self()
	for kind, want := range map[Kind]bool{Authorizer: false, Scanner: false, Subscriber: true} {
		b, err := newBirth(&Options{}, &Spec{Name: "any", Kind: kind, Path: path, Digest: digest})
		if err != nil {
			t.Fatal(err)
		}
		if b.command.Background != want {
			t.Errorf("%v: in the background: %v", kind, b.command.Background)
		}
		b.release()
	}
}

// TestSwappedProgram: what is started again is compared with the digest again.
func TestSwappedProgram(t *testing.T) {
	path, digest := self()
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "plugin")
	if err := testkit.WriteProgram(copied, code); err != nil {
		t.Fatal(err)
	}
	s := guestSpec("stock")
	s.Path, s.Digest = copied, digest
	p := loaded(t, s, Options{}, generous)
	if err := testkit.WriteProgram(copied+".new", append(code, 'x')); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied+".new", copied); err != nil {
		t.Fatal(err)
	}
	check(p, "crash")
	until(t, "the new program is noticed", func() bool {
		return strings.Contains(p.Status().Detail, "its digest is") || strings.Contains(p.Status().Detail, "the digest is")
	})
	if v, err := check(p, "permit"); err == nil {
		t.Errorf("it answers: %+v", v)
	}
}

// TestChangedInfo: a restarted process has to be who it was.
func TestChangedInfo(t *testing.T) {
	s := guestSpec("stock-changes")
	notes := t.TempDir()
	s.Env["PROCHOST_FILE"], s.Confine.Write = filepath.Join(notes, "started"), []string{notes}
	p := loaded(t, s, Options{}, generous)
	check(p, "crash")
	until(t, "the change is noticed", func() bool {
		return strings.Contains(p.Status().Detail, "not what it said at first")
	})
}

// TestQuarantine: a plugin that keeps crashing is given up until somebody says otherwise.
func TestQuarantine(t *testing.T) {
	ctx := context.Background()
	s, err := guestSpec("stock"), error(nil)
	generous(&s)
	p, err := load(ctx, Options{}, s, tuning{backoff: supervise.Backoff{First: time.Millisecond, Crashes: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		until(t, "it is ready", func() bool { _, err := check(p, "permit"); return err == nil })
		check(p, "crash")
	}
	until(t, "the quarantine", func() bool { return p.Status().State == supervise.StateQuarantined })
	if _, err := check(p, "permit"); err == nil || !strings.Contains(err.Error(), "quarantined") {
		t.Errorf("in quarantine: %v", err)
	} else if after := chain.RetryAfter(err); after != chain.Never {
		t.Errorf("in quarantine, which only an operator ends, callers are told to come back in %v", after)
	}
	p.Resume()
	until(t, "it is ready", func() bool { _, err := check(p, "permit"); return err == nil })
}

// TestRestartsAreFew: more replicas are not more restarts.
func TestRestartsAreFew(t *testing.T) {
	testkit.Slow(t, "waits for restarts")
	for _, replicas := range []int{1, 2, 3, 5} {
		s := guestSpec("stock")
		s.Replicas, s.Env[guestEnv] = replicas, "exits"
		p, err := load(context.Background(), Options{}, s,
			tuning{backoff: supervise.Backoff{First: time.Millisecond, Most: 2 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the quarantine", func() bool {
			for _, r := range p.Status().Replicas {
				if r.State != supervise.StateQuarantined {
					return false
				}
			}
			return true
		})
		if again := p.Stats().Starts - uint64(replicas); again < 4 || again > restartsMost {
			t.Errorf("%d replicas were started anew %d times", replicas, again)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestNoise: lines before the handshake are put up with.
func TestNoise(t *testing.T) {
	p := loaded(t, guestSpec("stock-noise-before"), Options{}, generous)
	if _, err := check(p, "permit"); err != nil {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	s, err := Open(context.Background(), Options{}, guestSpec("trivial"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := pluginv1.NewPluginClient(s.Conn()).Info(context.Background(),
		&pluginv1.InfoRequest{ApiVersions: []uint32{1}})
	if err != nil || info.Name != "trivial" {
		t.Errorf("%v, %v", info, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil || ctx.Err() != nil {
		t.Error(err)
	}
	if s, err = Open(context.Background(), Options{}, guestSpec("exits")); err == nil || s != nil ||
		!strings.Contains(err.Error(), "no licence found") {
		t.Errorf("%v, %v", s, err)
	}
}

func TestHello(t *testing.T) {
	for line, want := range map[string]string{
		"1|1|unix|/d/s|grpc|QUJD":             "",
		"1|1|unix|/d/sub/s|grpc|QUJD|true":    "",
		"2|1|unix|/d/s|grpc|QUJD":             `version "2" of go-plugin`,
		"1|3|unix|/d/s|grpc|QUJD":             `version "3" of the plugin protocol`,
		"1|1|unix|/d/s":                       "does not speak gRPC",
		"1|1|unix|/d/s|netrpc|QUJD":           "does not speak gRPC",
		"1|1|tcp|127.0.0.1:5|grpc|QUJD":       "expected a Unix socket",
		"1|1|unix|/run/docker.sock|grpc|QUJD": "not in its private directory",
		"1|1|unix|/d/../run/s|grpc|QUJD":      "not in its private directory",
		"1|1|unix|@abstract|grpc|QUJD":        "not in its private directory",
		"1|1|unix|/dx/s|grpc|QUJD":            "not in its private directory",
		"1|1|unix|/d/s|grpc|":                 "no TLS",
		"1|1|unix|/d/s|grpc":                  "no TLS",
	} {
		h, err := parseHello(line, "/d")
		if want == "" && (err != nil || h.cert != "QUJD") ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", line, h, err)
		}
	}
}

// sidecar serves a guest on a socket of its own, in this process.
func sidecar(t *testing.T, path string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	g := &guest{mode: "stock"}
	pluginv1.RegisterPluginServer(server, g)
	pluginv1.RegisterAuthorizerServer(server, g)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return func() {
		server.Stop()
		<-done
	}
}

func TestConnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stop := sidecar(t, path)
	uid := uint32(os.Getuid())
	p := loaded(t, Spec{Name: "side", Kind: Authorizer, Connect: "unix://" + path, Peer: &Peer{UID: &uid}}, Options{},
		generous)
	if _, err := check(p, "permit"); err != nil {
		t.Fatal(err)
	}
	stop()
	until(t, "the loss is noticed", func() bool { _, err := check(p, "permit"); return err != nil })
	stop = sidecar(t, path)
	defer stop()
	until(t, "it is back", func() bool { _, err := check(p, "permit"); return err == nil })
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestConnectToAStranger: whoever else listens there is told nothing.
func TestConnectToAStranger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := uint32(os.Getuid() + 1)
	s := Spec{Name: "side", Kind: Authorizer, Connect: "unix://" + path, Peer: &Peer{UID: &other}}
	if err := startError(t, s, Options{}); !strings.Contains(err.Error(), "is user") {
		t.Error(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestSocketOfAnother: a plugin that sends us to somebody else's socket does not get us there.
func TestSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := supervise.Start(supervise.Command{Name: "other", Path: "/bin/sleep", Digest: digestOf(t, "/bin/sleep"),
		Args: []string{"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { p.Kill(); <-p.Done() }()
	s := &Session{process: p}
	if conn, err := s.reach(context.Background(), path); err == nil ||
		!strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("%v, %v", conn, err)
	}
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TestProgramTooLarge: what no start would run is refused at once, and not started again and again.
func TestProgramTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	if err := testkit.WriteProgram(path, []byte("#!")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, supervise.MaxImage+1); err != nil { // it takes no room
		t.Fatal(err)
	}
	s := guestSpec("stock")
	s.Path = path
	_, err := Load(context.Background(), Options{}, s)
	var r *Refused
	if !errors.As(err, &r) || !strings.Contains(err.Error(), "bytes, at most") {
		t.Errorf("%v", err)
	}
}

// oddSchema is what the check of settings says of a schema that no settings can fit.
type oddSchema struct{}

func (oddSchema) Error() string       { return "config_schema is odd" }
func (oddSchema) SchemaPlace() string { return "#/x" }
