package httpd

import (
	"context"
	"sync"
	"time"
)

// lazyContext has a real deadline, but costs no timer until somebody waits on it: most calls never do.
// fasthttp's own context has none, and its Done fires at shutdown only.
type lazyContext struct {
	base context.Context
	at   time.Time
	now  func() time.Time

	mu     sync.Mutex
	armed  context.Context
	cancel context.CancelFunc
}

func (c *lazyContext) reset(base context.Context, at time.Time, now func() time.Time) {
	c.base, c.at, c.now = base, at, now
}

// release gives the timer back. The context must not be used any more.
func (c *lazyContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
	c.armed, c.cancel, c.base = nil, nil, context.Background()
}

func (c *lazyContext) arm() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil {
		c.armed, c.cancel = context.WithDeadline(c.base, c.at)
	}
	return c.armed
}

func (c *lazyContext) inner() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed != nil {
		return c.armed
	}
	return c.base
}

// Deadline implements context.Context.
func (c *lazyContext) Deadline() (time.Time, bool) { return c.at, true }

// Done implements context.Context.
func (c *lazyContext) Done() <-chan struct{} { return c.arm().Done() }

// Err implements context.Context.
func (c *lazyContext) Err() error {
	if err := c.inner().Err(); err != nil {
		return err
	}
	if !c.now().Before(c.at) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Asking the armed context lets children hang on it without a goroutine each.
func (c *lazyContext) Value(key any) any { return c.inner().Value(key) }
