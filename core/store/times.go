package store

import (
	"fmt"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// A wall clock is set: by a time service, by a person, by a broken battery. What ends at a time must not live again
// because it was set back, and must not end for good because it was wrong for four seconds. So the store has a clock of
// its own, held against the machine's uptime, which counts sleep and which nobody sets.
const (
	clockSlack = time.Minute         // a step that a time service may well make
	clockDrift = 1000                // and a thousandth of the time that has passed
	clockBoots = 30 * 24 * time.Hour // a machine may have been off so long
	clockTrust = 24 * time.Hour      // after so long a wall clock that is ahead is believed
	clockSlows = 10                  // a clock that is ahead of the wall waits for it: a tenth slower
)

// Times are what the store's clock says at one moment.
type Times struct {
	Now   time.Time     // the time as far as it is certain; it never goes back
	Late  time.Time     // what the wall clock says while it is in doubt, else Now
	Since time.Time     // when the doubt began, by Now; zero while there is none
	Held  time.Duration // for how long it has lasted
}

// Doubt is how far the wall clock is ahead of what can be true; 0 while it is believed.
func (t *Times) Doubt() time.Duration { return t.Late.Sub(t.Now) }

// For is the time that the end of something counts by. A doubtful clock ends what was made before it was in doubt,
// until it is set right. What was made since is measured by the time that is certain.
func (t *Times) For(made time.Time) time.Time {
	if made.Before(t.Since) {
		return t.Late
	}
	return t.Now
}

// timekeeper is the store's clock. It is safe for concurrent use.
type timekeeper struct {
	wall func() time.Time
	up   func() time.Duration // nil: the wall clock is believed, and never goes back all the same

	mu      sync.Mutex
	is      Times
	at      time.Duration // up, then
	believe bool
}

// begin takes over from an earlier life of the store: what its clock said last, and how long the machine had been up
// then, 0 if that was another boot.
func (k *timekeeper) begin(last time.Time, up time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.is, k.at = Times{}, 0
	wall := k.wall().Round(0)
	switch {
	case last.IsZero():
	case k.up != nil && up > 0:
		k.is.Now, k.at = last, up
	case k.up != nil && wall.Sub(last) > clockBoots:
		k.is.Now, k.at = last, k.up()
	default:
		k.is.Now = wall
		if last.After(wall) {
			k.is.Now = last
		}
	}
	if k.at == 0 && k.up != nil {
		k.at = k.up()
	}
}

// look gives the times of now.
func (k *timekeeper) look() Times {
	k.mu.Lock()
	defer k.mu.Unlock()
	wall := k.wall().Round(0) // without Go's monotonic reading: this is about what the wall clock says
	passed := max(0, wall.Sub(k.is.Now))
	if k.up != nil {
		up := k.up()
		passed, k.at = max(0, up-k.at), up
	}
	if k.is.Now.IsZero() {
		passed, k.is.Now = 0, wall
	}
	sure := k.is.Now.Add(passed)
	switch ahead := wall.Sub(sure); {
	case ahead > clockSlack+passed/clockDrift && !k.believe:
		if k.is.Since.IsZero() {
			k.is.Since = sure
		}
		k.is.Now, k.is.Late = sure, wall
		if k.is.Held += passed; k.is.Held < clockTrust {
			return k.is
		}
	case wall.Before(k.is.Now):
		wall = k.is.Now.Add(passed - passed/clockSlows)
	}
	k.believe = false
	k.is = Times{Now: wall, Late: wall}
	return k.is
}

// pair is the time as far as it is certain, and how long the machine has been up then; 0 where nobody says.
func (k *timekeeper) pair() (now time.Time, up time.Duration) {
	k.look()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.is.Now, k.at
}

// Times is what the store's clock says now. What counts by it counts alike everywhere.
func (s *Store) Times() Times { return s.clock.look() }

// Now is the store's clock: wall time that never goes back, and waits where it is ahead of what can be true.
func (s *Store) Now() time.Time { return s.clock.look().Now }

// At is the time that the end of a key counts by.
func (k *Key) At(t Times) time.Time { return t.For(k.CreatedAt) }

// At is the time that the end of a grant counts by.
func (g *Grant) At(t Times) time.Time { return t.For(g.Created) }

// over reports whether the time of an open deferred call, or of its approval, is over.
func (d *Defer) over(t Times) bool {
	return d.open() && !t.For(d.made()).Before(d.Expires)
}

func (tx *tx) live(k *Key) error { return k.live(k.At(tx.times)) }

// decided is the time by which an action is too old to be started.
func (tx *tx) decided(a *ActionRow) time.Time {
	if a == nil {
		return tx.now
	}
	return tx.times.For(a.Decided)
}

// BelieveClock takes the wall clock for right that is ahead of what can be true: somebody has looked at it. Everything
// that is over by it ends.
type BelieveClock struct {
	By Who

	Was time.Duration // out: how far it was ahead
}

func (c *BelieveClock) apply(tx *tx) error {
	k := &tx.s.clock
	if c.Was = tx.times.Doubt(); c.Was == 0 {
		return sdk.Errf(sdk.CodeConflict, "the clock is in no doubt: there is nothing to confirm")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.believe, tx.q.said = true, true
	tx.clockRecord("clock_believed", c.By, c.Was)
	return nil
}

func (*BelieveClock) class() class { return noting }

// noteClock records that the wall clock has come to be in doubt, or is believed again.
func (tx *tx) noteClock() {
	was, is := tx.q.doubt, tx.times.Doubt()
	tx.q.doubt = is
	tx.q.doubted.Store(is > 0)
	switch {
	case was == 0 && is > 0:
		tx.clockRecord("clock_in_doubt", system, is)
	case was > 0 && is == 0 && !tx.q.said:
		tx.clockRecord("clock_believed", system, was)
	}
	tx.q.said = false
}

func (tx *tx) clockRecord(typ string, by Who, ahead time.Duration) {
	o := tx.record(typ)
	by.write(&o)
	o.Str("ahead", ahead.Round(time.Second).String())
	tx.end(o)
}

// startClock goes on from what the store's clock said last: in log/head, or in the newest record.
func (s *Store) startClock() error {
	h, up := s.head.last, time.Duration(0)
	if h.Boot == bootOf(s.set.Boot) && s.set.Boot != "" {
		up = h.Up
	}
	last := h.Clock
	if text, err := s.LastTime(); err != nil {
		return err
	} else if text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return fmt.Errorf("the time of the newest record: %w", err)
		}
		if at.After(last) {
			last = at
		}
	}
	s.clock.begin(last, up)
	return nil
}
