package chain

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// Places bounds how many calls work at once, by key. A Take without an error is followed by a Give.
type Places interface {
	Take(ctx context.Context, key string, deadline time.Time) error
	Give(key string)
}

// Turn is a call's place among those that this process works on. Give ends it, and may be called again.
type Turn interface{ Give() }

// endTurn is for what waits, or works for long.
func (c *Call) endTurn() {
	if c.Turn != nil {
		c.Turn.Give()
	}
}

// Bound holds the work that a step does in its caller's goroutine to a time and to a place. Whoever works looks at it
// every now and then; whoever is done at once never does, and pays nothing. The zero Bound bounds nothing. It belongs
// to one goroutine.
type Bound struct {
	Places Places // nil: any number work at once
	Key    string // takes the place
	Turn   Turn   // ends when the work turns out to be long
	Now    func() time.Time
	End    time.Time // zero: no end

	held bool
}

// Look says whether to go on. The first look waits for a place; every later one lets those run who wait for this
// processor. The error is ctx's, or that of a deadline.
func (b *Bound) Look(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !b.End.IsZero() && !b.Now().Before(b.End):
		return fmt.Errorf("its time is over: %w", context.DeadlineExceeded)
	case b.held:
		runtime.Gosched()
	case b.Places != nil:
		if b.Turn != nil {
			b.Turn.Give()
		}
		if err := b.Places.Take(ctx, b.Key, b.End); err != nil {
			return fmt.Errorf("waiting for a processor: %w", err)
		}
		b.held = true
	}
	return nil
}

// Release gives the place back. The next look takes one again.
func (b *Bound) Release() {
	if b.held {
		b.held = false
		b.Places.Give(b.Key)
	}
}
