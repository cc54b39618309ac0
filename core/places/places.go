// Package places bounds how many calls run at once, and shares them out by key: whoever runs somebody else's code, or
// works long, asks here first. It owns no call and knows nothing of what runs. A key is any text that says whose a call
// is; "" is nobody's.
package places

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

var (
	// ErrClosed says that no place is given any more.
	ErrClosed = errors.New("no more places are given")
	// ErrFull says that as many wait as may.
	ErrFull = errors.New("its queue is full")
)

// Rules say how places are given.
type Rules struct {
	Most  int  // calls at once
	Spare bool // one more for a key that has none; else the last one of several is kept for such a key
	Queue int  // so many wait at most; below 0: any number
}

// Places bound the calls that run at once, so that one key's slow calls do not keep every other one waiting. The next
// place goes to the key that has fewest, and among those keys take turns. Where the queue is full, the key that has
// most in it makes room for one that has less.
type Places struct {
	mu      sync.Mutex
	rules   Rules
	used    int
	held    map[string]int       // by key
	queues  map[string][]*waiter // by key, the longest waiting first
	order   []string             // keys with a queue, the one whose turn it is first
	waiting int
	closed  bool
	empty   chan struct{} // closed when closed holds and nothing is used
}

type waiter struct {
	key   string
	ready chan struct{} // closed when it has a place, or is sent away
	had   bool          // under the lock: a place was given
	gone  bool          // under the lock: it was sent away, since the queue is full
}

// New gives out places by rules.
func New(r Rules) *Places {
	return &Places{rules: r, held: map[string]int{}, queues: map[string][]*waiter{}, empty: make(chan struct{})}
}

// Take waits for a place until ctx ends or a deadline, if it is one, has passed. Each Take without an error takes a
// Give.
func (p *Places) Take(ctx context.Context, key string, deadline time.Time) error {
	w, err := p.begin(key)
	if w == nil {
		return err
	}
	var late <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-w.ready:
	case <-late:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	}
	return p.end(w, err)
}

// begin takes a place, or queues up.
func (p *Places) begin(key string) (w *waiter, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.fits(key):
		p.have(key)
		return nil, nil
	case p.rules.Queue >= 0 && p.waiting >= p.rules.Queue && !p.makeRoom(key):
		return nil, ErrFull
	}
	w = &waiter{key: key, ready: make(chan struct{})}
	if len(p.queues[key]) == 0 {
		p.order = append(p.order, key)
	}
	p.queues[key] = append(p.queues[key], w)
	p.waiting++
	return w, nil
}

// end is what became of who waited. err says why they waited no longer.
func (p *Places) end(w *waiter, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case w.had && (err != nil || p.closed): // it came at the same moment
		p.give(w.key)
		if err == nil {
			err = ErrClosed
		}
	case w.had:
		return nil
	case w.gone:
		return ErrFull
	case p.closed:
		return ErrClosed
	default:
		p.leave(w)
	}
	return err
}

// makeRoom sends away who came last of the key that has most in the queue, if that key has more in it than this one
// will. p.mu is held.
func (p *Places) makeRoom(key string) bool {
	var greedy []*waiter
	for _, k := range p.order {
		if q := p.queues[k]; len(q) > max(len(greedy), len(p.queues[key])+1) {
			greedy = q
		}
	}
	if greedy == nil {
		return false
	}
	w := greedy[len(greedy)-1]
	p.leave(w)
	w.gone = true
	close(w.ready)
	return true
}

// leave takes w out of its queue. p.mu is held.
func (p *Places) leave(w *waiter) {
	queue := p.queues[w.key]
	i := slices.Index(queue, w)
	if i < 0 {
		return
	}
	p.waiting--
	if p.queues[w.key] = slices.Delete(queue, i, i+1); len(queue) == 1 {
		delete(p.queues, w.key)
		p.order = slices.DeleteFunc(p.order, func(k string) bool { return k == w.key })
	}
}

// fits reports whether the key may have a place now. p.mu is held.
func (p *Places) fits(key string) bool {
	most, none := p.rules.Most, p.held[key] == 0
	switch {
	case p.rules.Spare:
		return p.used < most || p.used == most && none
	case most == 1 || none || key == "":
		return p.used < most
	}
	return p.used < most-1
}

func (p *Places) have(key string) {
	p.used++
	p.held[key]++
}

// Give ends a call.
func (p *Places) Give(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.give(key)
}

func (p *Places) give(key string) {
	p.used--
	if p.held[key]--; p.held[key] == 0 {
		delete(p.held, key)
	}
	if p.closed {
		p.drained()
		return
	}
	p.next()
}

// next gives places to who waits. p.mu is held.
func (p *Places) next() {
	for len(p.order) > 0 {
		best := -1
		for i, k := range p.order {
			if p.fits(k) && (best < 0 || p.held[k] < p.held[p.order[best]]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		key := p.order[best]
		p.order = append(slices.Delete(p.order, best, best+1), key)
		w := p.queues[key][0]
		p.leave(w)
		p.have(key)
		w.had = true
		close(w.ready)
	}
}

// Limit gives no more places than so many from now on.
func (p *Places) Limit(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules.Most = min(p.rules.Most, most)
}

// InUse is how many calls run.
func (p *Places) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Waiting is how many calls wait for a place.
func (p *Places) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// Close gives no more places and sends away who waits.
func (p *Places) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for _, queue := range p.queues {
		for _, w := range queue {
			close(w.ready)
		}
	}
	clear(p.queues)
	p.order, p.waiting = nil, 0
	p.drained()
}

func (p *Places) drained() {
	if p.used == 0 {
		close(p.empty)
	}
}

// Wait waits until Close was called and no call runs any more.
func (p *Places) Wait(ctx context.Context) error {
	select {
	case <-p.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Turn is a place of one request, which is given back once. It belongs to one goroutine; the zero Turn has no place.
type Turn struct {
	places *Places
	key    string
}

// Take waits for a place until ctx ends. A turn that has one keeps it.
func (t *Turn) Take(ctx context.Context, p *Places, key string) error {
	if t.places != nil {
		return nil
	}
	err := p.Take(ctx, key, time.Time{})
	if err == nil {
		t.places, t.key = p, key
	}
	return err
}

// Give gives the place back, if there is one. A nil Turn has none.
func (t *Turn) Give() {
	if t != nil && t.places != nil {
		t.places.Give(t.key)
		*t = Turn{}
	}
}
