package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// MCPOAuth makes the MCP gateway an OAuth resource server, beside API keys.
type MCPOAuth struct {
	Issuer   string           `koanf:"issuer" empty:"ok" example:"https://idp.example.com" doc:"The authorization server whose access tokens are taken, exactly as its tokens have it in iss: https, or http on loopback. Only API keys are taken if not given."`
	Resource string           `koanf:"resource" empty:"ok" example:"https://mcp.example.com" doc:"The address at which clients reach this gateway, without a path. A token is taken only if its audience (aud) has this address, or this address with /mcp/NAME of the server that is asked. Its host needs no entry in hosts."`
	JWKSURL  string           `koanf:"jwks_url" empty:"ok" example:"https://idp.example.com/keys" doc:"Where the issuer's keys are. Found in the issuer's metadata if not given."`
	Scopes   []string         `koanf:"scopes" empty:"ok" format:"scope" most:"32" example:"[\"mcp\"]" doc:"Scopes that a token must have, all of them."`
	Clients  []MCPOAuthClient `koanf:"clients" empty:"ok" most:"1000" doc:"Which API key's rights a token stands for: the first entry that matches it. A token that no entry matches is refused."`
}

// MCPOAuthClient lets tokens of a client or a subject stand for a key.
type MCPOAuthClient struct {
	ClientID string `koanf:"client_id" maxlen:"256" example:"coding-agents" doc:"The client that the token was issued to (client_id, else azp). Exactly one of client_id and subject is set."`
	Subject  string `koanf:"subject" maxlen:"256" example:"ada@example.com" doc:"Who the token speaks for (sub)."`
	Key      string `koanf:"key" req:"true" maxlen:"256" example:"ada-agents" doc:"Name of the key, or its id. The name means the live key of that name at the time, so it follows yett keys roll."`
}

// Enabled says whether access tokens are taken at all.
func (o *MCPOAuth) Enabled() bool { return o.Issuer != "" }

// Host is the name under which clients reach the gateway, "" if OAuth is off.
func (o *MCPOAuth) Host() string {
	u, err := url.Parse(o.Resource)
	if !o.Enabled() || err != nil {
		return ""
	}
	return u.Hostname()
}

// Forms are those of the texts here.
func (MCPOAuth) Forms() map[string]strict.Form {
	return map[string]strict.Form{"scope": {Check: func(s string) error {
		if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			return strict.Wants("a scope: printable ASCII characters without space, quote and backslash", s)
		}
		return nil
	}}}
}

func (o *MCPOAuth) validate(r *strict.Report) {
	const key = "mcp.oauth"
	if !o.Enabled() {
		for name, written := range map[string]bool{"resource": o.Resource != "", "jwks_url": o.JWKSURL != "",
			"scopes": len(o.Scopes) > 0, "clients": len(o.Clients) > 0} {
			if written {
				r.Errorf(key+"."+name, "does nothing without mcp.oauth.issuer; give the issuer or remove this")
			}
		}
		return
	}
	secureURL(r, key+".issuer", o.Issuer, "https://idp.example.com")
	if o.JWKSURL != "" {
		secureURL(r, key+".jwks_url", o.JWKSURL, "https://idp.example.com/keys")
	}
	if o.Resource == "" {
		r.Errorf(key+".resource", "is required; give the address at which clients reach this gateway, such as "+
			"https://mcp.example.com")
	} else if u := secureURL(r, key+".resource", o.Resource, "https://mcp.example.com"); u != nil && u.Path != "" {
		r.Errorf(key+".resource", "%s has a path; give the address without one: servers are at /mcp/NAME below it",
			strict.Literal(o.Resource))
	}
	if len(o.Clients) == 0 {
		r.Errorf(key+".clients", "is empty, so every token would be refused; say which client or subject stands "+
			"for which key")
	}
	for i, c := range o.Clients {
		if (c.ClientID == "") == (c.Subject == "") {
			r.Errorf(key+".clients["+strconv.Itoa(i)+"]", "needs exactly one of client_id and subject")
		}
	}
}

// secureURL is the URL at key if nobody on the way to it can change what it says, else nil, and the report says why.
func secureURL(r *strict.Report, key, text, example string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(text, "?#"):
		r.Errorf(key, "%s", strict.Wants("a URL such as "+example+", without query and fragment", text))
	case u.User != nil:
		r.Errorf(key, "has a name or a password in it; take them out")
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "0")):
		r.Errorf(key, "%s is not a loopback address; use https", strict.Literal(u.Host))
	default:
		return u
	}
	return nil
}
