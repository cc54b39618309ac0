package plugin

import (
	"context"
	"sync"
	"time"
)

// callContext ends at a call's deadline or with its parent. Most checks never wait for anything, so that the timer is
// made only when somebody asks for Done; until then it costs one allocation.
type callContext struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	inner  context.Context
	cancel context.CancelFunc
	ended  bool
}

// Deadline gives the call's.
func (c *callContext) Deadline() (time.Time, bool) {
	if d, ok := c.parent.Deadline(); ok && d.Before(c.at) {
		return d, true
	}
	return c.at, true
}

// Done is closed at the deadline, when the parent ends, or when the call is over.
func (c *callContext) Done() <-chan struct{} { return c.real().Done() }

// Err is as Done says, and DeadlineExceeded from the deadline on in any case.
func (c *callContext) Err() error {
	c.mu.Lock()
	inner, ended := c.inner, c.ended
	c.mu.Unlock()
	switch {
	case inner != nil:
		return inner.Err()
	case c.parent.Err() != nil:
		return c.parent.Err()
	case ended:
		return context.Canceled
	case !time.Now().Before(c.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value gives the parent's. Once there is a real context behind it, that one is asked, so that package context
// recognises it and hangs children on it without a goroutine each.
func (c *callContext) Value(key any) any {
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

func (c *callContext) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.cancel = context.WithDeadline(c.parent, c.at)
		if c.ended {
			c.cancel()
		}
	}
	return c.inner
}

// end releases the timer. Whoever kept the context sees it end.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}
