package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// Event is one thing that happened to some action.
type Event struct {
	ID        string          `json:"-"`          // its place in the stream
	EventType string          `json:"event_type"` // action_created…
	Type      string          `json:"type"`       // action.created…
	ActionID  string          `json:"action_id"`
	Data      json.RawMessage `json:"data"`
	Timestamp string          `json:"timestamp"` // RFC 3339
}

// pingEvery is how often the server sends at least a comment; after three times that a silent connection is lost.
const pingEvery = 15 * time.Second

// remembered is how many events are known again when the server sends them twice: more than its backlog.
const remembered = 256

// Events follows all actions that the key may see. Over HTTP only. The stream begins with the last few events and then
// brings what happens. ctx is for connecting; the stream lives until Close.
func (c *Client) Events(ctx context.Context) (*Stream[Event], error) {
	switch {
	case c.closed.Load():
		return nil, ErrClosed
	case c.http == nil:
		return nil, &TransportError{Op: "events", Needs: "URL"}
	case c.opts.Key == "":
		return nil, &Error{Code: sdk.CodeUnauthenticated, Detail: "there is no API key: set Options.Key or YETT_API_KEY"}
	}
	s, err := stream(ctx, c, (&follower{link: c.http, quiet: 3 * pingEvery}).open)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return s, nil
}

// follower is where an event stream stands.
type follower struct {
	link  *httpLink
	quiet time.Duration
	last  string     // id of the event delivered last
	seen  [][32]byte // hashes of the events delivered lately, oldest first
}

// open connects behind the last event. The connection outlives ctx.
func (f *follower) open(ctx context.Context) (feed[Event], error) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(ctx.Err()) })
	req, err := f.link.request(life, http.MethodGet, "/v1/events", nil, nil)
	if err != nil {
		cancel(err)
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-store")
	if f.last != "" {
		req.Header.Set("Last-Event-ID", f.last)
	}
	resp, err := f.link.client.Do(req)
	if err != nil {
		stop()
		cancel(err)
		return nil, f.link.lost(life, err)
	}
	if err := eventStream(resp); err != nil {
		stop()
		cancel(err)
		resp.Body.Close()
		return nil, err
	}
	if !stop() {
		resp.Body.Close()
		return nil, lostErr(ctx.Err(), false)
	}
	quiet := time.AfterFunc(f.quiet, func() { cancel(errQuiet) })
	c := &eventFeed{at: f, body: resp.Body, life: life, cancel: cancel, quiet: quiet}
	c.in = newSSEReader(resp.Body, f.last, func() { quiet.Reset(f.quiet) })
	return c, nil
}

var errQuiet = fmt.Errorf("no sign of life from the server: %w", io.ErrUnexpectedEOF)

// eventStream checks that the answer is a stream and no error.
func eventStream(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return lostErr(err, false)
	}
	if resp.StatusCode == http.StatusOK {
		return malformed("status 200 with content type %.80q", kind)
	}
	_, err = readHTTP(resp, string(text), &request{})
	if err == nil {
		err = malformed("status %d", resp.StatusCode)
	}
	return err
}

// eventFeed is one connection of an event stream.
type eventFeed struct {
	at     *follower
	in     *sseReader
	body   io.Closer
	life   context.Context
	cancel context.CancelCauseFunc
	quiet  *time.Timer
}

func (c *eventFeed) close() {
	c.quiet.Stop()
	c.cancel(context.Canceled)
	c.body.Close()
}

func (c *eventFeed) next() (Event, error) {
	for {
		raw, err := c.in.next()
		switch {
		case errors.Is(err, ErrMalformed):
			return Event{}, err
		case errors.Is(context.Cause(c.life), errQuiet):
			return Event{}, lostErr(errQuiet, false)
		case err != nil:
			return Event{}, lostErr(err, false)
		}
		e, err := eventIn(raw)
		if err != nil {
			return Event{}, err
		}
		if c.at.fresh(raw) {
			return e, nil
		}
	}
}

func eventIn(raw sseEvent) (Event, error) {
	root, err := parse(raw.data)
	if err != nil {
		return Event{}, err
	}
	e := Event{ID: raw.id}
	if err := into(root, &e); err != nil {
		return Event{}, err
	}
	_, err = text(root, "event_type")
	return e, err
}

// fresh reports whether the event was not delivered yet, and remembers it.
func (f *follower) fresh(raw sseEvent) bool {
	f.last = raw.id
	mark := sha256.Sum256([]byte(raw.id + "\x00" + raw.data))
	if slices.Contains(f.seen, mark) {
		return false
	}
	if len(f.seen) == remembered {
		f.seen = slices.Delete(f.seen, 0, 1)
	}
	f.seen = append(f.seen, mark)
	return true
}
