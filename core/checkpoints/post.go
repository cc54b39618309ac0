package checkpoints

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is how much of an answer is read, bytes.
const maxAnswer = 64 << 10

// client posts to one address.
type client struct {
	url  string
	http *http.Client
}

// newClient trusts roots, or the machine's authorities without them. It takes no proxy from the environment.
func newClient(url string, roots *x509.CertPool) *client {
	return &client{url: url, http: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			MaxConnsPerHost: 1, MaxIdleConns: 1, IdleConnTimeout: 2 * time.Minute, MaxResponseHeaderBytes: maxAnswer},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// answer is what came back, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// post sends a body. An error means that there is no answer; it names the host, and neither query nor path, which may
// hold a secret.
func (c *client) post(ctx context.Context, header http.Header, body string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL makes no request")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "yett/1")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.why(ctx, req, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.why(ctx, req, err)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s is larger than %d bytes", req.URL.Host, maxAnswer)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, fmt.Errorf("%s answered %d: redirects are not followed; give the address itself", req.URL.Host,
			resp.StatusCode)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: data}, nil
}

// why takes the URL out of an error of net/http.
func (c *client) why(ctx context.Context, req *http.Request, err error) error {
	if ctx.Err() != nil {
		return errHangs
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("ask %s: %w", req.URL.Host, err)
}

func (c *client) close() { c.http.CloseIdleConnections() }

// refusal is what an answer with another status than 2xx says.
func (c *client) refusal(a *answer) error {
	return fmt.Errorf("it answered %d %s", a.status, http.StatusText(a.status))
}
