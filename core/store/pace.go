package store

import (
	"sync/atomic"
	"time"
)

// pace keeps shares apart.
type pace struct {
	resting atomic.Bool
	wake    *time.Timer // ends the rest, and wakes the sequencer
	quiet   int         // batches without a command, one after the other; the sequencer's
}

// quietBatches without a command mean that nobody waits: then shares need no rest.
const quietBatches = 8

// batch counts the commands of a batch.
func (p *pace) batch(commands int) {
	if p.quiet++; commands > 0 {
		p.quiet = 0
	}
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
	if tx.st.over(tx.now) && tx.q.pace.quiet < quietBatches {
		tx.q.pace.rest(tx.s.set.shareEvery)
	}
}

// endOver ends a share of what the key waits for and has ended already but for its record: a key must not be refused a
// call because shares rest. It looks at all that wait, and so once in a batch for each key.
func (tx *tx) endOver(key string) {
	if !tx.st.over(tx.now) || tx.mute || tx.q.unborn || tx.ended[key] {
		return
	}
	if tx.ended == nil {
		tx.ended = map[string]bool{}
	}
	tx.ended[key] = true
	for i, left := len(tx.st.waiting)-1, atOnce; i >= 0 && left > 0; i-- { // what leaves is replaced by the last one
		if w := tx.st.waiting[i]; w.key == key && (tx.denyDoomed(w.d) || tx.endDue(w.d)) {
			left--
		}
	}
}

// endDue is expireNow for no command.
func (tx *tx) endDue(d *Defer) bool {
	ticket := tx.ticket
	tx.ticket = nil
	defer func() { tx.ticket = ticket }()
	return tx.expireNow(d)
}

// over reports whether a share of what a kill or the time ends has left something for the next one.
func (st *state) over(now time.Time) bool {
	next := st.next()
	return len(st.sweeps) > 0 || !next.IsZero() && !now.Before(next)
}
