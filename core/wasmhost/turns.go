package wasmhost

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turnTime is how long a guest may keep a processor while others wait for one.
const turnTime = 200 * time.Microsecond

// turns share processors among the guests of a process. There are fewer turns than processors, so that whatever else the process does
// (accept, decide, record, answer) always finds one that no guest is on. A guest whose turn is over while others wait goes to the back
// of its key's queue, and keys take turns: one key's long scans cost another key's short one a turn, not their whole length.
type turns struct {
	waiting atomic.Int32

	mu     sync.Mutex
	free   int
	queues map[string][]*waiter // by key, the longest waiting first
	order  []string             // keys with a queue, the one that is next first
}

// waiter is somebody who waits for a turn; ready is closed when they have it.
type waiter struct {
	ready chan struct{}
	had   bool // under the lock: it has been given
}

func newTurns(n int) *turns { return &turns{free: max(n, 1), queues: map[string][]*waiter{}} }

// machine are the turns of this process.
var machine = newTurns(runtime.GOMAXPROCS(0) - 1)

// take waits for a turn, but not beyond the deadline nor ctx. ok is false without one.
func (t *turns) take(ctx context.Context, key string, deadline time.Time) (ok bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return true
	}
	w := t.queue(key)
	t.mu.Unlock()
	defer t.waiting.Add(-1)
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
	t.leave(key, w)
	return false
}

// queue joins the key's queue. t.mu is held.
func (t *turns) queue(key string) *waiter {
	w := &waiter{ready: make(chan struct{})}
	if len(t.queues[key]) == 0 {
		t.order = append(t.order, key)
	}
	t.queues[key] = append(t.queues[key], w)
	t.waiting.Add(1)
	return w
}

// leave takes w out of its queue. t.mu is held.
func (t *turns) leave(key string, w *waiter) {
	queue := t.queues[key]
	if i := slices.Index(queue, w); i >= 0 {
		queue = slices.Delete(queue, i, i+1)
	}
	if t.queues[key] = queue; len(queue) == 0 {
		delete(t.queues, key)
		t.order = slices.DeleteFunc(t.order, func(k string) bool { return k == key })
	}
}

// give ends a turn.
func (t *turns) give() {
	t.mu.Lock()
	t.pass()
	t.mu.Unlock()
}

// pass hands a turn to who is next, or keeps it. t.mu is held.
func (t *turns) pass() {
	if len(t.order) > 0 {
		key := t.order[0]
		t.order = t.order[1:]
		queue := t.queues[key]
		w := queue[0]
		if queue = queue[1:]; len(queue) > 0 {
			t.queues[key], t.order = queue, append(t.order, key)
		} else {
			delete(t.queues, key)
		}
		w.had = true
		close(w.ready)
		return
	}
	t.free++
}
