package wasmhost

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turnTime is how long a guest may keep a processor while others wait for one, and how long a call is a new one.
const turnTime = 200 * time.Microsecond

// turns share processors among the guests of a process. There are fewer turns than processors, so that whatever else the process does
// (accept, decide, record, answer) always finds one that no guest is on. A guest whose turn is over while others wait goes to the back
// of its key's queue, and keys take turns: one key's long scans cost another key's short one a turn, not their whole length. New calls
// do not even wait for the end of a turn: most of them end within their first one, so a call that is not new makes room at once. Each
// new call lets one of the others go on for a moment before the next, so that many short calls do not stop the long ones.
type turns struct {
	waiting atomic.Int32
	fresh   atomic.Int32 // new calls among them

	mu      sync.Mutex
	free    int
	lines   [2]line // of those that had a turn, and of new calls
	favours bool    // the last turn went to a new call
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

// take waits for a turn, but not beyond the deadline nor ctx. fresh says that the call is new. ok is false without one.
func (t *turns) take(ctx context.Context, key string, fresh bool, deadline time.Time) (ok bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return true
	}
	w := &waiter{ready: make(chan struct{})}
	l := t.join(key, fresh, w)
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

// give ends a turn.
func (t *turns) give() {
	t.mu.Lock()
	t.pass()
	t.mu.Unlock()
}

// pass hands a turn to who is next, or keeps it. t.mu is held.
func (t *turns) pass() {
	old, fresh := &t.lines[0], &t.lines[1]
	t.favours = len(fresh.order) > 0 && (!t.favours || len(old.order) == 0)
	l := old
	if t.favours {
		l = fresh
	}
	if len(l.order) == 0 {
		t.free++
		return
	}
	t.left(t.favours)
	w := l.next()
	w.had = true
	close(w.ready)
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
