package main

import (
	"crypto/tls"
	_ "embed"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/yett-dev/yett/plugins/internal/remote"
	"github.com/yett-dev/yett/sdk/plugin"
)

//go:embed schema.json
var schema string

//go:embed example.json
var example string

const (
	protocolHTTP = "http"
	protocolGRPC = "grpc"
	bodyText     = "text"

	maxHeaders = 32
	maxWait    = 28 * time.Second
)

// config is what operators write; schema.json describes it.
type config struct {
	Endpoint       string            `json:"endpoint"`
	Demo           bool              `json:"demo"`
	Protocol       string            `json:"protocol"`
	Compression    string            `json:"compression"`
	Body           string            `json:"body"`
	ServiceName    string            `json:"service_name"`
	Resource       map[string]string `json:"resource"`
	Headers        map[string]string `json:"headers"`
	Timeout        string            `json:"timeout"`
	RetryFor       string            `json:"retry_for"`
	MaxRequest     int               `json:"max_request_bytes"`
	AllowPlaintext bool              `json:"allow_plaintext"`
	TLS            *remote.TLS       `json:"tls"`
}

// options are the settings as the code uses them.
type options struct {
	endpoint          *url.URL
	demo, grpc, gzip  bool
	body              string
	service           string
	resource          map[string]string
	headers           http.Header
	timeout, retryFor time.Duration
	maxRequest        int
	tls               *tls.Config // nil in clear
}

// checker collects what is wrong.
type checker struct{ problems plugin.Problems }

func (c *checker) add(field, message string) {
	c.problems = append(c.problems, plugin.Problem{Field: field, Message: message})
}

// read makes options of settings. It opens and connects nothing. The error is Problems that name fields.
func read(s plugin.Settings) (*options, error) {
	cfg := config{
		Protocol: protocolHTTP, Compression: "gzip", Body: "structured", ServiceName: "yett", Timeout: "5s", RetryFor: "10s",
		MaxRequest: 4_000_000,
	}
	if err := s.Decode(&cfg); err != nil {
		return nil, err
	}
	var c checker
	o := &options{
		demo: cfg.Demo, grpc: cfg.Protocol == protocolGRPC, gzip: cfg.Compression == "gzip", body: cfg.Body,
		service: cfg.ServiceName, resource: cfg.Resource, headers: http.Header{}, maxRequest: cfg.MaxRequest,
	}
	c.oneOf("/protocol", cfg.Protocol, protocolHTTP, protocolGRPC)
	c.oneOf("/compression", cfg.Compression, "gzip", "none")
	c.oneOf("/body", cfg.Body, "structured", bodyText)
	o.timeout = c.duration("/timeout", cfg.Timeout, 10*time.Millisecond, 20*time.Second)
	o.retryFor = c.duration("/retry_for", cfg.RetryFor, 0, 25*time.Second)
	if o.timeout+o.retryFor > maxWait {
		c.add("/retry_for", "together with timeout at most "+maxWait.String()+", since the host waits 30s")
	}
	if o.maxRequest < 64<<10 || o.maxRequest > 64<<20 {
		c.add("/max_request_bytes", "65536 to 67108864")
	}
	if o.service == "" || len(o.service) > 256 {
		c.add("/service_name", "1 to 256 bytes")
	}
	c.resource(cfg.Resource)
	if !cfg.Demo {
		o.endpoint = c.endpoint(&cfg)
		o.tls = c.tls(&cfg, o.endpoint, s.Secrets["tls_key"])
	} else if cfg.Endpoint != "" || cfg.TLS != nil || s.Secrets["tls_key"] != "" {
		c.add("/demo", "not allowed with endpoint, no tls and no tls_key: nothing is sent")
	}
	c.headers(o.headers, cfg.Headers, s.Secrets["headers"])
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return o, nil
}

func (c *checker) oneOf(field, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	c.add(field, "one of "+strings.Join(allowed, ", "))
}

func (c *checker) duration(field, value string, low, high time.Duration) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < low || d > high {
		c.add(field, "a duration of "+low.String()+" to "+high.String()+`, such as "5s"`)
	}
	return d
}

func (c *checker) resource(m map[string]string) {
	if len(m) > 32 {
		c.add("/resource", "at most 32 attributes")
	}
	for k, v := range m {
		switch {
		case k == "" || len(k) > 256 || len(v) > 1024:
			c.add("/resource", "names of 1 to 256 bytes and values of at most 1024")
		case k == "service.name" || k == "service.instance.id" || strings.HasPrefix(k, "yett."):
			c.add("/resource", k+" is set by the plugin; service.name is the setting service_name")
		}
	}
}

// endpoint checks the URL. It returns one that is fit to be looked at even when there are problems.
func (c *checker) endpoint(cfg *config) *url.URL {
	const field = "/endpoint"
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || len(cfg.Endpoint) > 2048 || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		c.add(field, `an http:// or https:// URL of at most 2048 bytes, such as "http://127.0.0.1:4318"`)
		return &url.URL{Scheme: "http", Host: "127.0.0.1"}
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		c.add(field, "no user, query or fragment: credentials go into the secret headers")
	}
	bare := u.Path == "" || u.Path == "/"
	switch {
	case cfg.Protocol == protocolGRPC && !bare:
		c.add(field, "over gRPC there is no path")
	case bare:
		u.Path = "/v1/logs"
	}
	if u.Scheme == "http" && !cfg.AllowPlaintext && !remote.Loopback(u.Hostname()) {
		c.add(field, "http:// sends the log in clear over the network: use https://, or set allow_plaintext")
	}
	return u
}

func (c *checker) tls(cfg *config, u *url.URL, key string) *tls.Config {
	t := cfg.TLS
	if t == nil {
		t = &remote.TLS{}
	}
	if u.Scheme != "https" {
		if cfg.TLS != nil || key != "" {
			c.add("/tls", "TLS settings and the secret tls_key need an https:// endpoint")
		}
		return nil
	}
	return t.Client(key, c.add)
}

// headers takes the plain ones and those of the secret, one "Name: value" a line. Problems never quote a value.
func (c *checker) headers(dst http.Header, plain map[string]string, secret string) {
	if len(plain) > maxHeaders {
		c.add("/headers", "at most 32 headers")
	}
	for name, value := range plain {
		c.header(dst, "/headers", name, value)
	}
	lines := 0
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if lines++; !ok || lines > maxHeaders {
			c.add("secrets.headers", `at most 32 lines of "Name: value"`)
			return
		}
		c.header(dst, "secrets.headers", strings.TrimSpace(name), strings.TrimSpace(value))
	}
}

func (c *checker) header(dst http.Header, field, name, value string) {
	switch lower := strings.ToLower(name); {
	case name == "" || len(name) > 128 || !isName(lower):
		c.add(field, "a name is not of 1 to 128 letters, digits, - _ and .")
	case len(value) > 4096 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		c.add(field, "the value of "+name+" is not of at most 4096 printable ASCII characters")
	case ownHeaders[lower] || strings.HasPrefix(lower, "grpc-") || strings.HasSuffix(lower, "-bin"):
		c.add(field, name+" belongs to the protocol")
	case len(dst.Values(name)) > 0:
		c.add(field, name+" is given twice")
	default:
		dst.Set(name, value)
	}
}

func isName(lower string) bool {
	return !strings.ContainsFunc(lower, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_.", r)
	})
}

// ownHeaders belong to the protocol or the connection.
var ownHeaders = map[string]bool{
	"accept": true, "accept-encoding": true, "connection": true, "content-encoding": true, "content-length": true,
	"content-type": true, "host": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
	"user-agent": true,
}
