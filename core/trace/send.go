package trace

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds of what waits and of what is sent at once.
const (
	mostWaiting = 4096 // spans
	mostBatch   = 512  // spans of one request to the collector
	batchEvery  = time.Second
	sendMost    = 10 * time.Second
	lastMost    = 2 * time.Second // for what waits at the end
	sayEvery    = time.Minute
	mostAnswer  = 4 << 10 // bytes of an answer that are read, so that its connection can be used again
)

// Settings are what a Tracer needs. TLS, Token and Log may be left out.
type Settings struct {
	Endpoint string      // where OTLP over HTTP is taken, such as http://127.0.0.1:4318/v1/traces
	TLS      *tls.Config // nil: the machine's authorities
	Token    string      // sent as Authorization: Bearer TOKEN; "": none
	Share    float64     // of the requests that bring no traceparent: 0 follows none, 1 all
	Version  string
	Now      func() time.Time
	Random   func([]byte)
	Log      func(format string, args ...any) // must not wait
}

// Tracer keeps spans and sends them. Safe for concurrent use.
type Tracer struct {
	set    Settings
	client *http.Client
	counts

	mu      sync.Mutex
	waiting []span
	wake    chan struct{} // there is a whole batch
	closing chan struct{}
	done    chan struct{}
	giveUp  context.CancelFunc // what is being sent is dropped
	said    time.Time          // the sender's own
	unsaid  uint64             // dropped, as far as the log tells
}

// New makes a Tracer that sends until Close.
func New(set Settings) *Tracer {
	if set.Log == nil {
		set.Log = func(string, ...any) {}
	}
	t := &Tracer{set: set, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		client: &http.Client{Timeout: sendMost, Transport: &http.Transport{TLSClientConfig: set.TLS, MaxIdleConns: 1,
			IdleConnTimeout: time.Minute}, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // who takes spans is named by the operator
		}}}
	ctx, giveUp := context.WithCancel(context.Background())
	t.giveUp = giveUp
	go t.run(ctx)
	return t
}

// queue keeps spans until they are sent, or drops them.
func (t *Tracer) queue(spans []span) {
	t.mu.Lock()
	room := mostWaiting - len(t.waiting)
	full := len(spans) > room
	if !full {
		t.waiting = append(t.waiting, spans...)
	}
	whole := len(t.waiting) >= mostBatch
	t.mu.Unlock()
	if full { // all of a request or nothing of it
		t.dropped.Add(uint64(len(spans)))
	}
	if whole {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// Counts is how many spans were sent, and how many were dropped: there was no room, or the collector did not take them.
func (t *Tracer) Counts() (sent, dropped uint64) { return t.sent.Load(), t.dropped.Load() }

func (t *Tracer) run(ctx context.Context) {
	defer close(t.done)
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.wake:
		case <-t.closing:
			for t.sendBatch(ctx) == nil && t.left() {
			}
			t.dropRest()
			return
		}
		err := t.sendBatch(ctx)
		for ; err == nil && t.left(); err = t.sendBatch(ctx) {
		}
		t.say(err)
	}
}

// dropRest drops what will never be sent.
func (t *Tracer) dropRest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped.Add(uint64(len(t.waiting)))
	t.waiting = nil
}

func (t *Tracer) left() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) > 0
}

// sendBatch sends what waits, up to a batch. What the collector does not take is dropped: traces are not worth a retry
// that makes others wait.
func (t *Tracer) sendBatch(ctx context.Context) error {
	t.mu.Lock()
	n := min(len(t.waiting), mostBatch)
	batch := t.waiting[:n:n]
	if t.waiting = t.waiting[n:]; len(t.waiting) == 0 {
		t.waiting = nil
	}
	t.mu.Unlock()
	if n == 0 {
		return nil
	}
	err := t.post(ctx, request(nil, t.set.Version, batch))
	if err != nil {
		t.dropped.Add(uint64(n))
		return err
	}
	t.sent.Add(uint64(n))
	return nil
}

func (t *Tracer) post(ctx context.Context, body []byte) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.set.Endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if t.set.Token != "" {
		req.Header.Set("Authorization", "Bearer "+t.set.Token)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the collector answered %s", resp.Status)
	}
	return nil
}

// say tells the log of spans that were dropped, once a minute at most.
func (t *Tracer) say(err error) {
	dropped := t.dropped.Load()
	if now := t.set.Now(); dropped > t.unsaid && now.Sub(t.said) >= sayEvery {
		why := "they came faster than they could be sent"
		if err != nil {
			why = err.Error()
		}
		t.set.Log("traces: %d spans were dropped: %s", dropped-t.unsaid, why)
		t.unsaid, t.said = dropped, now
	}
}

// Close sends what waits, for a while at most. No request may be followed any more.
func (t *Tracer) Close(ctx context.Context) {
	close(t.closing)
	late := time.NewTimer(lastMost)
	defer late.Stop()
	select {
	case <-t.done:
	case <-ctx.Done():
	case <-late.C:
	}
	t.giveUp()
	<-t.done
	t.said = time.Time{} // the last word is always said
	t.say(errors.New("the collector did not take the last ones"))
	t.client.CloseIdleConnections()
}
