package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/supervise"
)

// A key whose text ended a worker process waits before its next call, twice as long each time: the others have the
// worker meanwhile.
const (
	blameFirst = 250 * time.Millisecond
	blameMost  = time.Minute
	blameKept  = 10 * time.Minute // without another end, it is forgotten
	blameKeys  = 1 << 10          // whose ends are remembered
)

// blame remembers whose texts ended the worker. Nobody ("") is never blamed.
type blame struct {
	mu   sync.Mutex
	keys map[string]ends
}

type ends struct {
	times     int
	at, until time.Time
}

// add notes that a text of a key has ended the worker.
func (b *blame) add(key string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = map[string]ends{}
	}
	oldest := ""
	for k, e := range b.keys {
		if now.Sub(e.at) > blameKept {
			delete(b.keys, k)
		} else if oldest == "" || e.at.Before(b.keys[oldest].at) {
			oldest = k
		}
	}
	if _, known := b.keys[key]; !known && len(b.keys) >= blameKeys {
		delete(b.keys, oldest)
	}
	e := b.keys[key]
	wait := blameMost
	if e.times < 16 {
		wait = min(blameFirst<<e.times, blameMost)
	}
	b.keys[key] = ends{e.times + 1, now, now.Add(wait)}
}

// left is how long a key has to wait.
func (b *blame) left(key string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keys[key].until.Sub(now)
}

// revival is the time between the end of a worker for which a text is to blame, and the next one: calls wait for that,
// as they would wait for a place, instead of failing.
type revival struct {
	mu   sync.Mutex
	over chan struct{} // nil: there is none
}

func (r *revival) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = make(chan struct{})
	}
}

func (r *revival) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		close(r.over)
		r.over = nil
	}
}

func (r *revival) now() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// awaitWorker waits until the key may call and a worker that is being started again is there, at most until ctx ends
// or, where that has no end, the module's time. Whether there is a worker then is for the caller to see.
func (w *Worker) awaitWorker(ctx context.Context, key string) error {
	left, over := w.blame.left(key, time.Now()), w.revival.now()
	if left <= 0 && over == nil {
		return nil
	}
	if _, bounded := ctx.Deadline(); !bounded {
		bound, cancel := context.WithTimeout(ctx, w.spec.Timeout)
		defer cancel()
		ctx = bound
	}
	if left > 0 {
		wait := time.NewTimer(left)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-w.closing:
		case <-ctx.Done():
			return w.fault(ErrBusy, "texts of this key have ended the worker process, so its calls wait",
				chain.Later(ctx.Err(), left))
		}
		over = w.revival.now()
	}
	if over != nil {
		select {
		case <-over:
		case <-w.closing:
		case <-ctx.Done():
			return w.fault(ErrWorker, "it is being started again", chain.Later(ctx.Err(), 0))
		}
	}
	return nil
}

// revived hears of the process's state. A revival is over when a start has failed: from then on there is a backoff, and
// calls fail at once.
func (w *Worker) revived(c supervise.Change) {
	switch c.To {
	case supervise.StateBackoff, supervise.StateQuarantined, supervise.StateStopped:
		if !errors.Is(c.Err, supervise.ErrRenewed) {
			w.revival.end()
		}
	}
}
