package prochost

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
)

// signer makes certificates, as an operator's authority does.
type signer struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
	ca   string
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	s.ca, _ = s.issue("ca")
	s.pool.AddCert(s.cert)
	return s
}

// issue writes a certificate and its key to files. The first one is the authority's own.
func (s *signer) issue(name string) (cert, keyFile string) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: s.cert == nil,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	parent, by := s.cert, s.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.cert == nil {
		if s.cert, err = x509.ParseCertificate(der); err != nil {
			s.t.Fatal(err)
		}
		s.key = key
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.write(name+".crt", "CERTIFICATE", der), s.write(name+".key", "PRIVATE KEY", private)
}

func (s *signer) write(name, kind string, der []byte) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// serves runs a plugin of the SDK's on a socket, behind TLS where a certificate is given, until the test ends.
func serves(t *testing.T, l net.Listener, asks *x509.CertPool, cert, key string) {
	t.Helper()
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: asks,
			ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}})
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- plugin.ServeListener(ctx, l, trivial()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func listens(t *testing.T) (l net.Listener, at string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return l, "unix://" + path
}

// TestConnectByCertificate: the names in the certificates are the operator's; who has none, or another's, is not talked
// to.
func TestConnectByCertificate(t *testing.T) {
	ours, others := newSigner(t), newSigner(t)
	cert, key := ours.issue("entitle.internal")
	l, at := listens(t)
	serves(t, l, ours.pool, cert, key)
	cert, key = ours.issue("gateway")
	right := Peer{CAFile: ours.ca, CertFile: cert, KeyFile: key, ServerName: "entitle.internal"}
	p := loaded(t, Spec{Name: "side", Kind: Authorizer, Connect: at, Peer: &right}, Options{}, generous)
	if _, err := check(p, "permit"); err != nil {
		t.Error(err)
	}
	cert, key = others.issue("gateway")
	for name, c := range map[string]struct {
		change func(*Peer)
		want   string
	}{
		"another name":      {func(p *Peer) { p.ServerName = "localhost" }, "not localhost"},
		"another authority": {func(p *Peer) { p.CAFile = others.ca }, "unknown authority"},
		"a stranger's own":  {func(p *Peer) { p.CertFile, p.KeyFile = cert, key }, ""},
	} {
		peer := right
		c.change(&peer)
		s := Spec{Name: "side", Kind: Authorizer, Connect: at, Peer: &peer, StartTimeout: 20 * time.Second}
		if err := startError(t, s, Options{}); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConnectAgain: a plugin that somebody else starts outlives the gateway, and serves the next one.
func TestConnectAgain(t *testing.T) {
	l, at := listens(t)
	serves(t, l, nil, "", "")
	uid := uint32(os.Getuid())
	s := Spec{Name: "side", Kind: Authorizer, Connect: at, Peer: &Peer{UID: &uid}}
	for range 3 {
		p := loaded(t, s, Options{}, generous)
		if _, err := check(p, "permit"); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
