package signedhttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/plugins/internal/regular"
)

// Endpoint is where requests go and how. Its JSON members are those of a plugin's settings.
type Endpoint struct {
	URL      string `json:"url"`
	Insecure bool   `json:"insecure"` // http:// beyond this machine
	Proxy    string `json:"proxy"`    // URL of an HTTP proxy; "" uses none, whatever the environment says
	TLS      TLS    `json:"tls"`
}

// TLS names files; all paths are absolute. None means the system's roots and no client certificate.
type TLS struct {
	CAFile   string `json:"ca_file"`
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
}

// EndpointSchema are the members of an Endpoint for the properties of a JSON Schema.
const EndpointSchema = `
    "url": {"type": "string", "pattern": "^https?://", "maxLength": 2048, "description": "https://…; http:// only on this machine or with insecure"},
    "insecure": {"type": "boolean", "description": "allow http:// to another machine"},
    "proxy": {"type": "string", "pattern": "^(https?://.+)?$", "maxLength": 2048, "description": "URL of an HTTP proxy; none is taken from the environment"},
    "tls": {
      "type": "object",
      "additionalProperties": false,
      "dependentRequired": {"cert_file": ["key_file"], "key_file": ["cert_file"]},
      "properties": {
        "ca_file": {"type": "string", "pattern": "^(/.*)?$", "maxLength": 4096, "description": "PEM of the authorities to trust instead of the system's"},
        "cert_file": {"type": "string", "pattern": "^(/.*)?$", "maxLength": 4096, "description": "PEM of a client certificate"},
        "key_file": {"type": "string", "pattern": "^(/.*)?$", "maxLength": 4096, "description": "PEM of its key"}
      }
    }`

// Fault is a setting that does not hold.
type Fault struct{ Field, Message string }

// DurationPattern is what durations look like, for the pattern of a JSON Schema.
const DurationPattern = `^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

// Check says what is wrong with the settings, without reading any file.
func (e Endpoint) Check() []Fault {
	var out []Fault
	if why := CheckURL(e.URL, e.Insecure); why != "" {
		out = append(out, Fault{"/url", why})
	}
	if e.Proxy != "" {
		if u, err := url.Parse(e.Proxy); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			out = append(out, Fault{"/proxy", "must be a URL such as http://proxy:3128"})
		}
	}
	for _, f := range []struct{ field, path string }{{"ca_file", e.TLS.CAFile}, {"cert_file", e.TLS.CertFile},
		{"key_file", e.TLS.KeyFile}} {
		if f.path != "" && !filepath.IsAbs(f.path) {
			out = append(out, Fault{"/tls/" + f.field, "must be an absolute path"})
		}
	}
	if (e.TLS.CertFile == "") != (e.TLS.KeyFile == "") {
		out = append(out, Fault{"/tls", "cert_file and key_file come together"})
	}
	return out
}

// CheckURL says what is wrong with the address of a service, or "".
func CheckURL(text string, insecure bool) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "is required"
	case err != nil || u.Host == "" || u.Opaque != "":
		return "must be a URL such as https://host/path"
	case u.User != nil:
		return "must hold no user or password: secrets are handed over as secrets"
	case u.Fragment != "":
		return "must have no fragment"
	case u.Scheme == "https", u.Scheme == "http" && (insecure || loopback(u.Hostname())):
		return ""
	case u.Scheme == "http":
		return "must be https:// for another machine, or set insecure: true"
	}
	return "must begin with https://"
}

// CheckHeader says what is wrong with the value of a header, such as one from a file with two lines, or "".
func CheckHeader(value string) string {
	if value == "" || len(value) > 4096 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "must be 1 to 4096 printable ASCII characters"
	}
	return ""
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Client posts to one endpoint. It is safe for concurrent use; Close drops its idle connections.
type Client struct {
	url       string
	http      *http.Client
	maxAnswer int64
}

// New reads the TLS files and makes a client with at most connections connections, that reads at most maxAnswer bytes
// of an answer. Nothing is connected yet.
func (e Endpoint) New(connections int, maxAnswer int64) (*Client, error) {
	conf, err := e.TLS.Config()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		TLSClientConfig:        conf,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        connections,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
	}
	if e.Proxy != "" {
		proxy, err := url.Parse(e.Proxy)
		if err != nil {
			return nil, errors.New("proxy is no URL")
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return &Client{url: e.URL, http: c, maxAnswer: maxAnswer}, nil
}

// Config reads the files. The error names the setting.
func (t TLS) Config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := readPEM(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read tls.ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("tls.ca_file holds no certificate")
		}
	}
	if t.CertFile != "" {
		cert, err := pairOf(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read tls.cert_file and tls.key_file: %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
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

func readPEM(path string) ([]byte, error) {
	text, err := regular.Read(path, maxPEM)
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxPEM)
	}
	return text, err
}

// Close drops the connections that wait for another request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Message is one request: its id, its JSON body, and further headers.
type Message struct {
	ID      string
	Body    []byte
	Header  http.Header
	URL     string // instead of the client's own
	Secrets []Secret
	// the service takes a message with the same id for the same one, so a lost connection may be tried again at once
	Replays bool
}

// Answer is what came back: the whole body, unless Cut says that it was longer than allowed.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Cut    bool
}

// Post sends one signed message, once. now is the time that is signed. An error means that no answer came; it names the
// host, and neither query nor path, which may hold a secret.
func (c *Client) Post(ctx context.Context, now time.Time, m Message) (*Answer, error) {
	to := m.URL
	if to == "" {
		to = c.url
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(string(m.Body)))
	if err != nil {
		return nil, errors.New("the URL makes no request")
	}
	for name, values := range m.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "yett-plugin/1")
	if m.Replays {
		req.Header.Set("Idempotency-Key", m.ID)
	}
	if m.ID != "" {
		Sign(req.Header, m.ID, now, m.Body, m.Secrets...)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", req.URL.Host, bare(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", req.URL.Host, bare(err))
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
	if a.Cut = int64(len(body)) > c.maxAnswer; a.Cut {
		a.Body = body[:c.maxAnswer]
	}
	return a, nil
}

// bare takes the URL out of an error of net/http.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Class says what to do about an answer.
type Class uint8

// The classes.
const (
	Taken     Class = iota // 2xx
	Again                  // later: 408, 409, 425, 429, 5xx
	Permanent              // the same message will not be taken: any other status, redirects among them
)

// Class reads the status.
func (a *Answer) Class() Class {
	switch {
	case a.Status >= 200 && a.Status < 300:
		return Taken
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusConflict, a.Status == http.StatusTooEarly,
		a.Status == http.StatusTooManyRequests, a.Status >= 500:
		return Again
	}
	return Permanent
}

// maxRetryAfter is the longest pause that a service may ask for.
const maxRetryAfter = time.Hour

// RetryAfter is the pause that the service asks for, at most an hour, or 0.
func (a *Answer) RetryAfter(now time.Time) time.Duration {
	text := a.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
