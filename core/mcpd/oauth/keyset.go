package oauth

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/yett-dev/yett/config"
)

// How the issuer is asked.
const (
	askEvery   = 10 * time.Second // at most, however many tokens name keys that we do not have
	askWithin  = 5 * time.Second  // metadata and keys together
	renewAfter = 10 * time.Minute // a key that the issuer takes away is unknown here then
	goodFor    = time.Hour        // while the issuer cannot be asked
	answerMost = 256 << 10
	keysMost   = 100
)

// The size of RSA keys: smaller ones are weak, and larger ones cost more than a stranger's token may.
const (
	rsaLeast = 2048
	rsaMost  = 8192
)

// keySet keeps the issuer's keys. Safe for concurrent use. No request waits for the issuer if the key is there.
type keySet struct {
	set    *config.MCPOAuth
	now    func() time.Time
	client *http.Client

	have   atomic.Pointer[fetched]
	asking sync.Mutex // held while the issuer is asked
	asked  time.Time  // under asking
	failed error      // under asking
}

// fetched are keys, and when they came.
type fetched struct {
	keys []jose.JSONWebKey
	at   time.Time
}

func newKeySet(set *config.MCPOAuth, now func() time.Time) *keySet {
	t := &http.Transport{Proxy: nil, DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 32 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: askWithin,
		DialContext: (&net.Dialer{Timeout: askWithin}).DialContext}
	return &keySet{set: set, now: now, client: &http.Client{Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // who answers for the issuer is written in the configuration
		}}}
}

var errSignature = errors.New("its signature is by none of the issuer's keys")

// check gives the payload of a token that one of the issuer's keys has signed.
func (k *keySet) check(sig *jose.JSONWebSignature, kid, alg string) ([]byte, error) {
	have := k.current()
	if have == nil || len(have.fitting(kid, alg)) == 0 {
		var err error
		if have, err = k.ask(have); err != nil {
			return nil, err
		}
	}
	for _, key := range have.fitting(kid, alg) {
		if payload, err := sig.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// fitting are the keys that may have signed a token. A token that names no key may be by any.
func (f *fetched) fitting(kid, alg string) (out []jose.JSONWebKey) {
	for _, key := range f.keys {
		if (kid == "" || key.KeyID == kid) && (key.Algorithm == "" || key.Algorithm == alg) {
			out = append(out, key)
		}
	}
	return out
}

// current are the keys that may still be used, nil if there are none. Keys of some age are renewed by one request,
// while the others go on with the old ones.
func (k *keySet) current() *fetched {
	have := k.have.Load()
	if have == nil {
		return nil
	}
	if age := k.now().Sub(have.at); (age >= renewAfter || age < 0) && k.asking.TryLock() {
		k.askLocked()
		k.asking.Unlock()
		have = k.have.Load()
	}
	if !k.good(have) {
		return nil
	}
	return have
}

// good says whether keys may be used: a clock that was set back makes no old ones young.
func (k *keySet) good(have *fetched) bool {
	if have == nil {
		return false
	}
	age := k.now().Sub(have.at)
	return age >= 0 && age < goodFor
}

// ask asks the issuer for newer keys than those, unless it was asked a moment ago.
func (k *keySet) ask(old *fetched) (*fetched, error) {
	k.asking.Lock()
	defer k.asking.Unlock()
	if have := k.have.Load(); have == old || !k.good(have) {
		k.askLocked()
	}
	if have := k.have.Load(); k.good(have) {
		return have, nil
	}
	return nil, fmt.Errorf("the issuer's keys are not known: %w", k.failed)
}

// askLocked asks the issuer. The caller holds asking.
func (k *keySet) askLocked() {
	now := k.now()
	if since := now.Sub(k.asked); !k.asked.IsZero() && since >= 0 && since < askEvery {
		return
	}
	k.asked = now
	// it is not the request's context: whoever sent it could break off what others wait for
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	keys, err := k.fetch(ctx)
	if k.failed = err; err == nil {
		k.have.Store(&fetched{keys: keys, at: now})
	}
}

// fetch gets the keys of the issuer.
func (k *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	from := k.set.JWKSURL
	if from == "" {
		var err error
		if from, err = k.discover(ctx); err != nil {
			return nil, err
		}
	}
	body, err := k.get(ctx, from)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("the key set is no JSON")
	}
	if len(set.Keys) > keysMost {
		return nil, fmt.Errorf("the key set has %d keys; at most %d are read", len(set.Keys), keysMost)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && usable(&key) { // others are for other uses, or of kinds to come (RFC 7517, 5)
			out = append(out, key)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the key set has no public key for signatures")
	}
	return out, nil
}

// usable says whether tokens may be signed with a key.
func usable(key *jose.JSONWebKey) bool {
	if !key.IsPublic() || !key.Valid() || key.Use != "" && key.Use != "sig" {
		return false
	}
	if k, ok := key.Key.(*rsa.PublicKey); ok {
		return k.N.BitLen() >= rsaLeast && k.N.BitLen() <= rsaMost
	}
	return true
}

// discover finds the address of the keys in the issuer's metadata.
func (k *keySet) discover(ctx context.Context) (string, error) {
	u, err := url.Parse(k.set.Issuer)
	if err != nil {
		return "", errors.New("mcp.oauth.issuer is no URL")
	}
	base, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	var failed []error
	for _, from := range []string{base + "/.well-known/oauth-authorization-server" + path,
		base + path + "/.well-known/openid-configuration"} {
		body, err := k.get(ctx, from)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		var m struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		switch err := json.Unmarshal(body, &m); {
		case err != nil:
			failed = append(failed, errors.New("the issuer's metadata are no JSON"))
		case m.Issuer != k.set.Issuer:
			failed = append(failed, errors.New("the metadata are those of another issuer than mcp.oauth.issuer"))
		case !secure(m.Keys, u.Scheme):
			failed = append(failed, errors.New("the metadata name no address of keys (jwks_uri) with https"))
		default:
			return m.Keys, nil
		}
	}
	return "", errors.Join(failed...)
}

// secure says whether keys may come from an address: https, or http on loopback if the issuer is there too.
func secure(text, issuer string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	here := err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
	return u.Scheme == "https" || u.Scheme == "http" && issuer == "http" && here
}

// get reads one answer of the issuer.
func (k *keySet) get(ctx context.Context, from string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, application/jwk-set+json")
	resp, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", from, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMost+1))
	if err == nil && len(body) > answerMost {
		err = fmt.Errorf("the answer of %s is longer than %d bytes", from, answerMost)
	}
	return body, err
}
