package obs_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/obs"
)

// pair makes a certificate for 127.0.0.1 that signs itself, and the pool that trusts it.
func pair(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// Who may read the metrics has to show it, and a token that is replaced is good no more.
func TestMetricsAreForWhoMayReadThem(t *testing.T) {
	mine, trusted := pair(t)
	token := "t0ken-" + strings.Repeat("x", 20)
	m := obs.New("v1")
	s, err := m.Listen("127.0.0.1:0", obs.Access{Token: func() string { return token }, TLS: &tls.Config{
		Certificates: []tls.Certificate{mine}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	if !strings.HasPrefix(s.URL(), "https://") {
		t.Errorf("the address is %s", s.URL())
	}
	ask := func(certs []tls.Certificate, authorization string) (int, error) {
		req, err := http.NewRequest(http.MethodGet, s.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: trusted, Certificates: certs}}}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Error("a refusal does not say what is asked for")
		}
		return resp.StatusCode, nil
	}
	shown := []tls.Certificate{mine}
	for authorization, want := range map[string]int{"Bearer " + token: 200, "bearer " + token: 200, "": 401,
		"Bearer ": 401, "Bearer": 401, "Bearer " + token + "x": 401, "Bearer " + token[1:]: 401, "Basic " + token: 401,
		token: 401} {
		if got, err := ask(shown, authorization); err != nil || got != want {
			t.Errorf("%q: %d %v, want %d", authorization, got, err, want)
		}
	}
	if got, err := ask(nil, "Bearer "+token); err == nil {
		t.Errorf("without a certificate: %d", got)
	}
	other, _ := pair(t)
	if got, err := ask([]tls.Certificate{other}, "Bearer "+token); err == nil {
		t.Errorf("with somebody else's certificate: %d", got)
	}
	old := token
	token += "-new"
	if got, err := ask(shown, "Bearer "+old); err != nil || got != 401 {
		t.Errorf("the token that was replaced: %d %v", got, err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
