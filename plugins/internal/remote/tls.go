package remote

import (
	"crypto/tls"
	"crypto/x509"
	"net"
)

// TLS is the setting tls of a plugin; the private key of Cert is its secret tls_key.
type TLS struct {
	CA         string `json:"ca"`
	Cert       string `json:"cert"`
	ServerName string `json:"server_name"`
}

// Client makes a client's configuration of the setting and the secret tls_key. add is told what is wrong with which
// field; what is returned then is not to be used.
func (t *TLS) Client(key string, add func(field, message string)) *tls.Config {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			add("/tls/ca", "no certificate in PEM form is in it")
		}
	}
	if (t.Cert == "") != (key == "") {
		add("/tls/cert", "a client certificate needs both cert and the secret tls_key")
	} else if key != "" {
		pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(key))
		if err != nil {
			add("/tls/cert", "the certificate and the secret tls_key are not a pair in PEM form")
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out
}

// Loopback is true for hosts that are this machine, where nothing goes over a network.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
