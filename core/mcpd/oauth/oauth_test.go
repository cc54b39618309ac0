package oauth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk/wire"
)

// The challenges of refusals for the server "docs".
const (
	whereFrom = `Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp/docs"`
	invalid   = whereFrom + `, error="invalid_token", scope="mcp"`
	tooLittle = whereFrom + `, error="insufficient_scope", scope="mcp"`
)

func TestTokens(t *testing.T) {
	g := newRig(t)
	now := g.bench.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	der := must(x509.MarshalPKIXPublicKey(&g.rsa.PublicKey))
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	own := rsaKey("own", &must(rsa.GenerateKey(rand.Reader, 2048)).PublicKey)
	for _, c := range []struct {
		name           string
		header, claims object
		want           int
	}{
		{"good", nil, nil, 200},
		{"audience is the server", nil, object{"aud": resource + "/mcp/docs"}, 200},
		{"one of several audiences", nil, object{"aud": []string{"other", resource}}, 200},
		{"PS256", object{"alg": "PS256"}, nil, 200},
		{"ES256", object{"alg": "ES256", "kid": "e1"}, nil, 200},
		{"EdDSA", object{"alg": "EdDSA", "kid": "d1"}, nil, 200},
		{"no kid", object{"kid": ""}, nil, 200},
		{"type JWT", object{"typ": "JWT"}, nil, 200},
		{"expired within the leeway", nil, object{"exp": at(-20 * time.Second)}, 200},
		{"by its subject", nil, object{"client_id": "unknown", "sub": "ada"}, 200},
		{"by azp", nil, object{"client_id": nil, "azp": "coder"}, 200},
		{"scopes as a list", nil, object{"scope": nil, "scp": []string{"mcp"}}, 200},

		{"expired", nil, object{"exp": at(-61 * time.Second)}, 401},
		{"no expiry", nil, object{"exp": nil}, 401},
		{"expiry is text", nil, object{"exp": "9999999999"}, 401},
		{"not valid yet", nil, object{"nbf": at(61 * time.Second)}, 401},
		{"begin is text", nil, object{"nbf": "1"}, 401},
		{"wrong issuer", nil, object{"iss": "https://evil.example"}, 401},
		{"no issuer", nil, object{"iss": nil}, 401},
		{"wrong audience", nil, object{"aud": "https://other.example"}, 401},
		{"no audience", nil, object{"aud": nil}, 401},
		{"audience goes on", nil, object{"aud": resource + "/mcp/docs/x"}, 401},
		{"audience with a slash", nil, object{"aud": resource + "/"}, 401},
		{"another server's audience", nil, object{"aud": resource + "/mcp/mail"}, 401},
		{"own server's audience", nil, object{"aud": resource + "/mcp"}, 401},
		{"alg none", object{"alg": "none"}, nil, 401},
		{"HS256 with the public key, DER", object{"alg": "HS256", "secret": der}, nil, 401},
		{"HS256 with the public key, PEM", object{"alg": "HS256", "secret": asPEM}, nil, 401},
		{"HS256 with the shared secret", object{"alg": "HS256", "kid": "shared", "secret": []byte("secret of both")}, nil, 401},
		{"unknown kid", object{"kid": "r9"}, nil, 401},
		{"another key's kid", object{"kid": "e1"}, nil, 401},
		{"key in the header", object{"kid": "own", "jwk": own}, nil, 401},
		{"ID token by its type", object{"typ": "secevent+jwt"}, nil, 401},
		{"no type", object{"typ": ""}, nil, 401},
		{"critical header", object{"crit": []string{"b64"}, "b64": true}, nil, 401},
		{"bound to a key", nil, object{"cnf": object{"jkt": "x"}}, 401},
		{"unmapped client", nil, object{"client_id": "other"}, 401},
		{"client without a key", nil, object{"client_id": "gone"}, 401},
		{"client that is no text", nil, object{"client_id": []string{"coder"}}, 401},

		{"no scope", nil, object{"scope": nil}, 403},
		{"other scope", nil, object{"scope": "mcp:read openid"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := g.sign(header(c.header), g.claims(c.claims))
			status, challenge, body := g.call("/mcp/docs", "Bearer "+token)
			want := map[int]string{401: invalid, 403: tooLittle}[c.want]
			if status != c.want || challenge != want {
				t.Errorf("%d, %q, want %d, %q: %s\n%s", status, challenge, c.want, want, body, g.logs.String())
			}
		})
	}
	for name, token := range map[string]string{"empty": "", "no JWT": "abc", "no signature": cut(g.good()) + ".",
		"changed":                          flip(g.good()),
		"long":                             g.sign(header(nil), g.claims(object{"x": strings.Repeat("x", 17<<10)})),
		"a key of ours without its prefix": strings.TrimPrefix(g.key.Value, "yett_")} {
		if status, challenge, _ := g.call("/mcp/docs", "Bearer "+token); status != 401 || challenge != invalid {
			t.Errorf("%s: %d, %q", name, status, challenge)
		}
	}
}

// cut is a token without its signature.
func cut(token string) string { return token[:strings.LastIndexByte(token, '.')] }

// flip changes one character of a token's claims.
func flip(token string) string {
	b, at := []byte(token), strings.IndexByte(token, '.')+20
	b[at] ^= 1
	return string(b)
}

// A name that is there twice could be read in two ways.
func TestClaimTwice(t *testing.T) {
	g := newRig(t)
	claims := string(must(json.Marshal(g.claims(object{"client_id": "other"}))))
	raw := []byte(strings.TrimSuffix(claims, "}") + `,"client_id":"coder"}`)
	if status := g.status(g.signRaw(header(nil), raw)); status != 401 {
		t.Errorf("status %d", status)
	}
}

func TestKeysStillWork(t *testing.T) {
	g := newRig(t)
	if status, _, body := g.call("/mcp/docs", "Bearer "+g.key.Value); status != 200 {
		t.Errorf("%d: %s", status, body)
	}
	if status, challenge, _ := g.call("/mcp/docs", ""); status != 401 || challenge != whereFrom+`, scope="mcp"` {
		t.Errorf("nothing sent: %d, %q", status, challenge)
	}
	auditor := g.bench.Key("auditor", "auditor")
	if status, challenge, _ := g.call("/mcp/docs", "Bearer "+auditor.Value); status != 403 || challenge != "" {
		t.Errorf("a key without a scope: %d, %q: another token would not help", status, challenge)
	}
}

// What holds of the key behind a token holds of the token.
func TestKeyBehindTheToken(t *testing.T) {
	for name, end := range map[string]func(g *rig) error{
		"revoked": func(g *rig) error { g.bench.Revoke(g.key); return nil },
		"killed": func(g *rig) error {
			_, err := g.bench.Service.Kill(t.Context(), doortest.Operator, &wire.KillRequest{Scope: "key", Target: g.key.Key.ID})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			if status := g.status(g.good()); status != 200 {
				t.Fatalf("status %d before", status)
			}
			if err := end(g); err != nil {
				t.Fatal(err)
			}
			if status, challenge, _ := g.call("/mcp/docs", "Bearer "+g.good()); status != 401 || challenge != invalid {
				t.Errorf("%d, %q", status, challenge)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	g := newRig(t)
	if status := g.status(g.good()); status != 200 {
		t.Fatalf("status %d", status)
	}
	old := g.good()
	g.set(func() {
		g.rsa = must(rsa.GenerateKey(rand.Reader, 2048))
		g.keys = []object{rsaKey("r2", &g.rsa.PublicKey)}
	})
	g.bench.Advance(11 * time.Second)
	if status := g.status(g.sign(header(object{"kid": "r2"}), g.claims(nil))); status != 200 {
		t.Errorf("the new key: status %d: %s", status, g.logs.String())
	}
	if status := g.status(old); status != 401 {
		t.Errorf("the key that the issuer took away: status %d", status)
	}
}

// Strangers make the gateway ask the issuer once in some seconds, however many tokens they make up.
func TestStrangersDoNotAskTheIssuer(t *testing.T) {
	g := newRig(t)
	g.status(g.good())
	g.bench.Advance(11 * time.Second)
	before := g.asks.Load()
	for range 50 {
		if status := g.status(g.sign(header(object{"kid": rand.Text()}), g.claims(nil))); status != 401 {
			t.Fatalf("status %d", status)
		}
	}
	if n := g.asks.Load() - before; n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

func TestIssuerFails(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer other.Close()
	for name, fail := range map[string]func(g *rig){
		"down":       func(g *rig) { g.down.Store(true) },
		"large":      func(g *rig) { g.set(func() { g.more = strings.Repeat(" ", 300<<10) }) },
		"many keys":  func(g *rig) { g.set(func() { g.keys = append(g.keys, make([]object, 100)...) }) },
		"another":    func(g *rig) { g.set(func() { g.says = "https://other.example" }) },
		"redirected": func(g *rig) { g.set(func() { g.to = other.URL }) },
		"small key": func(g *rig) {
			g.set(func() { g.rsa = weakKey(); g.keys = []object{rsaKey("r1", &g.rsa.PublicKey)} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			fail(g)
			if status, challenge, _ := g.call("/mcp/docs", "Bearer "+g.good()); status != 401 || challenge != invalid {
				t.Errorf("%d, %q", status, challenge)
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		g := newRig(t)
		g.status(g.good())
		g.down.Store(true)
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{15 * time.Minute, 200}, {46 * time.Minute, 401}} {
			g.bench.Advance(c.after)
			if status := g.status(g.good()); status != c.want {
				t.Errorf("%v later: status %d, want %d", c.after, status, c.want)
			}
		}
	})
}

// weakKey is an RSA key of 1024 bits.
func weakKey() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 1024)) }

func TestTokenStaysHere(t *testing.T) {
	g := newRig(t)
	token := g.good()
	if status := g.status(token); status != 200 {
		t.Fatalf("status %d", status)
	}
	bad := g.sign(header(nil), g.claims(object{"aud": "https://other.example"}))
	g.status(bad)
	if len(g.got) != 1 {
		t.Fatalf("the server got %d requests", len(g.got))
	}
	for name, values := range g.got[0] {
		if strings.Contains(strings.Join(values, " "), token[:20]) || name == "Authorization" {
			t.Errorf("the server was sent %s", name)
		}
	}
	kept := g.logs.String()
	if err := g.bench.Store.Records(1, func(_ uint64, rec []byte) error {
		kept += string(rec) + "\n"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, part := range append(strings.Split(token, "."), strings.Split(bad, ".")...) {
		if strings.Contains(kept, part) {
			t.Errorf("a part of a token is in logs or records")
		}
	}
	for _, want := range []string{`"principal_method":"oauth"`, `"who_note":"ada-1"`, "audience (aud)",
		`"type":"auth_failed"`} {
		if !strings.Contains(kept, want) {
			t.Errorf("%s is in neither logs nor records:\n%s", want, kept)
		}
	}
	if strings.Contains(kept, `"principal_method":"api_key"`) {
		t.Error("a record says that an API key was used")
	}
}

func TestTokenInTheURL(t *testing.T) {
	g := newRig(t)
	for name, authorization := range map[string]string{"alone": "", "too": "Bearer " + g.good()} {
		status, challenge, _ := g.call("/mcp/docs?access_token="+g.good(), authorization)
		if status != 401 || !strings.HasPrefix(challenge, whereFrom) {
			t.Errorf("%s: %d, %q", name, status, challenge)
		}
	}
}

func TestMetadata(t *testing.T) {
	g := newRig(t)
	get := func(base, path string) (int, string) {
		resp := must(http.Get(base + "/.well-known/oauth-protected-resource" + path))
		defer resp.Body.Close()
		return resp.StatusCode, string(must(io.ReadAll(resp.Body)))
	}
	for path, want := range map[string]int{"": 200, "/mcp": 200, "/mcp/docs": 200, "/mcp/unknown": 200, "/mcp/UP": 404,
		"/mcp/docs/x": 404, "/x": 404} {
		status, body := get(g.base, path)
		if status != want {
			t.Errorf("%q: status %d, want %d", path, status, want)
		}
		text := `{"resource":"` + resource + path + `","authorization_servers":["` + g.URL + `"],` +
			`"scopes_supported":["mcp"],"bearer_methods_supported":["header"],"resource_name":"Yett MCP gateway"}`
		if want == 200 && body != text {
			t.Errorf("%q: %s, want %s", path, body, text)
		}
	}
	off := newRig(t, func(c *config.MCPOAuth) { *c = config.MCPOAuth{} })
	for _, path := range []string{"", "/mcp/docs"} {
		if status, _ := get(off.base, path); status != 404 {
			t.Errorf("off, %q: status %d", path, status)
		}
	}
	if status, challenge, _ := off.call("/mcp/docs", "Bearer "+off.good()); status != 401 || challenge != "Bearer" {
		t.Errorf("off: %d, %q", status, challenge)
	}
}

func TestAddressOfKeys(t *testing.T) {
	g := newRig(t, func(c *config.MCPOAuth) { c.JWKSURL = c.Issuer + "/keys" })
	if status := g.status(g.good()); status != 200 {
		t.Errorf("status %d: %s", status, g.logs.String())
	}
}

// A subject is kept only where it is short and plain.
func TestSubjectInRecords(t *testing.T) {
	g := newRig(t)
	for _, subject := range []string{strings.Repeat("x", 129), "a b", g.key.Value} {
		g.status(g.sign(header(nil), g.claims(object{"sub": subject})))
	}
	if err := g.bench.Store.Records(1, func(_ uint64, rec []byte) error {
		if strings.Contains(string(rec), "who_note") {
			t.Errorf("%s", rec)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
