package oauth

import (
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/yett-dev/yett/config"
)

// The second of two defences is not seen from outside while the first one holds.
func TestDefencesInDepth(t *testing.T) {
	for _, a := range algorithms {
		if strings.HasPrefix(string(a), "HS") || a == "none" {
			t.Errorf("%s needs no private key", a)
		}
	}
	if usable(&jose.JSONWebKey{Key: []byte("a secret of two"), KeyID: "k"}) {
		t.Error("a shared secret is taken for a public key")
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if usable(&jose.JSONWebKey{Key: private, KeyID: "k"}) {
		t.Error("a private key that everybody can read is taken")
	}
	k := newKeySet(&config.MCPOAuth{}, time.Now)
	if tr, ok := k.client.Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Error("the issuer is asked by way of a proxy of the environment")
	}
}

func TestSecureAddresses(t *testing.T) {
	for _, c := range []struct {
		url, issuer string
		want        bool
	}{{"https://idp.example/keys", "https", true}, {"https://idp.example/keys", "http", true},
		{"http://127.0.0.1:1/keys", "http", true}, {"http://localhost/keys", "http", true},
		{"http://127.0.0.1:1/keys", "https", false}, {"http://idp.example/keys", "http", false},
		{"file:///etc/passwd", "http", false}, {"https://a@idp.example/keys", "https", false}, {"", "https", false}} {
		if got := secure(c.url, c.issuer); got != c.want {
			t.Errorf("%q from %s: %v", c.url, c.issuer, got)
		}
	}
}
