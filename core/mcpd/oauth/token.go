package oauth

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/yett-dev/yett/sdk/exact"
)

// algorithms are those that tokens may be signed with. With an algorithm of one shared secret (HS256), a public key
// could be taken for the secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// The bounds of a token.
const (
	tokenBytes = 16 << 10
	leeway     = 30 * time.Second // between the issuer's clock and ours
)

var tokenLimits = exact.Limits{Depth: 16, Tokens: 2000}

// claims are what of a verified token matters here.
type claims struct {
	client, subject string
	scopes          map[string]bool
	expires         time.Time // with the leeway
}

// verify gives the claims of a token for the resource at path. Its errors never quote the token.
func (s *Server) verify(token, path string) (*claims, error) {
	if len(token) > tokenBytes {
		return nil, errors.New("it is longer than 16 KiB")
	}
	sig, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(sig.Signatures) != 1 {
		return nil, errors.New("it is no signed JWT, or its algorithm is not allowed")
	}
	h := sig.Signatures[0].Protected
	if typ, _ := h.ExtraHeaders[jose.HeaderType].(string); !tokenType(typ) {
		return nil, errors.New(`its type (typ) is neither "at+jwt" nor "JWT"`)
	}
	if _, critical := h.ExtraHeaders["crit"]; critical {
		return nil, errors.New("its header has crit, of which nothing is understood here")
	}
	payload, err := s.keys.check(sig, h.KeyID, h.Algorithm)
	if err != nil {
		return nil, err
	}
	var doc exact.Doc
	if err := doc.Parse(string(payload), tokenLimits); err != nil || doc.Root().Kind() != exact.Object {
		return nil, errors.New("its claims are no JSON object, or have a name twice")
	}
	return s.claimsOf(doc.Root(), path)
}

// tokenType says whether a token of that type is an access token, or may be one. Media types have no case.
func tokenType(typ string) bool {
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	return typ == "at+jwt" || typ == "jwt"
}

// claimsOf checks everything in a token but its signature.
func (s *Server) claimsOf(v exact.Value, path string) (*claims, error) {
	now := s.set.Now()
	exp, nbf := v.Get("exp"), v.Get("nbf")
	switch {
	case text(v.Get("iss")) != s.set.Config.Issuer:
		return nil, errors.New("its issuer (iss) is not mcp.oauth.issuer")
	case !s.meant(v.Get("aud"), path):
		return nil, errors.New("its audience (aud) has neither mcp.oauth.resource nor the server that was asked")
	case exp.Kind() != exact.Number || nbf.Exists() && nbf.Kind() != exact.Number:
		return nil, errors.New("it has no expiry (exp), or a time in it is no number")
	case exp.Decimal().Cmp(exact.FromInt64(now.Add(-leeway).Unix())) <= 0:
		return nil, errors.New("it has expired (exp)")
	case nbf.Exists() && nbf.Decimal().Cmp(exact.FromInt64(now.Add(leeway).Unix())) > 0:
		return nil, errors.New("it is not valid yet (nbf)")
	case v.Get("cnf").Exists():
		return nil, errors.New("it is bound to a key of its client (cnf), which a bearer does not prove")
	}
	c := &claims{client: text(v.Get("client_id")), subject: text(v.Get("sub")), scopes: scopesOf(v),
		expires: now.Add(longLived)}
	if c.client == "" {
		c.client = text(v.Get("azp"))
	}
	if n, ok := exp.Decimal().Int64(); ok && n < c.expires.Unix() {
		c.expires = time.Unix(n, 0).Add(leeway)
	}
	return c, nil
}

// longLived is what a stream lives at most, however long its token does.
const longLived = 24 * time.Hour

// meant says whether an audience has the gateway, or the resource at path.
func (s *Server) meant(aud exact.Value, path string) bool {
	one := func(v exact.Value) bool {
		got := text(v)
		return got == s.set.Config.Resource || resourcePath.MatchString(path) && got == s.set.Config.Resource+path
	}
	if aud.Kind() != exact.Array {
		return one(aud)
	}
	return slices.ContainsFunc(slices.Collect(aud.Elements()), one)
}

// scopesOf are the scopes of a token: one text (RFC 9068), or as some issuers have it, scp with a text or a list.
func scopesOf(v exact.Value) map[string]bool {
	list := v.Get("scope")
	if !list.Exists() {
		list = v.Get("scp")
	}
	out := map[string]bool{}
	if list.Kind() == exact.Array {
		for e := range list.Elements() {
			out[text(e)] = true
		}
		return out
	}
	for _, scope := range strings.Split(text(list), " ") {
		out[scope] = true
	}
	return out
}

// text is a string's own copy, "" for anything else.
func text(v exact.Value) string {
	if v.Kind() != exact.String {
		return ""
	}
	return v.Own()
}
