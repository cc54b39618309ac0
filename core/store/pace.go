package store

import (
	"sync/atomic"
	"time"
)

// pace keeps shares apart. A share comes with the first commands after its rest, whose batch goes to the disk anyway;
// where none come, it has a batch of its own.
type pace struct {
	state atomic.Int32
	wake  *time.Timer // ends the rest, then the wait for commands
	quiet int         // batches without a command, one after the other; the sequencer's
}

// States of a pace.
const (
	paceFree  int32 = iota
	paceRests       // no share may be written
	paceWaits       // one may, with the next commands
)

// company is how long a share waits for commands.
const company = 25 * time.Millisecond

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
		switch {
		case p.state.CompareAndSwap(paceRests, paceWaits):
			p.wake.Reset(company) // later than the next rest's end, if that has begun meanwhile: it is a long one then
		case p.state.CompareAndSwap(paceWaits, paceFree):
			nudge()
		}
	})
	p.wake.Stop()
}

func (p *pace) rests() bool { return p.state.Load() == paceRests }

// asks reports whether the next share may be written now, whether there are commands or not.
func (p *pace) asks() bool { return p.state.Load() == paceFree }

// rest lets the next share wait. The sequencer's goroutine alone calls it, and not in a rest.
func (p *pace) rest(d time.Duration) {
	p.state.Store(paceRests)
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
	} else {
		tx.q.pace.state.Store(paceFree)
	}
}

// endOver ends so many calls that count against the key's limit and have ended already but for their record: a key must
// not be refused a call because shares rest. It looks at all that wait, each once in a batch for each key.
func (tx *tx) endOver(key string, most int) {
	if !tx.st.over(tx.now) || tx.mute || tx.q.unborn {
		return
	}
	if tx.ended == nil {
		tx.ended = map[string]int{}
	}
	left, begun := tx.ended[key]
	if !begun {
		left = len(tx.st.waiting)
	}
	for left = min(left, len(tx.st.waiting)); left > 0 && most > 0; left-- {
		w := tx.st.waiting[left-1] // if it leaves, the last one takes its place, which was looked at
		if w.key == key && w.d.Status == Pending && (tx.denyDoomed(w.d) || tx.endDue(w.d)) {
			most--
		}
	}
	tx.ended[key] = left
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
