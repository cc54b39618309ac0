package prochost

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// errLate is how a call ends whose plugin did not answer in time.
var errLate = fmt.Errorf("the plugin did not answer in time: %w", context.DeadlineExceeded)

// timer is a pooled time.Timer: one call, one timer would be the largest part of what a call allocates.
type timer struct{ t *time.Timer }

var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &timer{t: t}
}}

func startTimer(d time.Duration) *timer {
	t := timers.Get().(*timer)
	t.t.Reset(d)
	return t
}

func (t *timer) c() <-chan time.Time { return t.t.C }

// end stops it. Since Go 1.23 nothing stays in the channel of a timer that was stopped.
func (t *timer) end() {
	t.t.Stop()
	timers.Put(t)
}
