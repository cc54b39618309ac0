package mcpd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"time"

	"github.com/yett-dev/yett/config"
)

// upstream speaks to one server.
type upstream interface {
	// send forwards one HTTP request's worth. The caller closes what it gives.
	send(ctx context.Context, o *outgoing) (*incoming, error)
	close()
}

// outgoing is what a client sends to a server.
type outgoing struct {
	method  string // of HTTP
	body    string // one message; "" for GET and DELETE
	msg     *message
	header  http.Header // the client's; only what belongs to MCP is passed on
	session string      // the server's own session id
	key     string      // the id of the client's key
	modern  bool        // the message is of the newer era
	wrote   func()      // called once the message has been handed over; may be called more than once
}

// incoming is what a server answers.
type incoming struct {
	status  int
	session string // the server's session id, if it gave one
	one     string // the answer, if it is one message
	events  events // or what follows one by one; nil: neither
	end     func() // ends it; may be called more than once
}

// sentHeaders are those of a client that a server gets. No other is: not Authorization, no cookie.
var sentHeaders = []string{"Accept", "Last-Event-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name",
	"Traceparent", "Tracestate"}

// paramHeaders begin the headers that repeat arguments.
const paramHeaders = "Mcp-Param-"

// remote is a server that is reached by HTTP. Safe for concurrent use.
type remote struct {
	url    string
	extra  map[string]string
	client *http.Client
	most   int64
	within time.Duration
}

func newRemote(name string, set *config.MCPServer, most int64) (*remote, error) {
	t := &http.Transport{Proxy: nil, DisableCompression: true, MaxIdleConnsPerHost: 256, MaxIdleConns: 1024,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: false,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if set.CA != "" {
		pem, err := os.ReadFile(string(set.CA))
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM form", set.CA)
		}
	}
	r := &remote{url: set.URL, extra: map[string]string{}, most: most, within: set.Timeout.Std(),
		client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // it would send the call, and our credentials, elsewhere
		}}}
	for name, ref := range set.Headers {
		r.extra[name] = ref.Value()
	}
	return r, nil
}

func (r *remote) close() { r.client.CloseIdleConnections() }

// errRefusedUs says that the server wants other credentials than the gateway's. What it asked for is not passed on: a
// client would be asked for its own.
var errRefusedUs = errors.New("the server refused the gateway's credentials: check mcp.servers.NAME.headers")

// send implements upstream.
func (r *remote) send(ctx context.Context, o *outgoing) (*incoming, error) {
	ctx, cancel := context.WithCancel(ctx)
	if o.method == http.MethodPost {
		ctx, cancel = context.WithTimeout(ctx, r.within)
	}
	if o.wrote != nil {
		defer o.wrote()
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { o.wrote() }})
	}
	in, err := r.exchange(ctx, o)
	if err != nil {
		cancel()
		return nil, err
	}
	end := in.end
	in.end = func() {
		cancel()
		if end != nil {
			end()
		}
	}
	return in, nil
}

func (r *remote) exchange(ctx context.Context, o *outgoing) (*incoming, error) {
	var body io.Reader
	if o.body != "" {
		body = strings.NewReader(o.body)
	}
	req, err := http.NewRequestWithContext(ctx, o.method, r.url, body)
	if err != nil {
		return nil, err
	}
	for _, name := range sentHeaders {
		if v := o.header[name]; v != nil {
			req.Header[name] = v
		}
	}
	for name, v := range o.header {
		if strings.HasPrefix(name, paramHeaders) {
			req.Header[name] = v
		}
	}
	for name, v := range r.extra {
		req.Header.Set(name, v)
	}
	if o.body != "" {
		req.Header.Set("Content-Type", mediaJSON)
	}
	if o.session != "" {
		req.Header.Set("Mcp-Session-Id", o.session)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "yett")
	// a request that was written once must not be written again: the tool may have run
	req.GetBody = nil
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the server cannot be reached or ended the connection: %w", err)
	}
	return r.read(resp)
}

// read finds out what kind of answer it is, and reads one that is whole.
func (r *remote) read(resp *http.Response) (*incoming, error) {
	in := &incoming{status: resp.StatusCode, session: resp.Header.Get("Mcp-Session-Id"),
		end: func() { _ = resp.Body.Close() }} // in vain: nothing is left to read
	fail := func(err error) (*incoming, error) {
		in.end()
		return nil, err
	}
	switch c := resp.Header.Get("Content-Encoding"); {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fail(errRefusedUs)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fail(fmt.Errorf("the server answers with a redirect (%d): write its final address as url", resp.StatusCode))
	case c != "" && !strings.EqualFold(c, "identity"):
		return fail(fmt.Errorf("the server answers in the coding %q, which was not asked for", c))
	case !visible(in.session):
		return fail(errors.New("the server gave a session id that is too long or has characters that no header may have"))
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case err == nil && media == "text/event-stream" && resp.StatusCode == http.StatusOK:
		in.events = newReader(resp.Body, r.most)
		return in, nil
	case err == nil && media == mediaJSON:
		whole, err := io.ReadAll(io.LimitReader(resp.Body, r.most+1))
		if err != nil {
			return fail(fmt.Errorf("the server's answer ended early: %w", err))
		}
		if int64(len(whole)) > r.most {
			return fail(errTooLong)
		}
		in.one = string(whole)
		in.end()
		return in, nil
	case resp.StatusCode < 300 && resp.ContentLength > 0:
		return fail(fmt.Errorf("the server answers with the media type %q", resp.Header.Get("Content-Type")))
	}
	in.end() // nothing that a client could use
	return in, nil
}

// visible reports whether a session id has the form that MCP gives it. "" is one: there is none.
func visible(id string) bool {
	for _, c := range []byte(id) {
		if c < 0x21 || c > 0x7e {
			return false
		}
	}
	return len(id) <= 1024
}

// decodeHeader is the value of a header that may be written as base64 because it is not ASCII.
func decodeHeader(v string) string {
	text, ok := strings.CutPrefix(v, "=?base64?")
	text, end := strings.CutSuffix(text, "?=")
	if !ok || !end {
		return v
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return v
	}
	return string(raw)
}
