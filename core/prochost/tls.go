package prochost

import (
	"bytes"
	"context"
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
	"math/big"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/yett-dev/yett/core/regular"
)

// certLife is how long a certificate holds. A process may run for years; the key never leaves this process's memory.
const certLife = 30 * 365 * 24 * time.Hour

// maxPEM bounds a file of certificates or a key.
const maxPEM = 1 << 20

// ClientKey is the key that one plugin process knows the gateway by. Only its holder can talk to the plugin.
type ClientKey struct {
	PEM  []byte // the certificate, which the plugin gets
	cert tls.Certificate
}

// NewClientKey makes a key and its certificate. Both stay in this process's memory.
func NewClientKey() (*ClientKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost", Organization: []string{"Yett"}},
		DNSNames: []string{"localhost"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &ClientKey{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// Pinned trusts exactly the certificate that the plugin named in its handshake line: unpadded base64 of the DER.
func (k *ClientKey) Pinned(encoded string) (*tls.Config, error) {
	der, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("its certificate: %w", err)
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("its certificate: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{k.cert}, MinVersion: tls.VersionTLS13, ServerName: "localhost",
		NextProtos:         []string{"h2"},
		InsecureSkipVerify: true, // no chain and no name to verify: one certificate is right
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 || !bytes.Equal(c.PeerCertificates[0].Raw, der) {
				return errors.New("the certificate is not the one of the handshake")
			}
			return nil
		},
	}, nil
}

// config reads the files of a Peer. nil: no TLS.
func (p *Peer) config() (*tls.Config, error) {
	if p.CAFile == "" {
		return nil, nil
	}
	ca, err := readPEM(p.CAFile)
	if err != nil {
		return nil, refusef("peer.ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, refusef("peer.ca: %s holds no certificate", p.CAFile)
	}
	cert, err := readPEM(p.CertFile)
	if err != nil {
		return nil, refusef("peer.cert: %w", err)
	}
	key, err := readPEM(p.KeyFile)
	if err != nil {
		return nil, refusef("peer.key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, refusef("peer: %w", err)
	}
	name := p.ServerName
	if name == "" {
		name = "localhost"
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS13,
		ServerName: name, NextProtos: []string{"h2"}}, nil
}

func readPEM(path string) ([]byte, error) {
	return regular.Read(path, maxPEM)
}

// noted remembers why a TLS handshake failed, which gRPC keeps to itself.
type noted struct {
	credentials.TransportCredentials

	mu  sync.Mutex
	err error
}

func (n *noted) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo,
	error) {
	conn, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, c)
	if err != nil {
		n.mu.Lock()
		n.err = err
		n.mu.Unlock()
	}
	return conn, info, err
}

// Clone keeps what is shared: there is one connection.
func (n *noted) Clone() credentials.TransportCredentials { return n }

func (n *noted) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
