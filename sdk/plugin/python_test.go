package plugin

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// python builds examples/authorizer-python.
func python(t *testing.T) string {
	t.Helper()
	if os.Getenv("YETT_PYTHON") == "" {
		t.Skip("YETT_PYTHON names no Python with the packages of examples/authorizer-python/requirements.txt")
	}
	path := filepath.Join(t.TempDir(), "amounts.pyz")
	if out, err := exec.Command("../../examples/authorizer-python/build.sh", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestPython is a whole life of the plugin in Python, as TestProcess is for Go.
func TestPython(t *testing.T) {
	path := python(t)
	cmd := exec.Command(path)
	cmd.Dir = t.TempDir()
	s := byHand(t, cmd)
	plugin, authorizer := pluginv1.NewPluginClient(s.conn), pluginv1.NewAuthorizerClient(s.conn)
	info, err := plugin.Info(t.Context(), &pluginv1.InfoRequest{ApiVersions: []uint32{1}})
	if err != nil || info.GetName() != "amounts-python" || !info.GetCapabilities().GetCheckStream() {
		t.Fatal(info, err)
	}
	if _, err := authorizer.Check(t.Context(), request(1, "payments/pay")); status.Code(err) != codes.FailedPrecondition {
		t.Error("before Configure:", err)
	}
	for _, c := range []struct{ config, problem string }{
		{`{"tools":["payments/*"],"limit":100}`, ""}, {`{"tools":[],"limit":100}`, "/tools"}, {`{"tools":["a"],"limit":true}`, "/limit"},
		{`{"tools":["a"],"limit":1,"x":1}`, "/x"}, {`{"tools":["a"],"limit":1,"limit":2}`, ""}, {`[]`, ""},
	} {
		m, err := plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{Config: []byte(c.config), ValidateOnly: true})
		bad := strings.Contains(c.config, `:2}`) || c.config == "[]" || c.problem != ""
		if err != nil || bad != (len(m.GetProblems()) > 0) || bad && m.GetProblems()[0].GetField() != c.problem {
			t.Error(c.config, m, err)
		}
	}
	if _, err := authorizer.Check(t.Context(), request(1, "payments/pay")); status.Code(err) != codes.FailedPrecondition {
		t.Error("after validate_only:", err)
	}
	if m, err := plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{Config: []byte(info.GetExampleConfig())}); err !=
		nil || len(m.GetProblems()) > 0 {
		t.Fatal(m, err)
	}
	example := &pluginv1.ConfigureRequest{Config: []byte(info.GetExampleConfig())}
	if _, err := plugin.Configure(t.Context(), example); status.Code(err) != codes.FailedPrecondition {
		t.Error("Configure twice:", err)
	}
	pythonChecks(t, authorizer)
	pythonEnds(t, s, plugin)
}

func pythonChecks(t *testing.T, authorizer pluginv1.AuthorizerClient) {
	stream, err := authorizer.CheckStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ tool, args, want string }{
		{"payments/pay", `{"amount":5}`, "EFFECT_PERMIT AMOUNT_OK"},
		{"payments/pay", `{"amount":100.00000000000000000001}`, "EFFECT_DENY AMOUNT_TOO_HIGH"},
		{"payments/pay", `{"amount":"5"}`, "EFFECT_DENY AMOUNT_UNREADABLE"},
		{"payments/pay", `{"amount":true}`, "EFFECT_DENY AMOUNT_UNREADABLE"},
		{"payments/pay", ``, "EFFECT_DENY AMOUNT_UNREADABLE"},
		{"files/read", `{}`, "EFFECT_ABSTAIN "},
		{"payments/pay", `{"amount":5,"amount":500}`, "malformed"},
		{"payments/pay", `{"amount":NaN}`, "malformed"},
		{"payments/pay", `[5]`, "malformed"},
		{"payments/pay", strings.Repeat(`{"a":`, 5000), "malformed"},
		{"late", `{}`, "late"},
	} {
		req := request(uint64(i+1), c.tool)
		req.Call.Args = []byte(c.args)
		if c.want == "late" {
			req.DeadlineUnixNano = time.Now().Add(-time.Second).UnixNano()
		}
		unary, err := authorizer.Check(t.Context(), req)
		if (c.want == "malformed") != (status.Code(err) == codes.InvalidArgument) {
			t.Errorf("Check, %s: %v, %v", c.args, unary, err)
		}
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || got.GetId() != req.GetId() {
			t.Fatal(got, err)
		}
		text := fmt.Sprint(got.GetEffect(), " ", got.GetCode())
		if c.want == "malformed" || c.want == "late" {
			if got.GetError() == "" || got.GetEffect() != 0 {
				t.Errorf("%.40s: %v", c.args, got)
			}
		} else if text != c.want || got.GetError() != "" || unary.GetEffect() != got.GetEffect() ||
			unary.GetCode() != got.GetCode() {
			t.Errorf("%s %s: %v, and with Check %v", c.tool, c.args, got, unary)
		}
	}
	const n = 1000
	for i := range n {
		if err := stream.Send(request(uint64(i+100), "payments/pay")); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for {
		got, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || got.GetEffect() != pluginv1.CheckResponse_EFFECT_PERMIT || seen[got.GetId()] {
			t.Fatal(got, err)
		}
		seen[got.GetId()] = true
	}
	if len(seen) != n {
		t.Errorf("%d answers to %d requests", len(seen), n)
	}
}

func pythonEnds(t *testing.T, s *started, plugin pluginv1.PluginClient) {
	health, err := plugin.Health(t.Context(), &pluginv1.HealthRequest{IntervalMs: 20})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if m, err := health.Recv(); err != nil || m.GetStatus() != pluginv1.HealthResponse_STATUS_SERVING {
			t.Fatal(m, err)
		}
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	for {
		m, err := health.Recv()
		if err != nil {
			t.Fatal("no DRAINING before the end:", err)
		}
		if m.GetStatus() == pluginv1.HealthResponse_STATUS_DRAINING {
			break
		}
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
}

// byHand starts a plugin as the document tells other languages: go-plugin's own client has a P-521 key, which Python's
// TLS does not take; the gateway's is P-256.
func byHand(t *testing.T, cmd *exec.Cmd) *started {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s := &started{cmd: cmd, stderr: &syncBuffer{}}
	dir := t.TempDir()
	cmd.Env = append(cmd.Env, CookieKey+"="+CookieValue, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR="+dir,
		"PLUGIN_CLIENT_CERT="+string(own))
	cmd.Stderr = s.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	parts := strings.Split(strings.TrimSpace(line), "|")
	if err != nil || len(parts) != 6 || strings.Join(parts[:3], "|") != "1|1|unix" || parts[4] != "grpc" ||
		filepath.Dir(parts[3]) != dir {
		t.Fatalf("handshake %q, %v\n%s", line, err, s.stderr)
	}
	theirs, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(theirs)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	dial := func(pair []tls.Certificate) *grpc.ClientConn {
		c, err := grpc.NewClient("unix://"+parts[3], grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			Certificates: pair, RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13,
		})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	if _, err := pluginv1.NewPluginClient(dial(nil)).Info(t.Context(), &pluginv1.InfoRequest{}); err == nil {
		t.Error("a stranger without a certificate is answered")
	}
	s.conn = dial([]tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}})
	return s
}
