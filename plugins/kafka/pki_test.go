package main

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

// pki is one authority with a server's and a client's certificate.
type pki struct {
	ca, cert, key string // PEM
	pool          *x509.CertPool
	server        tls.Certificate
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootKey, rootPEM, _ := issue(t, root, root, nil)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"kafka.test"}, NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	_, cert, key := issue(t, leaf, root, rootKey)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(rootPEM))
	return &pki{rootPEM, cert, key, pool, pair}
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
