package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// Server is where the HTTP adapter listens.
type Server struct {
	Listen       string    `koanf:"listen" default:"127.0.0.1:8420" format:"addr" doc:"Address and port of the HTTP API. Port 0 takes a free one. Off loopback only with tls."`
	Metrics      string    `koanf:"metrics" default:"127.0.0.1:8421" doc:"Address and port of the Prometheus metrics; \"off\" or \"\" turns them off. Off loopback only with metrics_tls, and with metrics_token or metrics_tls.client_ca."`
	TLS          TLS       `koanf:"tls" doc:"Certificate of the HTTP API. Without it the API is in clear and must listen on loopback."`
	MetricsTLS   TLS       `koanf:"metrics_tls" doc:"Certificate of the metrics. With client_ca, only who has a certificate of it may read them."`
	MetricsToken SecretRef `koanf:"metrics_token" doc:"Token that readers of the metrics send as Authorization: Bearer TOKEN. A reload reads it again."`

	DenyStatus int      `koanf:"deny_status" default:"200" enum:"200|403" doc:"HTTP status of a DENY or DEFER on /v1/authorize. 403 is for proxies that let every 2xx through."`
	Drain      Duration `koanf:"drain" default:"10s" max:"5m" doc:"How long a stopping server waits for calls in flight."`

	TrustedProxies []string `koanf:"trusted_proxies" empty:"ok" example:"[\"10.0.0.0/8\"]" doc:"Addresses or networks of the proxies before the API and the console. Only their X-Forwarded-For or Forwarded says who asked, and their connections are not counted by address."`
}

// Proxies gives TrustedProxies as networks.
func (s Server) Proxies() []netip.Prefix {
	var out []netip.Prefix
	for _, text := range s.TrustedProxies {
		if p, err := network(text); err == nil { // validate has checked it
			out = append(out, p)
		}
	}
	return out
}

// maxProxies bounds server.trusted_proxies.
const maxProxies = 100

// network reads an address or a network, without the bits that a network does not have.
func network(text string) (netip.Prefix, error) {
	a, err := netip.ParseAddr(text)
	if err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() || p.Bits() == 0 {
		return p, strict.Wants("an address such as 10.0.0.7 or a network such as 10.0.0.0/8", text)
	}
	return p, nil
}

// TLS names the files of a certificate. The zero TLS is off.
type TLS struct {
	Cert     Path `koanf:"cert" example:"/etc/yett/tls.crt" doc:"PEM file with the certificate and its chain."`
	Key      Path `koanf:"key" example:"/etc/yett/tls.key" doc:"PEM file with the private key of cert."`
	ClientCA Path `koanf:"client_ca" example:"/etc/yett/clients.crt" doc:"PEM file with the authorities that sign clients; when set, a client without such a certificate is refused."`
}

// Enabled says whether the API is served over TLS.
func (t TLS) Enabled() bool { return t.Cert != "" }

// MetricsOff says whether no metrics are served.
func (s Server) MetricsOff() bool { return s.Metrics == "" || s.Metrics == "off" }

func (s *Server) validate(r *strict.Report) {
	s.TLS.validate(r, "server.tls")
	if strict.CheckAddr(s.Listen) == nil && !loopback(s.Listen) && !s.TLS.Enabled() {
		r.Errorf("server.listen", "%s is not a loopback address; without server.tls only loopback is served",
			strict.Literal(s.Listen))
	}
	if len(s.TrustedProxies) > maxProxies {
		r.Errorf("server.trusted_proxies", "has %d entries; at most %d are read", len(s.TrustedProxies), maxProxies)
	}
	for i, text := range s.TrustedProxies {
		if _, err := network(text); err != nil {
			r.Errorf("server.trusted_proxies["+strconv.Itoa(i)+"]", "%s", err)
		}
	}
}

// validate checks what the files of a certificate, given at key, need of each other.
func (t TLS) validate(r *strict.Report, key string) {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		r.Errorf(key, "needs both cert and key")
	case t.ClientCA != "" && t.Cert == "":
		r.Errorf(key+".client_ca", "needs cert and key")
	}
}

// leastToken is how short the token of the metrics may be, bytes.
const leastToken = 16

// finishMetrics reads the token of the metrics, and checks who may read them.
func (l *loader) finishMetrics(s *Server) {
	r, t := l.Report, &s.MetricsToken
	s.MetricsTLS.validate(r, "server.metrics_tls")
	given := t.File != "" || t.Env != ""
	if given && l.resolveSecret(t, "server.metrics_token") {
		switch n := len(t.value); {
		case strings.ContainsFunc(t.value, unsent):
			r.Errorf("server.metrics_token", "the token has characters that no header can carry; use letters and digits only")
		case n < leastToken:
			r.Errorf("server.metrics_token", "the token has %d characters, at least %d are needed; openssl rand -hex 32 makes "+
				"a good one", n, leastToken)
		}
	}
	if s.MetricsOff() {
		return
	}
	switch err := strict.CheckAddr(s.Metrics); {
	case err != nil:
		r.Errorf("server.metrics", "%s; off turns metrics off", err)
	case !loopback(s.Metrics) && !s.MetricsTLS.Enabled():
		r.Errorf("server.metrics", "%s is not a loopback address; set server.metrics_tls (cert and key), and "+
			"server.metrics_token or server.metrics_tls.client_ca", strict.Literal(s.Metrics))
	case !loopback(s.Metrics) && !given && s.MetricsTLS.ClientCA == "":
		r.Errorf("server.metrics", "%s is not a loopback address, and anybody could read the metrics; set "+
			"server.metrics_token or server.metrics_tls.client_ca", strict.Literal(s.Metrics))
	case s.Metrics == s.Listen && !anyPort(s.Listen):
		r.Errorf("server.metrics", "%s is the address of server.listen; give each its own, or turn metrics off",
			strict.Literal(s.Metrics))
	}
}

// loopback is true only for what surely stays on this machine: a name other than localhost could resolve to anything.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func anyPort(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port == "0"
}
