package config

import (
	"net"
	"net/url"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// AuthZEN is the door for the OpenID AuthZEN Authorization API.
type AuthZEN struct {
	Enabled     bool   `koanf:"enabled" default:"false" doc:"Whether the door is there."`
	URL         string `koanf:"url" empty:"ok" example:"https://pdp.example.com" doc:"The identifier of this decision point: the address at which clients reach it, exactly as they have it. https, or http on loopback; no query, no fragment, no slash at the end. Its host needs no entry in hosts. With a path, the door is below that path."`
	Evaluations int    `koanf:"evaluations" default:"100" min:"1" max:"1000" doc:"Most evaluations of one request."`
}

// Host is the name under which clients reach the door, "" if it is off.
func (a *AuthZEN) Host() string {
	u, err := url.Parse(a.URL)
	if !a.Enabled || err != nil {
		return ""
	}
	return u.Hostname()
}

// Path is what the address has behind its host.
func (a *AuthZEN) Path() string {
	u, err := url.Parse(a.URL)
	if err != nil {
		return "" // validate has refused it
	}
	return u.Path
}

func (a *AuthZEN) validate(r *strict.Report) {
	const key = "doors.authzen.url"
	if !a.Enabled {
		return
	}
	if a.URL == "" {
		r.Errorf(key, "is required; give the address at which clients reach this door, such as https://pdp.example.com")
		return
	}
	u, err := url.Parse(a.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(a.URL, "?#"):
		r.Errorf(key, "%s", strict.Wants("a URL such as https://pdp.example.com, without query and fragment", a.URL))
	case u.User != nil:
		r.Errorf(key, "has a name or a password in it; take them out")
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "0")):
		r.Errorf(key, "%s is not a loopback address; use https", strict.Literal(u.Host))
	case strings.HasSuffix(u.Path, "/"):
		r.Errorf(key, "%s ends in a slash; take it away", strict.Literal(a.URL))
	case !plainPath(u):
		r.Errorf(key, "the path of %s has more than letters, digits and - . _ ~ in it", strict.Literal(a.URL))
	}
}

// plainPath says whether a URL's path is one that every server reads the same.
func plainPath(u *url.URL) bool {
	if u.Path == "" {
		return true
	}
	for _, segment := range strings.Split(strings.TrimPrefix(u.Path, "/"), "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~", c)
		}) {
			return false
		}
	}
	return u.RawPath == ""
}
