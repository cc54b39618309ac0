package store

import (
	"sync/atomic"
	"time"
)

// pace keeps shares apart.
type pace struct {
	resting atomic.Bool
	wake    *time.Timer // ends the rest, and wakes the sequencer
}

func (p *pace) begin(nudge func()) {
	p.wake = time.AfterFunc(time.Hour, func() {
		p.resting.Store(false)
		nudge()
	})
	p.wake.Stop()
}

func (p *pace) rests() bool { return p.resting.Load() }

// rest lets the next share wait. The sequencer's goroutine alone calls it, and not in a rest.
func (p *pace) rest(d time.Duration) {
	p.resting.Store(true)
	p.wake.Reset(d)
}

// passTime writes what time alone brings, and what earlier batches have left of a kill.
func (tx *tx) passTime() {
	if tx.q.unborn {
		return
	}
	tx.noteClock()
	if tx.q.pace.rests() {
		return
	}
	tx.sweep()
	tx.expire()
	if tx.st.over(tx.now) {
		tx.q.pace.rest(tx.s.set.shareEvery)
	}
}

// over reports whether a share of what a kill or the time ends has left something for the next one.
func (st *state) over(now time.Time) bool {
	next := st.next()
	return len(st.sweeps) > 0 || !next.IsZero() && !now.Before(next)
}
