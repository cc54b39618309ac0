package oauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/mcpd"
	"github.com/yett-dev/yett/core/mcpd/oauth"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// object is a JSON object.
type object = map[string]any

// issuer is an authorization server. Its tokens are made here by hand, so that a mistake of the library shows.
type issuer struct {
	*httptest.Server

	t    *testing.T
	rsa  *rsa.PrivateKey
	ec   *ecdsa.PrivateKey
	ed   ed25519.PrivateKey
	down atomic.Bool
	asks atomic.Int64 // for keys

	mu   sync.Mutex
	keys []object
	more string // is sent behind the key set
	says string // who the metadata are of
	to   string // keys are moved to that address
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, rsa: must(rsa.GenerateKey(rand.Reader, 2048)),
		ec: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	_, i.ed, _ = ed25519.GenerateKey(rand.Reader)
	point := must(i.ec.PublicKey.Bytes())
	i.keys = []object{rsaKey("r1", &i.rsa.PublicKey),
		{"kty": "EC", "crv": "P-256", "kid": "e1", "x": b64(point[1:33]), "y": b64(point[33:])},
		{"kty": "OKP", "crv": "Ed25519", "kid": "d1", "x": b64(i.ed.Public().(ed25519.PublicKey))},
		{"kty": "later", "kid": "x"},
		{"kty": "oct", "kid": "shared", "k": b64([]byte("secret of both"))}}
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	i.says = i.URL
	t.Cleanup(i.Close)
	return i
}

// rsaKey is a public key as a member of a key set.
func rsaKey(kid string, k *rsa.PublicKey) object {
	return object{"kty": "RSA", "kid": kid, "use": "sig", "n": b64(k.N.Bytes()), "e": "AQAB"}
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.down.Load():
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(object{"issuer": i.says, "jwks_uri": i.URL + "/keys"})
	case r.URL.Path == "/keys" && i.to != "":
		i.asks.Add(1)
		http.Redirect(w, r, i.to, http.StatusFound)
	case r.URL.Path == "/keys":
		i.asks.Add(1)
		_ = json.NewEncoder(w).Encode(object{"keys": i.keys})
		_, _ = io.WriteString(w, i.more)
	default:
		http.NotFound(w, r)
	}
}

// set changes what the issuer has.
func (i *issuer) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

// sign makes a token of any header and claims.
func (i *issuer) sign(header, claims object) string {
	return i.signRaw(header, must(json.Marshal(claims)))
}

// signRaw makes a token of claims as they are.
func (i *issuer) signRaw(header object, claims []byte) string {
	i.t.Helper()
	in := b64(must(json.Marshal(header))) + "." + b64(claims)
	sum := sha256.Sum256([]byte(in))
	var sig []byte
	switch header["alg"] {
	case "RS256":
		sig = must(rsa.SignPKCS1v15(rand.Reader, i.rsa, crypto.SHA256, sum[:]))
	case "PS256":
		sig = must(rsa.SignPSS(rand.Reader, i.rsa, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: 32}))
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, i.ec, sum[:])
		if err != nil {
			i.t.Fatal(err)
		}
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "EdDSA":
		sig = ed25519.Sign(i.ed, []byte(in))
	case "HS256":
		secret, _ := header["secret"].([]byte)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(in))
		sig = mac.Sum(nil)
	}
	return in + "." + b64(sig)
}

// rig is a gateway with two servers before one fake server, and an issuer.
type rig struct {
	*issuer

	bench *doortest.Bench
	key   *ops.NewKey
	base  string // the gateway's address
	logs  syncText

	mu  sync.Mutex
	got []http.Header // what the fake server was sent
}

// syncText is what was logged.
type syncText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncText) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.b, format+"\n", args...)
}

func (s *syncText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

const resource = "https://mcp.example.com"

func newRig(t *testing.T, change ...func(*config.MCPOAuth)) *rig {
	t.Helper()
	g := &rig{issuer: newIssuer(t), bench: doortest.New(t)}
	g.key = g.bench.Key("agents", "agent")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.got = append(g.got, r.Header.Clone())
		g.mu.Unlock()
		if r.Method == http.MethodGet { // a stream on which nothing comes
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	}))
	t.Cleanup(up.Close)
	m := must(config.Load(config.Sources{})).MCP
	m.Servers = map[string]config.MCPServer{"docs": {URL: up.URL, Timeout: config.Duration(time.Minute)},
		"mail": {URL: up.URL, Timeout: config.Duration(time.Minute)}}
	m.OAuth = config.MCPOAuth{Issuer: g.URL, Resource: resource, Scopes: []string{"mcp"}, Clients: []config.MCPOAuthClient{
		{ClientID: "coder", Key: "agents"}, {Subject: "ada", Key: "agents"}, {ClientID: "gone", Key: "nobody"}}}
	for _, f := range change {
		f(&m.OAuth)
	}
	gw, err := mcpd.New(mcpd.Settings{Config: m, Limits: g.bench.Limits, Asker: g.bench.Asker, Secret: make([]byte, 32),
		Random: func(p []byte) { _, _ = rand.Read(p) }, Now: g.bench.Now, May: g.bench.Service.May, Log: g.logs.add,
		Console: func() string { return "" }, Valid: config.FitsSchema})
	if err != nil {
		t.Fatal(err)
	}
	set := front.Settings{Name: "mcp", Keys: g.bench.Service, Limits: g.bench.Limits, HostKey: "mcp.hosts",
		NewID: func() string { return "req_test" }, Log: g.logs.add}
	routes := gw.Routes()
	if m.OAuth.Enabled() {
		tokens := oauth.New(oauth.Settings{Config: m.OAuth, Keys: g.bench.Service, Now: g.bench.Now, Log: g.logs.add})
		set.Tokens, routes = tokens, append(routes, tokens.Routes()...)
	}
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	f := front.New(set, routes)
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(f.Close(ctx), <-ended); err != nil {
			t.Error(err)
		}
		gw.Close()
	})
	g.base = "http://" + ln.Addr().String()
	return g
}

// header is that of a good token.
func header(change object) object {
	h := object{"alg": "RS256", "typ": "at+jwt", "kid": "r1"}
	maps.Copy(h, change)
	return h
}

// claims are those of a good token. A nil in change takes a claim away.
func (g *rig) claims(change object) object {
	c := object{"iss": g.URL, "aud": resource, "exp": g.bench.Now().Add(time.Hour).Unix(), "sub": "ada-1",
		"client_id": "coder", "scope": "openid mcp"}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// call runs a tool of a server with an Authorization header.
func (g *rig) call(path, authorization string) (status int, challenge, body string) {
	g.t.Helper()
	r := must(http.NewRequest(http.MethodPost, g.base+path, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{}}}`)))
	r.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("WWW-Authenticate"), string(must(io.ReadAll(resp.Body)))
}

// status is that of a call of the server "docs" with a token.
func (g *rig) status(token string) int {
	g.t.Helper()
	status, _, _ := g.call("/mcp/docs", "Bearer "+token)
	return status
}

// good is a token that is taken.
func (g *rig) good() string { return g.sign(header(nil), g.claims(nil)) }
