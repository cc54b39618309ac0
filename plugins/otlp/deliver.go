package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/yett-dev/yett/plugins/internal/remote"
	"github.com/yett-dev/yett/sdk/plugin"
)

const (
	firstPause = 200 * time.Millisecond // before the second attempt, doubling
	maxPause   = 5 * time.Second
	maxAfter   = 5 * time.Minute // of what a receiver may ask us to wait
)

// verdict says what a failed request means.
type verdict uint8

const (
	later  verdict = iota // the same request may go through later: busy, down, unreachable
	broken                // neither this request nor another will until somebody mends something: no right, no such path
	refuse                // it is this request's contents, or its size: smaller ones may go through
)

// failure is why a request was not taken in.
type failure struct {
	verdict verdict
	after   time.Duration // later: the receiver asks for so much time
	err     error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// sender carries one request to the receiver. rejected is how many log records of it the receiver did not take, message
// what it said of that.
type sender interface {
	send(ctx context.Context, req *collogspb.ExportLogsServiceRequest) (rejected int64, message string, err *failure)
	close() error
}

// delivery brings one batch to the receiver.
type delivery struct {
	o     *options
	to    sender
	store string
	until time.Time // no attempt is begun after it
	warn  func(message string)
}

// push returns nil when every item was taken in. It sends all of them as one request, and in halves when that is too
// large or is refused for its contents, until the item at fault stands alone; that is a *plugin.RecordError, and
// everything before it was taken in. Items that were taken in along with refused ones are sent again: a receiver does
// not say which it refused.
func (d *delivery) push(ctx context.Context, items []item) error {
	if len(items) == 0 {
		return nil
	}
	req := d.o.request(d.store, items)
	if len(items) > 1 && proto.Size(req) > d.o.maxRequest {
		return d.halves(ctx, items)
	}
	rejected, message, err := d.try(ctx, req)
	switch {
	case err != nil && err.verdict != refuse:
		return err
	case err != nil:
		message = err.Error()
	case rejected == 0:
		if message != "" {
			d.warn(message)
		}
		return nil
	}
	if len(items) == 1 || rejected >= int64(len(items)) {
		if message == "" {
			message = "no reason given"
		}
		return &plugin.RecordError{Seq: items[0].seq, Err: errors.New("the receiver refused it: " + message)}
	}
	return d.halves(ctx, items)
}

func (d *delivery) halves(ctx context.Context, items []item) error {
	if time.Now().After(d.until.Add(d.o.timeout)) {
		return &failure{verdict: later, err: errors.New("the time is over, and the record that it refuses is not found yet")}
	}
	half := len(items) / 2
	if err := d.push(ctx, items[:half]); err != nil {
		return err
	}
	err := d.push(ctx, items[half:])
	var refused *plugin.RecordError
	var later *plugin.Later
	if err == nil || errors.As(err, &refused) || errors.As(err, &later) {
		return err
	}
	return &plugin.Later{Seq: items[half].seq, Err: err} // what is before it is in, and not to be sent again
}

// try sends one request until it is answered for good or the time is over.
func (d *delivery) try(ctx context.Context, req *collogspb.ExportLogsServiceRequest) (int64, string, *failure) {
	pause := firstPause
	for {
		attempt, cancel := context.WithTimeout(ctx, d.o.timeout)
		rejected, message, err := d.to.send(attempt, req)
		cancel()
		if err == nil && rejected < 0 {
			err = &failure{verdict: broken, err: fmt.Errorf("it says that it rejected %d records", rejected)}
		}
		if err == nil || err.verdict != later {
			return rejected, message, err
		}
		wait := max(min(err.after, maxAfter), pause/2+rand.N(pause/2+1))
		if time.Until(d.until) < wait || !remote.Sleep(ctx, wait) {
			return 0, "", err
		}
		pause = min(2*pause, maxPause)
	}
}

// request is one export of items.
func (o *options) request(store string, items []item) *collogspb.ExportLogsServiceRequest {
	scope := &logspb.ScopeLogs{Scope: o.scope(), LogRecords: make([]*logspb.LogRecord, len(items))}
	for i := range items {
		scope.LogRecords[i] = items[i].log
	}
	return &collogspb.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{
		Resource: o.resourceOf(store), ScopeLogs: []*logspb.ScopeLogs{scope},
	}}}
}
