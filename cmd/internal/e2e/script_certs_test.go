package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptCerts makes a CA, another one, and a certificate of the first for 127.0.0.1.
func scriptCerts(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "certs DIR")
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	write := func(name, kind string, der []byte) {
		ts.Check(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	issue := func(serial int64, ca bool, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate,
		*ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		cert := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
			NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: ca, BasicConstraintsValid: true,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		if ca {
			cert.KeyUsage, cert.Subject.CommonName = x509.KeyUsageCertSign, "test CA"
		} else {
			cert.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		}
		if parent == nil {
			parent, by = cert, key
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
		ts.Check(err)
		made, err := x509.ParseCertificate(der)
		ts.Check(err)
		return made, key
	}
	keyFile := func(name string, key *ecdsa.PrivateKey) {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		ts.Check(err)
		write(name, "PRIVATE KEY", der)
	}
	ca, caKey := issue(1, true, nil, nil)
	other, otherKey := issue(2, true, nil, nil)
	server, serverKey := issue(3, false, ca, caKey)
	write("ca.pem", "CERTIFICATE", ca.Raw)
	write("other-ca.pem", "CERTIFICATE", other.Raw)
	write("server.pem", "CERTIFICATE", server.Raw)
	keyFile("server.key", serverKey)
	keyFile("other.key", otherKey)
}
