package mcpbridge

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

// do sends one HTTP request to the gateway. The caller closes the answer's body.
func (b *Bridge) do(ctx context.Context, method string, m *message, last string, written func(),
) (*http.Response, error) {
	if written != nil {
		defer written()
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { written() }})
	}
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(m.text)
	}
	r, err := http.NewRequestWithContext(ctx, method, b.URL, body)
	if err != nil {
		return nil, err
	}
	h := r.Header
	h.Set("Authorization", "Bearer "+b.Key)
	h.Set("User-Agent", "yett-mcp")
	h.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		h.Set("Content-Type", "application/json")
	}
	if last != "" {
		h.Set("Last-Event-Id", last)
	}
	if m.modern {
		h.Set("Mcp-Protocol-Version", m.version)
		h.Set("Mcp-Method", headerText(m.method))
		if _, is := named[m.method]; is {
			h.Set("Mcp-Name", headerText(m.name))
		}
		return b.Client.Do(r)
	}
	b.mu.Lock()
	if m.method != "initialize" {
		m.session = b.session
		if b.version != "" {
			h.Set("Mcp-Protocol-Version", b.version)
		}
	}
	b.mu.Unlock()
	if m.session != "" {
		h.Set("Mcp-Session-Id", m.session)
	}
	return b.Client.Do(r)
}

// headerText is a text as the value of a header, in base64 where a header cannot hold it as it is.
func headerText(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for _, c := range []byte(s) {
		plain = plain && c >= 0x20 && c <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// why says what a failure means, without the address twice.
func (b *Bridge) why(err error) error {
	var u interface{ Unwrap() error }
	if errors.As(err, &u) && u.Unwrap() != nil {
		err = u.Unwrap()
	}
	return fmt.Errorf("the gateway at %s cannot be reached: %w", b.URL, err)
}

// post sends what needs no answer.
func (b *Bridge) post(ctx context.Context, m *message) (status int, body string, err error) {
	resp, err := b.do(ctx, http.MethodPost, m, "", nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, string(text), err
}

// request sends a request and writes what comes for it. It always ends with an answer, unless the client has given the
// request up or is gone.
func (b *Bridge) request(ctx context.Context, m *message, written func()) {
	resp, err := b.do(ctx, http.MethodPost, m, "", written)
	if err != nil {
		b.failRequest(ctx, m, b.why(err))
		return
	}
	if m.method == "initialize" && !m.modern && resp.StatusCode == http.StatusOK {
		b.mu.Lock()
		b.session, b.version, b.over = resp.Header.Get("Mcp-Session-Id"), "", false
		b.mu.Unlock()
	}
	b.lose(resp.StatusCode, m)
	for {
		done, last, err := b.answer(m, resp)
		_ = resp.Body.Close() // in vain: nothing more is read
		if done {
			return
		}
		if last == "" || m.modern || ctx.Err() != nil {
			b.failRequest(ctx, m, err)
			return
		}
		if !pause(ctx, streamPause) { // a stream whose events have ids goes on
			b.failRequest(ctx, m, err)
			return
		}
		if resp, err = b.do(ctx, http.MethodGet, m, last, nil); err != nil {
			b.failRequest(ctx, m, b.why(err))
			return
		}
	}
}

func (b *Bridge) failRequest(ctx context.Context, m *message, err error) {
	if ctx.Err() == nil {
		b.answered(m)
		b.fail(m.id, codeInternal, err.Error())
	}
}

// errNoAnswer says what is wrong with a stream that ends.
var errNoAnswer = errors.New("the gateway ended its answer before the result")

// answer writes the messages of one HTTP answer. done says that the request has its answer now. last is the id of the
// last event, from which the stream can be resumed.
func (b *Bridge) answer(m *message, resp *http.Response) (done bool, last string, err error) {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media == "text/event-stream" && resp.StatusCode == http.StatusOK {
		events := newReader(resp.Body)
		for {
			e, err := events.next()
			if e.id != "" {
				last = e.id
			}
			if err != nil {
				if errors.Is(err, errTooLong) {
					return false, "", err
				}
				return false, last, errNoAnswer
			}
			if e.data != "" && b.pass(m, e.data) {
				return true, last, nil
			}
		}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxMessage+1))
	switch {
	case err != nil:
		return false, "", errNoAnswer
	case len(text) > MaxMessage:
		return false, "", errTooLong
	case media == "application/json" && b.pass(m, string(text)):
		return true, "", nil
	}
	return false, "", fmt.Errorf("the gateway answered with HTTP status %d and no message: check --server and the key",
		resp.StatusCode)
}

// pass writes a message of the gateway as it is, and says whether it answers the request. An error without an id is the
// gateway's word about the request: it gets the id, so that the client knows it.
func (b *Bridge) pass(m *message, text string) (answers bool) {
	doc, err := parse(text)
	if err != nil {
		b.warn("the gateway sent what is no message: %v", err)
		return false
	}
	root := doc.Root()
	if root.Kind() != exact.Object || root.Get("jsonrpc").Str() != "2.0" {
		b.warn("the gateway sent what is no message")
		return false
	}
	if root.Get("method").Exists() {
		b.write(text)
		return false
	}
	id := root.Get("id")
	switch {
	case keyOf(id) == m.key && m.key != "":
	case id.Kind() == exact.Null && root.Get("error").Exists():
		from, to := id.Span()
		text = text[:from] + m.id + text[to:]
	default:
		b.warn("the gateway sent an answer to another request")
		return false
	}
	if m.method == "initialize" && !m.modern {
		b.mu.Lock()
		b.version = root.Get("result").Get("protocolVersion").Str()
		b.mu.Unlock()
	}
	b.answered(m)
	b.write(text)
	return true
}

// listen opens the stream of the older era, on which the server speaks first, and keeps it open.
func (b *Bridge) listen(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	none := b.session == "" || b.listens != nil
	if !none {
		b.listens = cancel
	}
	b.mu.Unlock()
	if none {
		cancel()
		return
	}
	b.streams.Go(func() {
		defer cancel()
		last := ""
		for ctx.Err() == nil && b.stream(ctx, &last) && pause(ctx, streamPause) {
		}
	})
}

// stream passes on what one stream brings. It is false when no other is worth opening.
func (b *Bridge) stream(ctx context.Context, last *string) bool {
	m := &message{}
	resp, err := b.do(ctx, http.MethodGet, m, *last, nil)
	if err != nil {
		return true // said when something is asked
	}
	defer resp.Body.Close()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusConflict || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return true
	case resp.StatusCode != http.StatusOK || media != "text/event-stream":
		b.lose(resp.StatusCode, m)
		return false // the server has none
	}
	events := newReader(resp.Body)
	for {
		e, err := events.next()
		if e.id != "" {
			*last = e.id
		}
		if err != nil {
			return true
		}
		if e.data != "" {
			b.pass(m, e.data)
		}
	}
}

// endSession tells the gateway that the session is over.
func (b *Bridge) endSession() {
	b.mu.Lock()
	session := b.session
	b.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endSession)
	defer cancel()
	resp, err := b.do(ctx, http.MethodDelete, &message{}, "", nil)
	if err != nil {
		return // it ends by itself when it is idle
	}
	_ = resp.Body.Close()
}

// pause waits, and is false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
