package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

// httpLink is the HTTP transport.
type httpLink struct {
	base, key string
	client    *http.Client
}

var errRedirect = errors.New("the server answered with a redirect, which the key does not follow")

func newHTTPLink(base string, opts *Options) *httpLink {
	t := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme != "https" || opts.NoEnvironment {
				return nil, nil // over http a proxy would read the key
			}
			return http.ProxyFromEnvironment(r)
		},
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        50 * time.Second, // below the server's 60 s, so that it is us who close
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	if opts.TLS != nil {
		t.TLSClientConfig = opts.TLS.Clone()
	} else {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &httpLink{base: base, key: opts.Key, client: &http.Client{Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}}
}

func (h *httpLink) request(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request,
	error) {
	u := h.base + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	var content io.Reader
	if method != http.MethodGet { // which has no body; the query says it all
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+h.key)
	req.Header.Set("User-Agent", "yett-client-go")
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// send makes one attempt.
func (h *httpLink) send(ctx context.Context, r *request, idempotency string) (*reply, error) {
	path, err := pathOf(r.op.path, r.id)
	if err != nil {
		return nil, err
	}
	req, err := h.request(ctx, r.op.method, path, r.query, r.body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if idempotency != "" {
		req.Header.Set("Idempotency-Key", idempotency)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, h.lost(ctx, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, h.lost(ctx, err)
	}
	if len(text) > maxAnswer {
		return nil, malformed("more than the limit of %d bytes", maxAnswer)
	}
	return readHTTP(resp, string(text), r)
}

// lost says why there is no answer, without the URL that net/http puts in front.
func (h *httpLink) lost(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, errRedirect) {
		return malformed("%v", errRedirect)
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return lostErr(err, true)
}

// readHTTP tells an answer from an error. Anything that is neither is malformed, whatever its status says.
func readHTTP(resp *http.Response, body string, r *request) (*reply, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	// deny_status
	answer := resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusForbidden && r.op == opAuthorize
	if answer && kind == "application/json" {
		root, err := parseAnswer(body, r.list)
		if err != nil {
			return nil, err
		}
		return &reply{root: root, status: resp.StatusCode, header: resp.Header.Get}, nil
	}
	if resp.StatusCode == http.StatusOK {
		return nil, malformed("status 200 with content type %.80q", kind)
	}
	e, ok := problemIn(resp.StatusCode, body)
	switch {
	case ok && kind == "application/problem+json":
	case busy(resp.StatusCode): // of a proxy in between
		e = &Error{Status: resp.StatusCode, Detail: "an error that is not one of Yett's",
			RequestID: resp.Header.Get("X-Request-Id")}
	default: // a 404 of some other server must not be taken for "no such defer"
		return nil, malformed("status %d without a problem document", resp.StatusCode)
	}
	e.RetryAfter = retryAfterHeader(resp.Header.Get("Retry-After"), time.Now())
	return nil, e
}

// busy are the statuses that may be over in a moment.
func busy(status int) bool {
	return status == 429 || status == 502 || status == 503 || status == 504
}

func parseAnswer(body string, list bool) (exact.Value, error) {
	if !list {
		return parse(body)
	}
	doc := new(exact.Doc)
	if err := doc.Parse(body, answerLimits); err != nil {
		return exact.Value{}, malformed("%v", err)
	}
	if k := doc.Root().Kind(); k != exact.Array {
		return exact.Value{}, malformed("%v instead of an array", k)
	}
	return doc.Root(), nil
}

// retryAfterHeader reads seconds or an HTTP date; what is neither asks for nothing.
func retryAfterHeader(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(v); err == nil && n >= 0 && n < 1<<31 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
