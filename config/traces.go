package config

import (
	"net"
	"net/url"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// Traces is where spans of requests are sent, for OpenTelemetry.
type Traces struct {
	Endpoint string    `koanf:"endpoint" empty:"ok" example:"http://127.0.0.1:4318/v1/traces" doc:"URL at which a collector takes OTLP over HTTP. Without it there are no traces. Off loopback only https."`
	Share    float64   `koanf:"share" default:"0" min:"0" max:"1" doc:"Share of the requests without a traceparent header that are followed. Those with one are followed when it says that its trace is sampled."`
	CA       Path      `koanf:"ca" example:"/etc/yett/collector-ca.crt" doc:"PEM file with the authorities that sign the collector's certificate; without it the machine's own."`
	Token    SecretRef `koanf:"token" doc:"Token that is sent to the collector as Authorization: Bearer TOKEN."`
}

// Enabled says whether requests are followed at all.
func (t Traces) Enabled() bool { return t.Endpoint != "" }

// finishTraces reads the token, and checks where spans may go.
func (l *loader) finishTraces(t *Traces) {
	r := l.Report
	if t.Token.File != "" || t.Token.Env != "" {
		if l.resolveSecret(&t.Token, "traces.token") && strings.ContainsFunc(t.Token.value, unsent) {
			r.Errorf("traces.token", "the token has characters that no header can carry; use letters and digits only")
		}
	}
	if t.Endpoint == "" {
		if t.Share > 0 {
			r.Errorf("traces.share", "needs traces.endpoint, where the spans go")
		}
		return
	}
	u, err := url.Parse(t.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		r.Errorf("traces.endpoint", "%s", strict.Wants("a URL such as http://127.0.0.1:4318/v1/traces", t.Endpoint))
	case u.User != nil:
		r.Errorf("traces.endpoint", "has a name or a password in it; use traces.token")
	case u.Path == "" || u.Path == "/":
		r.Errorf("traces.endpoint", "%s has no path; most collectors take /v1/traces", strict.Literal(t.Endpoint))
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "0")):
		r.Errorf("traces.endpoint", "%s is not a loopback address; use https", strict.Literal(u.Host))
	case u.Scheme == "http" && t.CA != "":
		r.Errorf("traces.ca", "needs an https endpoint")
	}
}

// unsent reports whether a header cannot carry a character of a token.
func unsent(c rune) bool { return c <= ' ' || c > '~' }
