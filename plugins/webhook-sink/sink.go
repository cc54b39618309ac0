package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

// maxAnswer is how much of an answer is read. Nothing in it is used.
const maxAnswer = 4 << 10

// sink is the subscriber.
type sink struct {
	clock signedhttp.Clock

	mu     sync.Mutex // held for a whole batch: batches come one at a time
	set    settings
	client *signedhttp.Client
	demo   *signedhttp.Demo
	header http.Header
	notYet time.Time // the service asked not to be called before
}

func newSink() *sink { return &sink{clock: signedhttp.SystemClock()} }

func newPlugin() plugin.Subscriber {
	s := newSink()
	return plugin.Subscriber{
		Info: plugin.Info{
			Name: "webhook-sink", Version: "1.0.0", Description: "posts the audit log to an HTTP service, signed as Standard " +
				"Webhooks says",
			ConfigSchema: schema, ExampleConfig: `{"demo": true}`,
			Secrets: []plugin.Secret{
				{Name: signedhttp.SecretSigning, Description: "whsec_… that signs; required unless unsigned or demo is set"},
				{Name: signedhttp.SecretSigningOther, Description: "whsec_… that signs too, while the receiver changes from one to the other"},
				{Name: signedhttp.SecretAuthorization, Description: "value of the Authorization header, if the service wants one"},
			},
		},
		Validate:  func(_ context.Context, in plugin.Settings) error { _, err := read(in); return err },
		Configure: func(_ context.Context, in plugin.Settings) error { return s.configure(in) },
		Consume:   s.consume,
		Close:     s.close,
	}
}

func (s *sink) configure(in plugin.Settings) error {
	set, err := read(in)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if set.demo {
		in.Log.Warn("demo: records are taken in and kept nowhere")
		if s.demo, err = signedhttp.StartDemo("{}"); err != nil {
			return err
		}
		set.endpoint.URL = s.demo.URL
	}
	if s.client, err = set.endpoint.New(1, maxAnswer); err != nil {
		return plugin.Problem{Field: "/tls", Message: err.Error()}
	}
	s.set, s.header = set, http.Header{}
	if set.authorization != "" {
		s.header.Set("Authorization", set.authorization)
	}
	return nil
}

// consume posts a batch: nil when the service took all of it. A *plugin.RecordError is about a record that the service
// refuses. Any other error is the service's or the operator's affair: no record is held to be the cause, and what was
// not taken comes again for as long as that lasts. A *plugin.Later says what was taken before.
func (s *sink) consume(ctx context.Context, b *plugin.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return errors.New("the plugin is not configured, or is closed")
	}
	if !signedhttp.Name(b.StoreID) {
		return errors.New("the store id cannot be part of a webhook-id: letters, digits, _ and - only")
	}
	until := s.clock.Now().Add(s.set.retryFor)
	// a last try does not run into the host's own limit
	ctx, cancel := context.WithTimeout(ctx, max(s.set.retryFor, s.set.timeout))
	defer cancel()
	if d := s.notYet.Sub(s.clock.Now()); d > 0 {
		if !s.notYet.Before(until) {
			return fmt.Errorf("the service asked not to be called before %s", s.notYet.UTC().Format(time.RFC3339))
		}
		if err := s.clock.Wait(ctx, d); err != nil {
			return err
		}
	}
	for i, p := range parts(b, s.set.perRecord) {
		if err := s.send(ctx, until, b, p); err != nil {
			return behind(i > 0, p, err)
		}
	}
	return nil
}

// behind says of an outage that all before the part was taken, if anything was, so that it is not posted again. Where
// nothing was, the batch comes again as it is, with the same webhook-id.
func behind(taken bool, p part, err error) error {
	if err == nil {
		return nil
	}
	var refused *plugin.RecordError
	var later *plugin.Later
	if !taken || errors.As(err, &refused) || errors.As(err, &later) {
		return err
	}
	return &plugin.Later{Seq: p.seq(), Err: err}
}

// send posts one part. What the service refuses for its content is sent in halves, down to the record that it refuses.
func (s *sink) send(ctx context.Context, until time.Time, b *plugin.Batch, p part) error {
	body, err := p.body(b)
	if err != nil {
		return &plugin.RecordError{Seq: p.seq(), Err: err}
	}
	m := signedhttp.Message{ID: p.id(b), Body: body, Header: s.header.Clone(), Secrets: s.set.secrets, Replays: true}
	err = signedhttp.Deliver(ctx, s.clock, until, func(ctx context.Context) (time.Duration, bool, error) {
		return s.client.Once(ctx, s.clock, s.set.timeout, m)
	})
	var refused *signedhttp.Refused
	var unready *signedhttp.Unready
	switch {
	case errors.As(err, &unready):
		s.notYet = unready.Until
		return err
	case !errors.As(err, &refused) || !refused.OfContent():
		return err
	case !p.splits():
		return &plugin.RecordError{Seq: p.seq(), Err: err}
	}
	first, second := p.halves()
	if err := s.send(ctx, until, b, first); err != nil {
		return err
	}
	return behind(true, second, s.send(ctx, until, b, second))
}

func (s *sink) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
	if s.demo == nil {
		return nil
	}
	d := s.demo
	s.demo = nil
	return d.Close(ctx)
}
