package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Stream is an open subscription. It makes its connection again when it is lost and resumes behind what it has
// delivered, so that each record comes once and in order. Next is for one goroutine at a time; Close may be called at
// any time.
type Stream[T any] struct {
	items chan item[T]
	stop  context.CancelFunc
	done  chan struct{}
	once  sync.Once

	last error // the end, once it was delivered
}

type item[T any] struct {
	v   T
	err error
}

// GapError says that records are gone for good: the server no longer has them, or skipped them. The stream goes on
// behind them.
type GapError struct{ From, To uint64 }

// Error names the records.
func (e *GapError) Error() string {
	return fmt.Sprintf("the records %d to %d are gone", e.From, e.To)
}

// feed is one connection of a stream.
type feed[T any] interface {
	// next waits for the next item. A *GapError does not end the feed, any other error does.
	next() (T, error)
	// close ends a next that waits. It may be called more than once, from anywhere.
	close()
}

// opener connects, behind what was delivered so far.
type opener[T any] func(ctx context.Context) (feed[T], error)

// stream opens the first connection, with the client's retries, and starts to read.
func stream[T any](ctx context.Context, c *Client, open opener[T]) (*Stream[T], error) {
	first, err := reopen(ctx, c, open, c.opts.Retries)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.Background())
	s := &Stream[T]{items: make(chan item[T]), stop: stop, done: make(chan struct{})}
	go s.run(life, c, open, first)
	return s, nil
}

// reopen tries until it is connected, the error cannot be helped, or retries (-1: no limit) are used up.
func reopen[T any](ctx context.Context, c *Client, open opener[T], retries int) (feed[T], error) {
	for n := 0; ; n++ {
		if c.closed.Load() {
			return nil, ErrClosed
		}
		f, err := func() (feed[T], error) {
			attempt, cancel := context.WithTimeout(ctx, c.opts.Timeout)
			defer cancel()
			return open(attempt)
		}()
		switch {
		case err == nil:
			return f, nil
		case ctx.Err() != nil:
			return nil, joined(ctx, err)
		case !retryable(err) || n == retries:
			return nil, err
		}
		if !c.pause(ctx, backoff(n, retryAfter(err))) {
			return nil, joined(ctx, err)
		}
	}
}

func (s *Stream[T]) run(ctx context.Context, c *Client, open opener[T], f feed[T]) {
	defer close(s.done)
	quick := 0 // connections that brought nothing, one after another
	for {
		brought, err := s.drain(ctx, f)
		if ctx.Err() != nil {
			return
		}
		if !resumable(err) {
			s.deliver(ctx, item[T]{err: err})
			return
		}
		if c.opts.OnLost != nil {
			c.opts.OnLost(err)
		}
		if quick++; brought {
			quick = 0
		}
		if quick > 0 && !c.pause(ctx, backoff(quick, 0)) {
			return
		}
		if f, err = reopen(ctx, c, open, -1); err != nil {
			if ctx.Err() == nil {
				s.deliver(ctx, item[T]{err: err})
			}
			return
		}
	}
}

// drain delivers what one connection brings, and gives the reason of its end.
func (s *Stream[T]) drain(ctx context.Context, f feed[T]) (brought bool, err error) {
	defer f.close()
	defer context.AfterFunc(ctx, f.close)()
	for {
		v, err := f.next()
		var gap *GapError
		if err != nil && !errors.As(err, &gap) {
			return brought, err
		}
		brought = true
		if !s.deliver(ctx, item[T]{v, err}) {
			return brought, ctx.Err()
		}
	}
}

func (s *Stream[T]) deliver(ctx context.Context, it item[T]) bool {
	select {
	case s.items <- it:
		return true
	case <-ctx.Done():
		return false
	}
}

// closing is the server's last line on a connection that it ends.
type closing struct{ reason string }

func (e *closing) Error() string {
	if e.reason == "" {
		return "the server closed the stream"
	}
	return "the server closed the stream: " + e.reason
}

func resumable(err error) bool {
	var end *closing
	return errors.As(err, &end) || retryable(err)
}

// Next waits for the next record. ctx's error ends only this call: nothing is lost. A *GapError says that records are
// gone, and the stream goes on; every other error is the end and comes again on each further call.
func (s *Stream[T]) Next(ctx context.Context) (T, error) {
	var none T
	if s.last != nil {
		return none, s.last
	}
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	select {
	case it := <-s.items:
		return s.unpackItem(it)
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-s.done:
		s.last = ErrClosed
		return none, s.last
	}
}

func (s *Stream[T]) unpackItem(it item[T]) (T, error) {
	var gap *GapError
	if it.err != nil && !errors.As(it.err, &gap) {
		s.last = it.err
	}
	return it.v, it.err
}

// All ranges over Next until ctx ends, the stream is closed, or an error ends it. A *GapError is yielded and the range
// goes on; the error that ends it is yielded last. The end of ctx and Close yield none.
func (s *Stream[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			v, err := s.Next(ctx)
			var gap *GapError
			end := err != nil && !errors.As(err, &gap)
			if end && (ctx.Err() != nil || errors.Is(err, ErrClosed)) {
				return
			}
			if !yield(v, err) || end {
				return
			}
		}
	}
}

// Close ends the stream and waits for its connection to end.
func (s *Stream[T]) Close() error {
	s.once.Do(s.stop)
	select {
	case <-s.done:
	case <-time.After(10 * time.Second): // a Close that hangs would be worse than a goroutine that does
		return errors.New("the stream's connection does not end")
	}
	return nil
}
