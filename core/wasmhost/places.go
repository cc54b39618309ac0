package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// maskPlaces is how many calls of a module may run for masking, beside those of decisions and outputs.
const maskPlaces = 2

// whose is a call's key, and whether it masks.
type whose struct {
	key  string
	mask bool
}

// errPlacesClosed says that no place is given any more.
var errPlacesClosed = errors.New("no more places are given")

// places bound the calls that run at once. One key may have all of them; there is one more for a key that has none, so that one key's
// slow calls do not keep every other one waiting. Who waits gets the next place by how many their key has, and then by how long.
type places struct {
	mu     sync.Mutex
	most   int
	used   int
	held   map[string]int // by key
	queue  []*placeWaiter // the longest waiting first
	closed bool
	empty  chan struct{} // closed when closed holds and nothing is used
}

type placeWaiter struct {
	waiter
	key string
}

func newPlaces(most int) *places {
	return &places{most: most, held: map[string]int{}, empty: make(chan struct{})}
}

// take waits for a place until ctx ends.
func (p *places) take(ctx context.Context, key string) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errPlacesClosed
	}
	if p.fits(key) {
		p.have(key)
		p.mu.Unlock()
		return nil
	}
	w := &placeWaiter{waiter{ready: make(chan struct{})}, key}
	p.queue = append(p.queue, w)
	p.mu.Unlock()
	err := errPlacesClosed
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !w.had:
		p.queue = slices.DeleteFunc(p.queue, func(q *placeWaiter) bool { return q == w })
		return err
	case p.closed || err != errPlacesClosed: // it came at the same moment
		p.giveLocked(key)
		return err
	}
	return nil
}

// fits reports whether the key may have a place now. p.mu is held.
func (p *places) fits(key string) bool {
	return p.used < p.most || p.used == p.most && p.held[key] == 0
}

func (p *places) have(key string) {
	p.used++
	p.held[key]++
}

// give ends a call.
func (p *places) give(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveLocked(key)
}

func (p *places) giveLocked(key string) {
	p.used--
	if p.held[key]--; p.held[key] == 0 {
		delete(p.held, key)
	}
	if p.closed {
		p.drained()
		return
	}
	for len(p.queue) > 0 {
		best := -1
		for i := range p.queue {
			if p.fits(p.queue[i].key) && (best < 0 || p.held[p.queue[i].key] < p.held[p.queue[best].key]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		w := p.queue[best]
		p.queue = slices.Delete(p.queue, best, best+1)
		p.have(w.key)
		w.had = true
		close(w.ready)
	}
}

// inUse is how many calls run.
func (p *places) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// close gives no more places and sends away who waits.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for _, w := range p.queue {
		close(w.ready)
	}
	p.queue = nil
	p.drained()
}

func (p *places) drained() {
	if p.used == 0 {
		close(p.empty)
	}
}

// wait waits until no call runs any more.
func (p *places) wait(ctx context.Context) error {
	select {
	case <-p.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closePlaces waits until no call of a module runs any more.
func closePlaces(ctx context.Context, module string, all ...*places) error {
	for _, p := range all {
		p.close()
	}
	for _, p := range all {
		if err := p.wait(ctx); err != nil {
			return fmt.Errorf("close module %q: %d calls still run: %w", module, p.inUse(), err)
		}
	}
	return nil
}
