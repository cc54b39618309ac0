package core

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A certificate is good for as long as the shortest-lived of its chain is.
func TestCertificateExpiry(t *testing.T) {
	key := newPrivateKey(t)
	until := func(end time.Time) []byte { return certificate(t, key, end) }
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

func newPrivateKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certificate makes one for 127.0.0.1 that signs itself.
func certificate(t *testing.T, key *ecdsa.PrivateKey, end time.Time) []byte {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end, IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// The metrics are served as the configuration says: over TLS, to who has the token.
func TestMetricsOverTLS(t *testing.T) {
	dir, key, end := t.TempDir(), newPrivateKey(t), time.Now().Add(time.Hour).Truncate(time.Second)
	der := certificate(t, key, end)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.Repeat("metrics-", 4)
	for name, data := range map[string][]byte{"token": []byte(token + "\n"),
		"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, _ := benchGatewayOf(t, fmt.Sprintf("version: 1\nserver: {metrics: \"127.0.0.1:0\", metrics_tls: {cert: %q, key: "+
		"%q}, metrics_token: {file: %q}}\nconsole: {enabled: false}\nsocket: {enabled: false}\nchains: {authorize: {steps: "+
		"[{name: house, rules: [rules.yaml]}]}}\n", filepath.Join(dir, "cert"), filepath.Join(dir, "key"),
		filepath.Join(dir, "token")))
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: pool}}}
	for header, want := range map[string]int{"Bearer " + token: 200, "": 401} {
		req, err := http.NewRequest(http.MethodGet, g.MetricsURL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want {
			t.Errorf("%q: %d %v, want %d", header, resp.StatusCode, err, want)
		}
		expires := fmt.Sprintf("\nyett_certificate_expiry_timestamp_seconds{listener=\"metrics\"} %s\n",
			strconv.FormatFloat(float64(end.Unix()), 'g', -1, 64))
		if strings.Contains(string(text), expires) != (want == 200) {
			t.Errorf("%q: the certificate's end is missing or shown to anybody", header)
		}
	}
}

// A reload reads the token of the metrics again.
func TestReloadOfTheMetricsToken(t *testing.T) {
	old := strings.Repeat("old-", 8)
	w := newWorld(t, func(w *world) {
		w.put("token", old)
		w.write("", "", "")
		text, err := os.ReadFile(filepath.Join(w.dir, "yett.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		w.put("yett.yaml", strings.Replace(string(text), "drain:", "metrics_token: {file: token}, drain:", 1))
	})
	if got := w.g.metricsToken(); got != old {
		t.Fatalf("the token is %q", got)
	}
	next := strings.Repeat("new-", 8)
	w.put("token", next)
	w.reloads()
	if got := w.g.metricsToken(); got != next {
		t.Errorf("after a reload the token is %q", got)
	}
}
