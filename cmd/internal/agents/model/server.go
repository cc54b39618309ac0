package model

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Server plays the model. Its methods may be called at any time, from any goroutine, also after Close.
type Server struct {
	script Script
	key    string
	nonce  string // in the ids of calls, so that two servers never give the same id
	url    string
	http   *http.Server
	served chan struct{}

	mu      sync.Mutex
	kept    []*Request
	bytes   int // of all kept requests
	used    []bool
	issued  []Issued
	answers int
	open    *Request // the request whose calls are open
	changed chan struct{}
}

// Start checks a script and serves it on a free port of 127.0.0.1, until Close.
func Start(script Script) (*Server, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("make a key for the model server: %w", err)
	}
	text := hex.EncodeToString(random)
	s, err := newServer(script, "sk-"+text[8:], text[:8])
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback for the model server: %w", err)
	}
	s.url = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l) // it ends with Close alone
	}()
	return s, nil
}

func newServer(script Script, key, nonce string) (*Server, error) {
	if err := script.check(); err != nil {
		return nil, err
	}
	if script.Closing == "" {
		script.Closing = "The script is over."
	}
	if script.Auxiliary == nil {
		script.Auxiliary = WithoutTools
	}
	if script.AuxiliaryText == nil {
		script.AuxiliaryText = AuxiliaryReply
	}
	if script.Models == nil {
		script.Models = []string{"scripted"}
	}
	script.Turns = slices.Clone(script.Turns)
	return &Server{script: script, key: key, nonce: nonce, used: make([]bool, len(script.Turns)),
		served: make(chan struct{}), changed: make(chan struct{})}, nil
}

// URL is the server's root, without a slash at its end. OpenAI clients want URL()+"/v1".
func (s *Server) URL() string { return s.url }

// Key is the key that a client must send: in x-api-key, x-goog-api-key, as a bearer, or as the query's key.
func (s *Server) Key() string { return s.key }

// Close ends the listener and all connections, and waits for the listener's end.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.served
	return err
}

// Sent is every request so far, in the order of arrival.
func (s *Server) Sent() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept)
}

// Of is every request so far of one kind.
func (s *Server) Of(kind Kind) []*Request {
	return slices.DeleteFunc(s.Sent(), func(r *Request) bool { return r.Kind != kind })
}

// Contains says whether any request contains a text, see Request.Contains.
func (s *Server) Contains(text string) bool {
	return slices.ContainsFunc(s.Sent(), func(r *Request) bool { return r.Contains(text) })
}

// Calls are the calls that the server made, in order.
func (s *Server) Calls() []Issued {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.issued)
}

// Results are the different results that came back for a call, in order. A client sends its history with each request:
// more than one means that it changed what it had said.
func (s *Server) Results(callID string) []Result {
	var out []Result
	for _, r := range s.Sent() {
		if r.Kind == Refused {
			continue
		}
		for _, got := range r.Results {
			same := func(o Result) bool { return o.Text == got.Text && o.Failed == got.Failed }
			if got.CallID == callID && !slices.ContainsFunc(out, same) {
				out = append(out, got)
			}
		}
	}
	return out
}

// Err says in which ways the run left the script: turns that nobody asked for, calls without a result, requests that
// were refused or beyond the script. Nil means that it was followed to its end.
func (s *Server) Err() error {
	var errs []error
	for i, r := range s.Sent() {
		if r.Kind == Extra || r.Kind == Refused {
			errs = append(errs, fmt.Errorf("request %d (%s %s) was %s: %s", i, r.Method, r.Path, r.Kind, r.Why))
		}
	}
	s.mu.Lock()
	used := slices.Clone(s.used)
	s.mu.Unlock()
	for i, done := range used {
		if !done {
			errs = append(errs, fmt.Errorf("no request asked for turn %d", i))
		}
	}
	for _, c := range s.Calls() {
		if len(s.Results(c.ID)) == 0 {
			errs = append(errs, fmt.Errorf("no result came back for the call %s of %s in turn %d", c.ID, c.Tool, c.Turn))
		}
	}
	return errors.Join(errs...)
}

// Await returns when the requests so far satisfy a condition, or with the context's error.
func (s *Server) Await(ctx context.Context, enough func([]*Request) bool) error {
	for {
		s.mu.Lock()
		sent, changed := slices.Clone(s.kept), s.changed
		s.mu.Unlock()
		if enough(sent) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("after %d requests to the model: %w", len(sent), ctx.Err())
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	r := &Request{Method: in.Method, Path: in.URL.Path, Turn: -1, Status: http.StatusOK}
	r.Header, r.Query = withoutKeys(in)
	contentType := "application/json"
	if in.Method != http.MethodHead && !s.authentic(in) { // a probe carries no key, and gets nothing but a status
		s.keep(r.refuse(http.StatusUnauthorized, "the request does not carry this server's key"))
	} else if body, status, err := readBody(in); err != nil {
		s.keep(r.refuse(status, err.Error()))
	} else {
		r.Body = body
		contentType = s.reply(r, in)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Answer) // a client that hung up asks again, or its run ends
}

// authentic says whether a request carries the key. Nobody else on the machine can use up a turn.
func (s *Server) authentic(in *http.Request) bool {
	given := []string{in.Header.Get("X-Api-Key"), in.Header.Get("X-Goog-Api-Key"), in.URL.Query().Get("key")}
	const bearer = "Bearer "
	if a := in.Header.Get("Authorization"); len(a) > len(bearer) && a[:len(bearer)] == bearer {
		given = append(given, a[len(bearer):])
	}
	return slices.ContainsFunc(given, func(k string) bool {
		return subtle.ConstantTimeCompare([]byte(k), []byte(s.key)) == 1
	})
}

// secretHeaders are the headers that are not kept.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie"}

func withoutKeys(in *http.Request) (http.Header, string) {
	h := in.Header.Clone()
	for _, name := range secretHeaders {
		h.Del(name)
	}
	q := in.URL.Query()
	if !q.Has("key") {
		return h, in.URL.RawQuery
	}
	q.Del("key")
	return h, q.Encode()
}

func readBody(in *http.Request) (body []byte, status int, err error) {
	var from io.Reader = in.Body
	switch encoding := in.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		if from, err = gzip.NewReader(in.Body); err != nil {
			return nil, http.StatusBadRequest, fmt.Errorf("the body is not gzip: %w", err)
		}
	default:
		return nil, http.StatusUnsupportedMediaType,
			fmt.Errorf("content encoding %q: expected none or gzip", encoding)
	}
	body, err = io.ReadAll(io.LimitReader(from, maxBody+1))
	switch {
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("read the body: %w", err)
	case len(body) > maxBody:
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is over the limit of %d bytes", maxBody)
	}
	return body, 0, nil
}
