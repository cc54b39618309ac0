// Package admin holds the commands for operators: keys, approvals, grants, the kill switch, audit, reload and plugins
// of a running server. They reach it by its admin socket, or by its API with a key. audit verify and export also read
// the directory of a stopped server. A command never decides who may do something: the server does.
package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/sdk/client"
)

// whereHelp says how commands that use an API key find the server.
const whereHelp = `
The server is found by --url or --socket, by --data DIR or --config FILE of a server on this machine, or by YETT_URL and
YETT_SOCKET. Who asks is the API key in YETT_API_KEY. For https with a CA of your own give --cacert FILE or set YETT_CACERT;
with --data and --config the server's certificate is known already.

Exit codes: 0 done, 1 error, 2 usage, 4 not authenticated.`

// reach is how a command that speaks with an API key finds the running server.
type reach struct {
	target
	url, socket           string
	cacert, cert, certKey string
	cleartext             bool
}

func (r *reach) bind(cmd *cobra.Command) {
	r.target.bind(cmd)
	cmd.Flags().StringVar(&r.url, "url", "", "URL of the HTTP API, such as http://127.0.0.1:8420 (default YETT_URL)")
	cmd.Flags().StringVar(&r.socket, "socket", "", "path of the server's socket (default YETT_SOCKET)")
	cmd.Flags().StringVar(&r.cacert, "cacert", "",
		"PEM file with the CA of an https server (default YETT_CACERT, else the system's)")
	cmd.Flags().StringVar(&r.cert, "cert", "", "PEM file with the certificate to show a server that asks for one "+
		"(default YETT_CERT)")
	cmd.Flags().StringVar(&r.certKey, "cert-key", "", "PEM file with its key (default YETT_CERT_KEY)")
	cmd.Flags().BoolVar(&r.cleartext, "cleartext", false, "let the key travel over http to another host")
}

// options works out where the server is. Flags count before the environment, and both are never mixed.
func (r *reach) options(ctx context.Context) (client.Options, error) {
	opts := client.Options{URL: r.url, Socket: r.socket, Retries: 2, AllowCleartext: r.cleartext, CACert: r.cacert,
		Cert: r.cert, CertKey: r.certKey}
	local := r.data != "" || r.config != ""
	switch {
	case local && (r.url != "" || r.socket != ""):
		return opts, cli.Usage("give --url and --socket, or --data or --config, not both")
	case local:
		err := r.with(func(c *admin.Client) error {
			var status struct{ URL, Socket, Certificate string }
			if err := c.Do(ctx, "GET", "/status", nil, &status); err != nil {
				return err
			}
			opts.URL, opts.Socket = status.URL, status.Socket
			if status.Certificate == "" || r.cacert != "" {
				return nil
			}
			var err error
			opts.TLS, err = pinned(status.Certificate)
			return err
		})
		return opts, err
	case r.url == "" && r.socket == "":
		opts.URL, opts.Socket = os.Getenv("YETT_URL"), os.Getenv("YETT_SOCKET")
		if opts.URL == "" && opts.Socket == "" {
			return opts, cli.Usage("where is the server? give --url URL, --socket PATH or --data DIR, or set YETT_URL or " +
				"YETT_SOCKET")
		}
	}
	return opts, nil
}

// use runs fn with a client of the server. what says whose key is needed.
func (r *reach) use(ctx context.Context, what string, fn func(c *client.Client) error) error {
	opts, err := r.options(ctx)
	if err != nil {
		return err
	}
	return dial(opts, what, fn)
}

func dial(opts client.Options, what string, fn func(c *client.Client) error) error {
	if os.Getenv("YETT_API_KEY") == "" && opts.URL != "" { // over the socket alone this user may be mapped to a key
		return cli.Fail(cli.ExitUnauthenticated, fmt.Errorf("YETT_API_KEY is not set: this needs %s", what))
	}
	c, err := client.New(opts)
	if err != nil {
		return badOption(err)
	}
	defer c.Close()
	return told(fn(c))
}

// pinned is for the server whose certificate the admin socket has told: that certificate and no other, whatever its
// name, since the server's address in its data directory need not be in it.
func pinned(certificate string) (*tls.Config, error) {
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		return nil, errors.New("admin socket: the server's certificate cannot be read")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("this is not the certificate of the server on that data directory: something else answers at " +
					"its address")
			}
			return nil
		}}, nil
}

// optionFlags are the flags and variables behind the options of the client that its errors name.
var optionFlags = map[string]string{"URL": "--url", "Key": "YETT_API_KEY", "CACert": "--cacert",
	"Cert": "--cert and --cert-key"}

// badOption tells a mistake in the options of the client by the flag that it came from.
func badOption(err error) error {
	var e *client.Error
	if !errors.As(err, &e) || optionFlags[e.Field] == "" {
		return cli.Usage("%w", err)
	}
	detail := strings.TrimPrefix(e.Detail, e.Field+": ")
	return cli.Usage("%s: %s", optionFlags[e.Field], strings.ReplaceAll(detail, "AllowCleartext", "--cleartext"))
}

// hintFor is what to do about an error of the connection; "" when that is known from the error itself.
func hintFor(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		return "give the certificate of its CA: --cacert FILE, or YETT_CACERT"
	case errors.As(err, &name):
		return "use a name in --url that the certificate has"
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "the server does not speak TLS there: use http in the URL"
	case strings.Contains(err.Error(), "certificate required"):
		return "the server asks for a certificate: give --cert and --cert-key"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is the server running, and is the address right?"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such socket: is the server running, and is the path right?"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not use the socket: see socket.mode and socket.peers"
	}
	return ""
}

// shown is an error whose text may hold the server's, or somebody's, words.
type shown struct{ error }

func (e shown) Error() string { return cli.Visible(e.error.Error()) }
func (e shown) Unwrap() error { return e.error }

// told gives an error of the client its exit code.
func told(err error) error {
	var coded *cli.ExitError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	var way *client.TransportError
	if errors.As(err, &way) {
		if way.Needs == "URL" {
			return cli.Usage("%s is served over HTTP only: give --url URL or --data DIR, or set YETT_URL", way.Op)
		}
		return cli.Usage("%s is served on the socket only: give --socket PATH, or --data DIR of a server whose socket is "+
			"on, or set YETT_SOCKET", way.Op)
	}
	if hint := hintFor(err); hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
	}
	err = shown{err}
	if errors.Is(err, client.ErrUnauthenticated) {
		return cli.Fail(cli.ExitUnauthenticated, err)
	}
	return err
}
