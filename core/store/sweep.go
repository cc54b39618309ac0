package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// atOnce bounds the waiting calls that one batch ends for one reason, such as a kill or the time. The rest is ended by
// the next batches, and shareEvery lies between two of them, so that other callers are answered in between, and what
// is sealed keeps up. Who asks about one of them finds it ended already.
// Actions that wait for a call have rows and are named: so many of them count as another call.
const (
	atOnce      = 32
	joinedAsOne = 16
	shareEvery  = 8 * time.Millisecond
)

// sweep is a kill or a revocation that has not denied all yet that was waiting then. It has a row, so that neither a
// restart nor an undo saves what is left.
type sweep struct {
	Number uint64    `json:"-"`
	Kill   *Kill     `json:"kill,omitempty"` // what it covers is denied
	Key    string    `json:"key,omitempty"`  // or what that key has asked for
	At     time.Time `json:"at"`             // what was asked for later stays
	By     Who       `json:"by"`
	Why    string    `json:"why"`

	left []*Defer // in the order in which they are denied
}

// covers tells what the sweep denies of what was asked for by then. It is asked often, so it is made once.
// s.keys.mu is held when it is called.
func (w *sweep) covers(s *Store) func(asked) bool {
	if w.Kill == nil {
		return func(a asked) bool { return a.key == w.Key }
	}
	of, asker := w.Kill.calls(), (*Key)(nil)
	return func(a asked) bool {
		if asker == nil || asker.ID != a.key {
			asker = s.keys.byID[a.key]
		}
		return asker != nil && of(asker, a)
	}
}

// calls tells which waiting calls the kill covers, as killSet.covering does, and without looking up what it need not.
func (k *Kill) calls() func(asker *Key, a asked) bool {
	switch plain := k.Target != "" && !isPattern(k.Target); {
	case k.Scope == KillGlobal && k.Target == "":
		return func(*Key, asked) bool { return true }
	case k.Scope == KillAgent && plain:
		return func(_ *Key, a asked) bool { return a.agent == k.Target }
	case k.Scope == KillSession && plain:
		return func(_ *Key, a asked) bool { return *a.session == k.Target }
	}
	set := &killSet{all: map[killName]*Kill{{k.Scope, k.Target}: k}}
	set.sort(k)
	return func(asker *Key, a asked) bool {
		session := ""
		if k.Scope == KillSession {
			session = *a.session
		}
		return set.covering(asker.root(), a.agent, session, a.tool) != nil
	}
}

// mark finds what the sweep denies. It looks at all calls that wait, while no other batch is written.
func (w *sweep) mark(s *Store, st *state) {
	covers := w.covers(s)
	for i := range st.waiting {
		d := &st.waiting[i]
		if d.doomed == nil && covers(asked{d.key, d.agent, d.tool, &d.d.SessionID}) {
			d.doomed = w
			w.left = append(w.left, d.d)
		}
	}
}

// begun is when a call begins to wait that is asked now: later than every sweep that leaves it alone, also where the
// clock has not moved on since.
func (tx *tx) begun() time.Time {
	if n := len(tx.st.sweeps); n > 0 && !tx.now.After(tx.st.sweeps[n-1].At) {
		return tx.st.sweeps[n-1].At.Add(1)
	}
	return tx.now
}

// deny denies all that w covers, the first of it in this batch, and gives how much that is.
func (tx *tx) deny(w *sweep) int {
	w.mark(tx.s, tx.st)
	clear(tx.ended) // there is more to be looked at
	if w.At.Before(tx.st.newest) {
		w.At = tx.st.newest
	}
	n := len(w.left)
	w.left = append(tx.st.watched(w), w.left...)
	if tx.denySome(w, tx.s.set.share); len(w.left) == 0 {
		return n
	}
	row, err := json.Marshal(w)
	tx.keep(err)
	w.Number = tx.st.sweepNumber
	tx.st.sweepNumber++
	tx.st.sweeps = append(tx.st.sweeps, w)
	tx.s.open.begins(w)
	tx.set(keyU64(prefixSweep, w.Number), row)
	if !tx.q.pace.rests() { // else many kills would put the rest off
		tx.q.pace.rest(tx.s.set.shareEvery)
	}
	return n
}

// watched are the calls that w denies for which somebody waits: theirs is the first turn.
func (st *state) watched(w *sweep) (first []*Defer) {
	for token := range st.watchers {
		if d := st.live[token]; d != nil && st.waiting[d.slot].doomed == w {
			first = append(first, d)
		}
	}
	return first
}

// denySome denies the next calls of a sweep, and gives how many they count as.
func (tx *tx) denySome(w *sweep, most int) (n int) {
	for n < most && len(w.left) > 0 {
		d := w.left[0]
		w.left[0] = nil
		if w.left = w.left[1:]; tx.st.doomed(d) == w {
			n += 1 + len(d.joined)/joinedAsOne
			tx.denyDoomed(d)
		}
	}
	return n
}

// sweep goes on with what earlier batches have left.
func (tx *tx) sweep() {
	for left := tx.s.set.share; left > 0 && len(tx.st.sweeps) > 0; {
		w := tx.st.sweeps[0]
		left -= tx.denySome(w, left)
		if len(w.left) > 0 {
			return
		}
		tx.del(keyU64(prefixSweep, w.Number))
		tx.st.sweeps = tx.st.sweeps[1:]
		tx.onSync = append(tx.onSync, func(bool) { tx.s.open.ends(w) })
	}
}

// denyDoomed denies a call that a sweep has not come to yet, and reports whether it has. It is no part of the command
// that looks at the call: what becomes of that changes nothing.
func (tx *tx) denyDoomed(d *Defer) bool {
	w := tx.st.doomed(d)
	if w == nil || tx.mute {
		return false
	}
	ticket := tx.ticket
	tx.ticket = nil
	tx.move(d, Denied, w.By.Principal, w.Why, d.Expires)
	tx.deferRecord("defer_resolved", d, w.By, w.Why)
	tx.ticket = ticket
	return true
}

// loadSweeps goes on with what was left to be denied. Keys and deferred calls are loaded.
func (s *Store) loadSweeps(st *state) error {
	err := s.scan(prefixSweep, func(key, value []byte) error {
		w := &sweep{}
		if err := json.Unmarshal(value, w); err != nil {
			return fmt.Errorf("what is left to be denied, %x: %w", key[1:], err)
		}
		if len(key) != 9 {
			return fmt.Errorf("what is left to be denied has a key of %d bytes, expected 9", len(key))
		}
		w.Number = binary.BigEndian.Uint64(key[1:])
		st.sweeps = append(st.sweeps, w)
		s.open.begins(w)
		st.sweepNumber = w.Number + 1
		return nil
	})
	for _, w := range st.sweeps {
		w.mark(s, st)
		w.left = slices.DeleteFunc(w.left, func(d *Defer) bool {
			later := d.Created.After(w.At)
			if later {
				st.waiting[d.slot].doomed = nil
			}
			return later
		})
	}
	return err
}
