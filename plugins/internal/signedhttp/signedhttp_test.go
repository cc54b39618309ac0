package signedhttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func secretText(fill byte) string {
	return "wh" + "sec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), 32)))
}

func secret(t testing.TB, fill byte) Secret {
	t.Helper()
	s, err := ParseSecret(secretText(fill) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What we sign the published verifier takes, with each of two secrets, and what it signs we take.
func TestAgainstPublishedVerifier(t *testing.T) {
	now, body := time.Now(), []byte(`{"type":"x","data":{"n":1.50}}`)
	h := http.Header{}
	Sign(h, "sto_A-1", now, body, secret(t, 'a'), secret(t, 'b'))
	for _, fill := range []byte{'a', 'b', 'c'} {
		v, err := standardwebhooks.NewWebhook(secretText(fill))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(body, h); (err == nil) != (fill != 'c') {
			t.Errorf("secret %c: %v", fill, err)
		}
		if err := v.Verify(append([]byte(" "), body...), h); err == nil {
			t.Error("another body verifies")
		}
	}
	v, err := standardwebhooks.NewWebhook(secretText('a'))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := v.Sign("chk_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	theirs := http.Header{HeaderID: {"chk_1"}, HeaderTimestamp: {fmt.Sprint(now.Unix())},
		HeaderSignature: {"v1a,xxx " + sig}}
	if err := Verify(theirs, "chk_1", now, body, secret(t, 'b'), secret(t, 'a')); err != nil {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	now, body, key := time.Unix(1_800_000_000, 0), []byte("{}"), secret(t, 'a')
	signed := func(change func(h http.Header)) http.Header {
		h := http.Header{}
		Sign(h, "id", now, body, key)
		change(h)
		return h
	}
	for _, tc := range []struct {
		name string
		h    http.Header
		now  time.Time
		err  string
	}{
		{"right", signed(func(http.Header) {}), now, ""},
		{"another id", signed(func(h http.Header) { h.Set(HeaderID, "id2") }), now, "webhook-id"},
		{"no id", signed(func(h http.Header) { h.Del(HeaderID) }), now, "webhook-id"},
		{"no time", signed(func(h http.Header) { h.Del(HeaderTimestamp) }), now, "webhook-timestamp"},
		{"an odd time", signed(func(h http.Header) { h.Set(HeaderTimestamp, "+1800000000") }), now, "webhook-timestamp"},
		{"another time", signed(func(h http.Header) { h.Set(HeaderTimestamp, "1800000001") }), now, "no signature"},
		{"replayed late", signed(func(http.Header) {}), now.Add(Window + time.Second), "from the clock"},
		{"from the future", signed(func(http.Header) {}), now.Add(-Window - time.Second), "from the clock"},
		{"no signature", signed(func(h http.Header) { h.Del(HeaderSignature) }), now, "no signature"},
		{"an empty one", signed(func(h http.Header) { h.Set(HeaderSignature, "v1,") }), now, "no signature"},
		{"another version", signed(func(h http.Header) { h.Set(HeaderSignature, strings.Replace(h.Get(HeaderSignature), "v1,", "v2,", 1)) }), now, "no signature"},
		{"too many", signed(func(h http.Header) { h.Set(HeaderSignature, strings.Repeat("v1,AA== ", 9)+h.Get(HeaderSignature)) }), now, "more than 8"},
	} {
		err := Verify(tc.h, "id", tc.now, body, key)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.err)
		}
	}
	if Verify(signed(func(http.Header) {}), "id", now, body) == nil ||
		Verify(signed(func(http.Header) {}), "id", now, body, Secret{}) == nil {
		t.Error("without a secret everything verifies")
	}
}

func TestSecrets(t *testing.T) {
	for _, text := range []string{"", "whsec_", secretText('a')[6:], "whsec_!!",
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)),
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := ParseSecret(text); err == nil {
			t.Errorf("%q was taken", text)
		} else if len(text) > 8 && strings.Contains(err.Error(), text[6:]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	s := secret(t, 'a')
	if shown := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); strings.Contains(shown, "aaa") || strings.Contains(shown, "97") {
		t.Errorf("a secret prints as %s", shown)
	}
}

func TestEndpoint(t *testing.T) {
	for _, tc := range []struct {
		e   Endpoint
		err string
	}{
		{Endpoint{URL: "https://siem.example.com/in"}, ""},
		{Endpoint{URL: "http://127.0.0.1:80/"}, ""},
		{Endpoint{URL: "http://[::1]/"}, ""},
		{Endpoint{URL: "http://localhost/"}, ""},
		{Endpoint{URL: "http://10.0.0.1/", Insecure: true}, ""},
		{Endpoint{URL: "http://10.0.0.1/"}, "must be https"},
		{Endpoint{URL: "http://localhost.example.com/"}, "must be https"},
		{Endpoint{URL: ""}, "is required"},
		{Endpoint{URL: "ftp://x/"}, "https://"},
		{Endpoint{URL: "https:opaque"}, "must be a URL"},
		{Endpoint{URL: "https://u:p@x/"}, "no user or password"},
		{Endpoint{URL: "https://x/#a"}, "fragment"},
		{Endpoint{URL: "https://x/", Proxy: "socks5://x"}, "/proxy"},
		{Endpoint{URL: "https://x/", TLS: TLS{CAFile: "ca.pem"}}, "/tls/ca_file"},
		{Endpoint{URL: "https://x/", TLS: TLS{CertFile: "/c.pem"}}, "come together"},
	} {
		got := fmt.Sprint(tc.e.Check())
		if tc.err == "" && got != "[]" || !strings.Contains(got, tc.err) {
			t.Errorf("%+v: %s, want %q", tc.e, got, tc.err)
		}
	}
}

func TestClass(t *testing.T) {
	for status, want := range map[int]Class{200: Taken, 204: Taken, 301: Permanent, 307: Permanent, 400: Permanent,
		401: Permanent, 404: Permanent, 408: Again, 409: Again, 410: Permanent, 413: Permanent, 425: Again, 429: Again,
		500: Again, 503: Again, 100: Permanent} {
		if got := (&Answer{Status: status}).Class(); got != want {
			t.Errorf("%d is %v, want %v", status, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "999999": time.Hour,
		"4294967296000": 0, now.Add(9 * time.Second).UTC().Format(http.TimeFormat): 9 * time.Second,
		now.Add(-time.Hour).UTC().Format(http.TimeFormat): 0} {
		if got := (&Answer{Header: http.Header{"Retry-After": {text}}}).RetryAfter(now); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

// Deliver waits longer and longer, as long as the service asks, and never beyond its time.
func TestDeliver(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var waits []time.Duration
	clock := Clock{Now: func() time.Time { return now }, Wait: func(_ context.Context, d time.Duration) error {
		waits, now = append(waits, d), now.Add(d)
		return nil
	}}
	tries := 0
	err := Deliver(context.Background(), clock, now.Add(20*time.Second),
		func(context.Context) (time.Duration, bool, error) {
			if tries++; tries == 2 {
				return 9 * time.Second, true, errors.New("busy")
			}
			return 0, true, errors.New("down")
		})
	var unready *Unready
	if !errors.As(err, &unready) || unready.Tries != tries || tries < 4 || waits[1] != 9*time.Second ||
		waits[0] > firstPause || now.Sub(time.Unix(1_800_000_000, 0)) >= 20*time.Second {
		t.Errorf("%v after the waits %v", err, waits)
	}
	tries, waits = 0, nil
	err = Deliver(context.Background(), clock, now.Add(time.Second), func(context.Context) (time.Duration, bool, error) {
		return time.Minute, true, errors.New("busy")
	})
	if !errors.As(err, &unready) || !unready.Until.Equal(now.Add(time.Minute)) || len(waits) != 0 {
		t.Errorf("a pause beyond the time: %v, waits %v", err, waits)
	}
	for n := 1; n < 100; n++ {
		if p := Pause(n); p <= 0 || p > longestPause {
			t.Fatalf("pause %d is %v", n, p)
		}
	}
}

// Redirects are not followed, the environment's proxy is not used, long answers are cut, and errors show no path.
func TestPost(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	t.Setenv("HTTP_PROXY", elsewhere.URL)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
		}
	}))
	defer srv.Close()
	post := func(path string) (*Answer, error) {
		c, err := Endpoint{URL: srv.URL + path}.New(1, 10)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Post(context.Background(), time.Now(), Message{ID: "i", Body: []byte("{}")})
	}
	if a, err := post("/redirect"); err != nil || a.Status != 307 || a.Class() != Permanent {
		t.Errorf("redirect: %+v, %v", a, err)
	}
	if a, err := post("/long"); err != nil || !a.Cut || len(a.Body) != 10 {
		t.Errorf("long: %+v, %v", a, err)
	}
	if _, err := post("/cut"); err == nil {
		t.Error("half an answer was taken")
	}
	srv.Close()
	if _, err := post("/secret-path?token=abc"); err == nil || strings.Contains(err.Error(), "secret-path") ||
		strings.Contains(err.Error(), "abc") {
		t.Errorf("the error shows the path: %v", err)
	}
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An authority of the operator's own is trusted, others are not, and a client certificate is shown.
func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	defer srv.Close()
	cert := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := writePEM(t, "cert.pem", "CERTIFICATE", cert.Certificate[0]),
		writePEM(t, "key.pem", "PRIVATE"+" KEY", key)
	for _, tc := range []struct {
		name   string
		tls    TLS
		status int
	}{
		{"the system's roots", TLS{}, 0},
		{"our authority", TLS{CAFile: certFile}, 401},
		{"and a client certificate", TLS{CAFile: certFile, CertFile: certFile, KeyFile: keyFile}, 200},
	} {
		c, err := Endpoint{URL: srv.URL, TLS: tc.tls}.New(1, 10)
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Post(context.Background(), time.Now(), Message{ID: "i"})
		c.Close()
		if (err != nil) != (tc.status == 0) || err == nil && a.Status != tc.status {
			t.Errorf("%s: %+v, %v", tc.name, a, err)
		}
	}
	for _, bad := range []TLS{{CAFile: "/nowhere.pem"}, {CAFile: keyFile}, {CertFile: certFile, KeyFile: certFile}} {
		if _, err := (Endpoint{URL: srv.URL, TLS: bad}).New(1, 10); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
