package ops

import (
	"context"
	"sync"
	"time"
)

// Deadline is a context for a Request. It ends at a time, but costs no timer until somebody waits on it: most calls
// never do. A transport sets it for each request and uses it again.
type Deadline struct {
	base context.Context
	at   time.Time
	now  func() time.Time

	mu     sync.Mutex
	armed  context.Context
	cancel context.CancelFunc
}

// Set begins a new use: base may end it sooner, at is on the clock now.
func (c *Deadline) Set(base context.Context, at time.Time, now func() time.Time) {
	c.base, c.at, c.now = base, at, now
}

// Release gives the timer back. The context must not be used any more.
func (c *Deadline) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
	c.armed, c.cancel, c.base = nil, nil, context.Background()
}

func (c *Deadline) arm() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil {
		c.armed, c.cancel = context.WithDeadline(c.base, c.at)
	}
	return c.armed
}

func (c *Deadline) inner() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed != nil {
		return c.armed
	}
	return c.base
}

// Deadline implements context.Context.
func (c *Deadline) Deadline() (time.Time, bool) { return c.at, true }

// Done implements context.Context.
func (c *Deadline) Done() <-chan struct{} { return c.arm().Done() }

// Err implements context.Context.
func (c *Deadline) Err() error {
	if err := c.inner().Err(); err != nil {
		return err
	}
	if !c.now().Before(c.at) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Asking the armed context lets children hang on it without a goroutine each.
func (c *Deadline) Value(key any) any { return c.inner().Value(key) }
