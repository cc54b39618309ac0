package core

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
	"time"
)

// A certificate is good for as long as the shortest-lived of its chain is.
func TestCertificateExpiry(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	until := func(end time.Time) []byte {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	soon, later := time.Unix(1_900_000_000, 0), time.Unix(2_000_000_000, 0)
	g := &Gateway{expiries: map[string]time.Time{}}
	for listener, chain := range map[string][][]byte{"http": {until(soon), until(later)}, "console": {until(later),
		until(soon)}} {
		g.certified(listener, &tls.Config{Certificates: []tls.Certificate{{Certificate: chain}}})
		if got := g.expiries[listener]; !got.Equal(soon) {
			t.Errorf("%s expires at %v", listener, got)
		}
	}
	if g.certified("metrics", nil); len(g.expiries) != 2 {
		t.Errorf("what has no certificate expires: %v", g.expiries)
	}
}
