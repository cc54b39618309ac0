package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// atOnce bounds the waiting calls that one batch ends for one reason, such as a kill or the time. The rest is ended by
// the next batches, and shareEvery lies between two of them, so that other callers are answered in between, and what
// is sealed keeps up. Who asks about one of them finds it ended already.
// Actions that wait for a call have rows and are named: so many of them count as another call.
const (
	atOnce      = 128
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

	left []string // tokens, in the order in which they are denied
}

// covers tells what the sweep denies. It is asked often, so it is made once.
func (w *sweep) covers(s *Store) func(d *Defer) bool {
	if w.Kill == nil {
		return func(d *Defer) bool { return d.KeyID == w.Key && !d.Created.After(w.At) }
	}
	set := &killSet{all: map[killName]*Kill{{w.Kill.Scope, w.Kill.Target}: w.Kill}}
	set.sort(w.Kill)
	return func(d *Defer) bool {
		asker := s.keys.byID[d.KeyID]
		return asker != nil && !d.Created.After(w.At) &&
			set.covering(asker.root(), d.AgentID, d.SessionID, d.ToolID) != nil
	}
}

// mark finds what the sweep denies. It looks at all calls that wait, while no other batch is written.
func (w *sweep) mark(s *Store, st *state) {
	covers := w.covers(s)
	for _, due := range st.dues { // all live ones, and in an order, which a map has not
		if d := due.d; d.doomed == nil && covers(d) {
			d.doomed = w
			w.left = append(w.left, d.Token)
		}
	}
}

// deny denies all that w covers, the first of it in this batch, and gives how much that is.
func (tx *tx) deny(w *sweep) int {
	w.mark(tx.s, tx.st)
	n := len(w.left)
	if tx.denySome(w, atOnce); len(w.left) == 0 {
		return n
	}
	row, err := json.Marshal(w)
	tx.keep(err)
	w.Number = tx.st.sweepNumber
	tx.st.sweepNumber++
	tx.st.sweeps = append(tx.st.sweeps, w)
	tx.set(keyU64(prefixSweep, w.Number), row)
	if !tx.q.pace.rests() { // else many kills would put the rest off
		tx.q.pace.rest(tx.s.set.shareEvery)
	}
	return n
}

// denySome denies the next calls of a sweep, and gives how many they count as.
func (tx *tx) denySome(w *sweep, most int) (n int) {
	for n < most && len(w.left) > 0 {
		d := tx.st.live[w.left[0]]
		if w.left = w.left[1:]; d != nil && d.doomed == w {
			n += 1 + len(d.joined)/joinedAsOne
			tx.denyDoomed(d)
		}
	}
	return n
}

// sweep goes on with what earlier batches have left.
func (tx *tx) sweep() {
	for left := atOnce; left > 0 && len(tx.st.sweeps) > 0; {
		w := tx.st.sweeps[0]
		left -= tx.denySome(w, left)
		if len(w.left) > 0 {
			return
		}
		tx.del(keyU64(prefixSweep, w.Number))
		tx.st.sweeps = tx.st.sweeps[1:]
	}
}

// denyDoomed denies a call that a sweep has not come to yet, and reports whether it has. It is no part of the command
// that looks at the call: what becomes of that changes nothing.
func (tx *tx) denyDoomed(d *Defer) bool {
	w := d.doomed
	if w == nil || !d.open() || tx.mute {
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
		st.sweepNumber = w.Number + 1
		return nil
	})
	for _, w := range st.sweeps {
		w.mark(s, st)
	}
	return err
}
