package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

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
		roots = o.getenv("YETT_CACERT")
	}
	if roots != "" {
		text, err := readPEM(roots)
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
		cert, key = o.getenv("YETT_CERT"), o.getenv("YETT_CERT_KEY")
	}
	switch {
	case cert == "" && key == "":
		return out, nil
	case cert == "" || key == "":
		return nil, fieldErr(sdk.CodeMissingField, "Cert", "a certificate needs its key: give both files")
	}
	pair, err := pairOf(cert, key)
	if err != nil {
		return nil, fieldErr(sdk.CodeInvalidField, "Cert", "cannot use "+cert+" with "+key+": "+reason(err))
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

func pairOf(cert, key string) (tls.Certificate, error) {
	public, err := readPEM(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := readPEM(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(public, private)
}

// maxPEM bounds a file with certificates or a key, bytes. The system's own list of authorities is a quarter of it.
const maxPEM = 1 << 20

// readPEM reads a regular file, or what the shell opened for this process, such as `<(another command)`. A pipe that
// nobody writes to is refused rather than waited for.
func readPEM(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	shells := path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
	if err == nil && !info.Mode().IsRegular() && !shells {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("it is larger than %d bytes", maxPEM)
	}
	return text, err
}

// reason drops the path from a file's error: the message around it has it.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
