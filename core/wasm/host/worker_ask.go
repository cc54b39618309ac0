package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/quote"
)

// ask makes one call: a free place, a frame, an answer.
func (w *Worker) ask(ctx context.Context, p *pending,
	frame func(b []byte, id uint64, left time.Duration) []byte) (err error) {
	defer func() { w.count(err) }()
	for {
		p.lost = false
		again, err := w.askOnce(ctx, p, frame)
		if !again {
			return err
		}
	}
}

// askOnce is one try of ask. again: what was in its way is another key's text, and a worker is on its way.
func (w *Worker) askOnce(ctx context.Context, p *pending,
	frame func(b []byte, id uint64, left time.Duration) []byte) (again bool, err error) {
	if err := w.acquire(ctx, p.who); err != nil {
		return false, err
	}
	l := w.link.Load()
	left := w.spec.Timeout
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	if l == nil {
		w.of(p.who).Give(p.who.key)
		if w.revival.now() != nil {
			return true, nil
		}
		return false, w.absent()
	}
	deadline := time.Now().Add(left)
	id, err := l.begin(p, left+cmp.Or(w.tune.late, lateBy))
	if err != nil {
		w.of(p.who).Give(p.who.key)
		return w.revival.now() != nil, w.fault(ErrWorker, quote.Short(err.Error(), 200), nil)
	}
	err = l.send(func(b []byte) []byte { return frame(b, id, time.Until(deadline)) })
	if err != nil {
		l.end(fmt.Errorf("it does not listen: %w", err))
	}
	if err = w.await(ctx, l, p, id, deadline); err != nil {
		select {
		case <-p.done:
			again = p.lost && ctx.Err() == nil
		default: // nobody waited for the answer
		}
	}
	return again, err
}

// await waits for the answer. Whoever has waited in vain leaves; the place stays taken until the worker has answered or
// is late.
func (w *Worker) await(ctx context.Context, l *link, p *pending, id uint64, deadline time.Time) error {
	grace := time.NewTimer(time.Until(deadline) + answerGrace) // the worker has the same deadline, and so long to say so
	defer grace.Stop()
	select {
	case <-p.done:
		return p.err
	case <-grace.C:
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			// If this write fails, so does the reader's read.
			_ = l.send(func(b []byte) []byte { return beginFrame(b, frameCancel, id) })
			return w.fault(ErrInterrupted, "", ctx.Err())
		}
		select {
		case <-p.done:
			return p.err
		case <-grace.C:
		}
	}
	return w.fault(ErrInterrupted, "the worker process did not answer in time", context.DeadlineExceeded)
}

// of are the places of such a call.
func (w *Worker) of(who whose) *places.Places {
	if who.mask {
		return w.masks
	}
	return w.places
}

// acquire waits for a free place.
func (w *Worker) acquire(ctx context.Context, who whose) error {
	select {
	case <-w.closing:
		return w.fault(ErrClosed, "", nil)
	default:
	}
	if err := ctx.Err(); err != nil {
		return w.fault(ErrBusy, "the call came too late", err)
	}
	if err := w.awaitWorker(ctx, who.key); err != nil {
		return err
	}
	if w.link.Load() == nil && w.revival.now() == nil {
		return w.absent()
	}
	switch err := w.of(who).Take(ctx, who.key, time.Time{}); {
	case errors.Is(err, places.ErrClosed):
		return w.fault(ErrClosed, "", nil)
	case err != nil:
		return w.fault(ErrBusy, "", err)
	}
	return nil
}
