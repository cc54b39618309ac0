package host

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// turnTime is how long a guest may keep a processor while others wait for one, and how long a call is a new one.
	turnTime = 200 * time.Microsecond
	// lately is how long a key counts as one that calls, after a call.
	lately = time.Second
)

// turns share processors among the guests of a process. There are fewer turns than processors, so that whatever else
// the process does (accept, decide, record, answer) always finds one that no guest is on. A guest whose turn is over
// while others wait goes to the back of its key's queue, and keys take turns: one key's long scans cost another key's
// short one a turn, not their whole length. New calls do not even wait for the end of a turn: most of them end within
// their first one, so a call that is not new makes room at once. Each new call lets one of the others go on for a
// moment before the next, so that many short calls do not stop the long ones.
//
// On a busy machine the kernel gives this process a share only, and who has used up theirs waits for all others. So
// long calls rest for as long as they were kept waiting, if other keys call too: a part of the share is left for these.
type turns struct {
	waiting atomic.Int32
	fresh   atomic.Int32 // new calls among them

	mu      sync.Mutex
	free    int
	lines   [2]line // of those that had a turn, and of new calls
	favours bool    // the last turn went to a new call

	callers [2]caller   // the key that made the last new call, and the last one that was another
	rested  time.Time   // until then only new calls get a turn
	waking  *time.Timer // ends the rest of those that wait; nil if nobody does
}

// caller is when a key made its last new call.
type caller struct {
	key string
	at  time.Time
}

// line is a queue with keys that take turns.
type line struct {
	queues map[string][]*waiter // by key, the longest waiting first
	order  []string             // keys with a queue, the one that is next first
}

// waiter is somebody who waits for a turn; ready is closed when they have it.
type waiter struct {
	ready chan struct{}
	had   bool // under the lock: it has been given
}

func newTurns(n int) *turns {
	t := &turns{free: max(n, 1)}
	for i := range t.lines {
		t.lines[i].queues = map[string][]*waiter{}
	}
	return t
}

// machine are the turns of this process.
var machine = newTurns(runtime.GOMAXPROCS(0) - 1)

// acquireTurn waits for a turn, but not beyond the deadline nor ctx. fresh says that the call is new. ok is false
// without one.
func (t *turns) acquireTurn(ctx context.Context, key string, fresh bool, deadline time.Time) (ok bool) {
	t.mu.Lock()
	if fresh {
		t.called(key)
	}
	if t.free > 0 && (fresh || t.resting() <= 0) {
		t.free--
		t.mu.Unlock()
		return true
	}
	w := &waiter{ready: make(chan struct{})}
	l := t.join(key, fresh, w)
	if t.free > 0 {
		t.wake()
	}
	t.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-w.ready:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.had { // both at once
		t.pass()
		return false
	}
	l.leave(key, w)
	t.left(fresh)
	return false
}

// join puts w in its line. t.mu is held.
func (t *turns) join(key string, fresh bool, w *waiter) *line {
	l := &t.lines[0]
	if fresh {
		l = &t.lines[1]
		t.fresh.Add(1)
	}
	t.waiting.Add(1)
	if len(l.queues[key]) == 0 {
		l.order = append(l.order, key)
	}
	l.queues[key] = append(l.queues[key], w)
	return l
}

// left counts one who waits no longer.
func (t *turns) left(fresh bool) {
	if fresh {
		t.fresh.Add(-1)
	}
	t.waiting.Add(-1)
}

// over says whether a turn that began then must end, of a call that had so much before.
func (t *turns) over(had time.Duration, begun time.Time) bool {
	if t.waiting.Load() == 0 {
		return false
	}
	now := time.Since(begun)
	return now >= turnTime || had+now >= turnTime && t.fresh.Load() > 0
}

// releaseTurn ends a turn.
func (t *turns) releaseTurn() {
	t.mu.Lock()
	t.pass()
	t.mu.Unlock()
}

// pass hands a turn to who is next, or keeps it. t.mu is held.
func (t *turns) pass() {
	old, fresh := &t.lines[0], &t.lines[1]
	rest := t.resting() > 0
	t.favours = len(fresh.order) > 0 && (!t.favours || rest || len(old.order) == 0)
	l := old
	if t.favours {
		l = fresh
	}
	if len(l.order) == 0 || rest && !t.favours {
		t.free++
		if len(l.order) > 0 {
			t.wake()
		}
		return
	}
	t.left(t.favours)
	w := l.next()
	w.had = true
	close(w.ready)
}

// called notes that a key has made a new call. t.mu is held.
func (t *turns) called(key string) {
	if t.callers[0].key != key {
		t.callers[1] = t.callers[0]
	}
	t.callers[0] = caller{key, time.Now()}
}

// resting is how long calls that are not new have to rest. t.mu is held.
func (t *turns) resting() time.Duration {
	if t.rested.IsZero() {
		return 0
	}
	return time.Until(t.rested)
}

// rest has the calls that are not new wait for so long, if keys other than this one have called lately.
func (t *turns) rest(key string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	others := slices.ContainsFunc(t.callers[:], func(c caller) bool { return c.key != key && time.Since(c.at) < lately })
	if until := time.Now().Add(d); others && until.After(t.rested) {
		t.rested = until
	}
}

// wake sees to it that the turns that are free are given out when the rest is over. t.mu is held.
func (t *turns) wake() {
	if t.waking != nil {
		return
	}
	t.waking = time.AfterFunc(t.resting(), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waking = nil
		for n := t.free; n > 0; n-- {
			t.free--
			t.pass()
		}
	})
}

// next takes out the one who is next.
func (l *line) next() *waiter {
	key := l.order[0]
	l.order = l.order[1:]
	w := l.queues[key][0]
	if queue := l.queues[key][1:]; len(queue) > 0 {
		l.queues[key], l.order = queue, append(l.order, key)
	} else {
		delete(l.queues, key)
	}
	return w
}

// leave takes w out.
func (l *line) leave(key string, w *waiter) {
	queue := l.queues[key]
	if i := slices.Index(queue, w); i >= 0 {
		queue = slices.Delete(queue, i, i+1)
	}
	if l.queues[key] = queue; len(queue) == 0 {
		delete(l.queues, key)
		l.order = slices.DeleteFunc(l.order, func(k string) bool { return k == key })
	}
}
