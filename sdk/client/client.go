// Package client is the Go client of a Yett gateway, for agents that ask and for operators that answer. It owns the two
// transports (HTTP and the Unix socket) behind one API, safe retries, and the strict reading of answers: nothing but a
// whole, well-formed PERMIT is ever taken for a permission, and every failure is an error. It must never turn an error
// into a permit, send a call twice where that could spend something twice, follow a redirect with the key, or import
// more than the standard library, sdk, sdk/exact and sdk/wire. Calls come from the program that imports it; answers
// come from the gateway and are not trusted to be well-formed.
package client

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// Options say where the gateway is and who asks. The zero Options read YETT_URL, YETT_SOCKET and YETT_API_KEY.
type Options struct {
	// URL of the HTTP API, such as http://127.0.0.1:8420. When neither URL nor Socket is given both come from YETT_URL
	// and YETT_SOCKET. With both transports HTTP is used for what it serves.
	URL string
	// Socket is the path of the gateway's Unix socket, such as /run/yett/yett.sock.
	Socket string
	// SocketOwner, if set, is the user id that the process which listens on Socket must have. Another user's process is
	// refused before it gets the key. Without it, whoever made the socket's file is believed. Linux only: every call fails
	// with it elsewhere.
	SocketOwner *uint32
	// Key is the API key; YETT_API_KEY if empty. Over the socket it may stay empty when the gateway maps this user to a
	// key.
	Key string
	// Timeout bounds one attempt, on top of what a long poll waits. 30 s if 0.
	Timeout time.Duration
	// Retries is how often a failed attempt is made again where that is safe. 4 if 0, none if negative.
	Retries int
	// RetryFor bounds all attempts of one call together, below any deadline of its context. 30 s if 0.
	RetryFor time.Duration
	// CACert is a PEM file with the certificates of the authorities that an https server's certificate must be signed by,
	// such as your own CA. They replace the system's. YETT_CACERT if empty and TLS has no roots.
	CACert string
	// Cert and CertKey are PEM files with the certificate that this client shows a server with server.tls.client_ca, and
	// its key. YETT_CERT and YETT_CERT_KEY if both are empty and TLS has none.
	Cert, CertKey string
	// TLS is for https URLs, where files are not enough; nil takes the system's roots.
	TLS *tls.Config
	// AllowCleartext lets the key travel over http to a host that is not this one.
	AllowCleartext bool
	// NoEnvironment keeps out every YETT_ variable and the proxy's, for a program whose surroundings are not trusted.
	NoEnvironment bool
	// OnLost, if set, is told when a stream has lost its connection and is about to try again. It must not block.
	OnLost func(err error)
}

// Client talks to one gateway. Safe for concurrent use. Close it when done.
type Client struct {
	opts   Options
	http   *httpLink   // nil without a URL
	socket *socketLink // nil without a socket
	closed atomic.Bool
	pause  pauser
}

// New makes a client. It connects to nothing yet. The error is an *Error that names the option at fault.
func New(opts Options) (*Client, error) {
	if opts.URL == "" && opts.Socket == "" {
		opts.URL, opts.Socket = opts.getenv("YETT_URL"), opts.getenv("YETT_SOCKET")
	}
	if opts.Key == "" {
		opts.Key = opts.getenv("YETT_API_KEY")
	}
	if opts.URL == "" && opts.Socket == "" {
		return nil, fieldErr(sdk.CodeMissingField, "URL",
			"give Options.URL or Options.Socket, or set YETT_URL or YETT_SOCKET")
	}
	if strings.ContainsFunc(opts.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fieldErr(sdk.CodeInvalidField, "Key", "an API key is printable ASCII without spaces")
	}
	if opts.Timeout < 0 || opts.RetryFor < 0 {
		return nil, fieldErr(sdk.CodeInvalidField, "Timeout", "Timeout and RetryFor must not be negative")
	}
	opts.Timeout = orDefault(opts.Timeout, 30*time.Second)
	opts.RetryFor = orDefault(opts.RetryFor, 30*time.Second)
	opts.Retries = max(orDefault(opts.Retries, 4), 0)
	c := &Client{opts: opts, pause: sleep}
	if opts.URL != "" {
		base, err := baseOf(opts.URL, opts.AllowCleartext)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(base, "https:") {
			if c.opts.TLS, err = tlsOf(&c.opts); err != nil {
				return nil, err
			}
		}
		c.http = newHTTPLink(base, &c.opts)
	}
	if opts.Socket != "" {
		c.socket = &socketLink{path: opts.Socket, key: opts.Key, dialer: dialUnix}
		if opts.SocketOwner != nil {
			c.socket.dialer = dialOwned(*opts.SocketOwner)
		}
	}
	return c, nil
}

func (o *Options) getenv(name string) string {
	if o.NoEnvironment {
		return ""
	}
	return os.Getenv(name)
}

func orDefault[T int | time.Duration](v, standard T) T {
	if v == 0 {
		return standard
	}
	return v
}

// baseOf checks the URL: scheme and host, nothing behind them, and no key in clear across a network.
func baseOf(s string, cleartext bool) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", fieldErr(sdk.CodeInvalidField, "URL", "cannot be read as a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", fieldErr(sdk.CodeInvalidField, "URL", "want http://HOST:PORT or https://HOST:PORT")
	case u.User != nil, u.RawQuery != "", u.Fragment != "", strings.Trim(u.Path, "/") != "":
		return "", fieldErr(sdk.CodeInvalidField, "URL", "want scheme and host only; the key is an option of its own")
	case u.Scheme == "http" && !cleartext && !loopback(u.Hostname()):
		return "", fieldErr(sdk.CodeInvalidField, "URL",
			"http would send the key in clear to "+u.Hostname()+": use https, or AllowCleartext where the way there is safe")
	}
	return u.Scheme + "://" + u.Host, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close ends idle connections, and the socket's calls that still wait for an answer; those over HTTP end with their
// contexts. Streams are closed on their own. Close may be called more than once.
func (c *Client) Close() error {
	c.closed.Store(true)
	if c.http != nil {
		c.http.client.CloseIdleConnections()
	}
	if c.socket != nil {
		c.socket.close()
	}
	return nil
}

// newID is the name of one logical call: what makes sending it again safe.
func newID(prefix string) string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the program ends if there is no randomness
	return prefix + hex.EncodeToString(b[:])
}
