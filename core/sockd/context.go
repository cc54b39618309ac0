package sockd

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time and costs no timer until somebody waits on it: most operations never do.
type deadline struct {
	base context.Context
	at   time.Time
	now  func() time.Time

	mu     sync.Mutex
	real   context.Context // once somebody has waited
	cancel context.CancelFunc
}

// set begins a new use.
func (d *deadline) set(base context.Context, at time.Time, now func() time.Time) {
	d.base, d.at, d.now = base, at, now
}

// free ends the use: whoever still waits is let go.
func (d *deadline) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
		d.real, d.cancel = nil, nil
	}
	d.base = context.Background()
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real == nil {
		d.real, d.cancel = context.WithDeadline(d.base, d.at)
	}
	return d.real.Done()
}

func (d *deadline) under() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real != nil {
		return d.real
	}
	return d.base
}

// Err implements context.Context.
func (d *deadline) Err() error {
	err := d.under().Err()
	if err == nil && !d.now().Before(d.at) {
		err = context.DeadlineExceeded
	}
	return err
}

// Value implements context.Context. The real context is asked, so that children find it and need no goroutine each.
func (d *deadline) Value(key any) any { return d.under().Value(key) }
