package edge

import (
	"sync"
	"time"
)

// Throttle logs what strangers can cause: the first message, and then one in each interval at most, with how many were
// lost in between. Safe for concurrent use.
type Throttle struct {
	what  string
	every time.Duration
	log   func(format string, args ...any)

	mu     sync.Mutex
	logged time.Time
	lost   int // messages since then
}

// NewThrottle makes a Throttle. what begins each message.
func NewThrottle(what string, every time.Duration, log func(format string, args ...any)) *Throttle {
	return &Throttle{what: what, every: every, log: log}
}

// Log logs or counts one message.
func (t *Throttle) Log(format string, args ...any) {
	lost, ok := t.admitMessage(time.Now())
	if !ok {
		return
	}
	if lost > 0 {
		t.log("%s: %d messages were not logged: more than one in %v", t.what, lost, t.every)
	}
	t.log(t.what+": "+format, args...)
}

// admitMessage is false for a message that is only counted. lost are those that were counted since the last one that
// was not.
func (t *Throttle) admitMessage(now time.Time) (lost int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.logged.IsZero() && now.Sub(t.logged) < t.every {
		t.lost++
		return 0, false
	}
	lost, t.lost, t.logged = t.lost, 0, now
	return lost, true
}
