package ops

import (
	"context"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// After it was read, a list's key rests for so many times as long as that took, but not for longer than mostRest: one
// that asks for lists in a loop takes a twentieth of a processor from decisions, and nobody who reads one notices.
const (
	restTimes = 19
	mostRest  = 100 * time.Millisecond
	mostUsers = 64 // of a key at once, one of which reads; each of the others holds a place among all requests
)

// listTurns lets each key read one list at a time, with rests. Its methods are safe for concurrent use.
type listTurns struct {
	after func(time.Duration, func()) // runs it later

	mu sync.Mutex
	of map[string]*listTurn // by the line of the key; those who read, rest or wait
}

type listTurn struct {
	free  chan struct{}
	users int
}

func newListTurns() *listTurns {
	return &listTurns{of: map[string]*listTurn{}, after: func(d time.Duration, fn func()) { time.AfterFunc(d, fn) }}
}

// enter waits until it is the key's turn. The caller calls leave, with how long it took.
func (t *listTurns) enter(ctx context.Context, line string) (leave func(took time.Duration), err error) {
	t.mu.Lock()
	is := t.of[line]
	if is == nil {
		is = &listTurn{free: make(chan struct{}, 1)}
		t.of[line] = is
	}
	full := is.users >= mostUsers
	if !full {
		is.users++
	}
	t.mu.Unlock()
	if full {
		return nil, sdk.Errf(sdk.CodeOverloaded, "the key reads %d lists already; ask again in a second", mostUsers)
	}
	select {
	case is.free <- struct{}{}:
	case <-ctx.Done():
		t.drop(line, is)
		return nil, sdk.Errf(sdk.CodeOverloaded, "the key reads another list already; ask again in a second")
	}
	return func(took time.Duration) {
		t.after(min(restTimes*took, mostRest), func() {
			<-is.free
			t.drop(line, is)
		})
	}, nil
}

func (t *listTurns) drop(line string, is *listTurn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is.users--; is.users == 0 {
		delete(t.of, line)
	}
}
