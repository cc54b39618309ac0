package core

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/regular"
)

// maxPEM is the most that is read of a file of certificates or keys, bytes.
const maxPEM = 4 << 20

// tlsConfig reads the files of a section. Its errors name the key and where it was written.
func tlsConfig(cfg *config.Config, section string, c config.TLS) (*tls.Config, error) {
	if !c.Enabled() {
		return nil, nil
	}
	cert, err := readPEM(cfg, section+".cert", c.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(cfg, section+".key", c.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, badFile(cfg, section+".cert", "cannot use %s with %s: %s", c.Cert, c.Key,
			strings.TrimPrefix(err.Error(), "tls: "))
	}
	out := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if c.ClientCA == "" {
		return out, nil
	}
	out.ClientAuth = tls.RequireAndVerifyClientCert
	out.ClientCAs, err = authorities(cfg, section+".client_ca", c.ClientCA)
	return out, err
}

// badFile is what is wrong with a file that a key names.
func badFile(cfg *config.Config, key, format string, args ...any) error {
	return configError{fmt.Errorf("%s: %s: %s", cfg.Where(key), key, fmt.Sprintf(format, args...))}
}

// readPEM reads a file that a key names.
func readPEM(cfg *config.Config, key string, path config.Path) ([]byte, error) {
	text, err := regular.Read(string(path), maxPEM)
	var file *fs.PathError
	if errors.As(err, &file) {
		err = badFile(cfg, key, "cannot read %s: %v", path, file.Err)
	}
	return text, err
}

// authorities reads a file of those who sign certificates.
func authorities(cfg *config.Config, key string, path config.Path) (*x509.CertPool, error) {
	text, err := readPEM(cfg, key, path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, badFile(cfg, key, "%s has no certificate in PEM form", path)
	}
	return pool, nil
}

// certified remembers when the certificate of a listener, or one of its chain, expires; set may be nil.
func (g *Gateway) certified(listener string, set *tls.Config) {
	if set == nil {
		return
	}
	var first time.Time
	for _, der := range set.Certificates[0].Certificate {
		// the pair was read, so the first of them parses; of the others, what does not parse expires for nobody
		if c, err := x509.ParseCertificate(der); err == nil && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
	g.expiries[listener] = first
}
