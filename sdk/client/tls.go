package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"

	"github.com/yett-dev/yett/sdk"
)

// tlsOf reads the files that the options name for https, over what Options.TLS says.
func tlsOf(o *Options) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		out = o.TLS.Clone()
	}
	roots := o.CACert
	if roots == "" && out.RootCAs == nil && !out.InsecureSkipVerify {
		roots = os.Getenv("YETT_CACERT")
	}
	if roots != "" {
		text, err := os.ReadFile(roots)
		if err != nil {
			return nil, fieldErr(sdk.CodeInvalidField, "CACert", "cannot read "+roots+": "+reason(err))
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fieldErr(sdk.CodeInvalidField, "CACert", roots+" has no certificate in PEM form")
		}
	}
	cert, key := o.Cert, o.CertKey
	if cert == "" && key == "" && len(out.Certificates) == 0 && out.GetClientCertificate == nil {
		cert, key = os.Getenv("YETT_CERT"), os.Getenv("YETT_CERT_KEY")
	}
	switch {
	case cert == "" && key == "":
		return out, nil
	case cert == "" || key == "":
		return nil, fieldErr(sdk.CodeMissingField, "Cert", "a certificate needs its key: give both files")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fieldErr(sdk.CodeInvalidField, "Cert", "cannot use "+cert+" with "+key+": "+reason(err))
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

// reason drops the path from a file's error: the message around it has it.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
