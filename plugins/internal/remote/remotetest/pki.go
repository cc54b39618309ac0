// Package remotetest is what the tests of plugins that hand the log to a service have in common: certificates, the
// settings that each such plugin takes, and a log that is sent while the service is killed again and again. It judges
// through the testing.T it is handed, and is no part of any program: nothing but tests may import it.
package remotetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// PKI is one authority with one certificate for a server and a client.
type PKI struct {
	CA, Cert, Key string // PEM
	Pool          *x509.CertPool
	Server        tls.Certificate
	Name          string // of the server
}

// NewPKI makes an authority and a certificate for name.
func NewPKI(t *testing.T, name string) *PKI {
	t.Helper()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootKey, rootPEM, _ := issue(t, root, root, nil)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}
	_, cert, key := issue(t, leaf, root, rootKey)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(rootPEM))
	return &PKI{rootPEM, cert, key, pool, pair, name}
}

// issue signs a certificate with a new key; by is nil for a root, which signs itself.
func issue(t *testing.T, c, parent *x509.Certificate, by *ecdsa.PrivateKey) (k *ecdsa.PrivateKey, cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &k.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	block := func(typ string, b []byte) string { return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: b})) }
	return k, block("CERTIFICATE", der), block("PRIVATE KEY", raw)
}

// Clients are the settings tls and the secret tls_key of four clients, under what they are. Want is a part of the
// error, or "" for the one that the server takes.
func (p *PKI) Clients() map[string]Client {
	named := func(name string) map[string]any {
		return map[string]any{"ca": p.CA, "cert": p.Cert, "server_name": name}
	}
	return map[string]Client{
		"both sides known":      {named(p.Name), p.Key, ""},
		"no client certificate": {map[string]any{"ca": p.CA, "server_name": p.Name}, "", "certificate"},
		"unknown server":        {map[string]any{"server_name": p.Name}, "", "certificate"},
		"another name":          {named("other.test"), p.Key, "certificate"},
	}
}

// Client is one client of a server that wants a certificate of its authority.
type Client struct {
	TLS  map[string]any
	Key  string
	Want string
}

// Secrets are those of the plugin.
func (c *Client) Secrets() map[string]string {
	if c.Key == "" {
		return map[string]string{}
	}
	return map[string]string{"tls_key": c.Key}
}

// Mutual is the configuration of a server that wants a certificate of its authority.
func (p *PKI) Mutual() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.Server}, ClientCAs: p.Pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
}
