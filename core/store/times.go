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
	clockSlack = time.Minute           // steps that a time service may well make, in all
	clockDrift = 1000                  // and a thousandth of the time that has passed
	clockBoots = 30 * 24 * time.Hour   // a machine may have been off so long
	clockTrust = 24 * time.Hour        // after so long a wall clock that is ahead is believed
	clockSlows = 10                    // a clock that is ahead of the wall waits for it: a tenth slower
	clockFine  = 10 * time.Millisecond // for so long the wall clock is followed without a look at the uptime
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
	base    time.Time     // is.Now, when the uptime was looked at last
	at      time.Duration // up, then
	seen    time.Time     // the wall clock, then
	follows bool          // it was what is.Now is, and in no doubt
	lead    time.Duration // how far Now is ahead of what is certain, because the wall clock was followed
	believe bool
}

// clockState is what a later life of the process goes on from.
type clockState struct {
	Now   time.Time
	Up    time.Duration // of the machine, then; 0 where nobody says
	Since time.Time     // these two as in Times
	Held  time.Duration
	Ahead time.Duration // what the wall clock was in doubt by
	Said  bool          // the record of the doubt is there
	Lead  time.Duration // how far Now is ahead of what was certain
}

// begin takes over from an earlier life of the process; Up is 0 if that was in another one of the machine. A doubt goes
// on: over a restart of the machine if the wall clock is no less ahead than it was, which it also is when the machine
// was off for so long.
func (k *timekeeper) begin(last clockState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.is, k.at, k.lead, k.follows = Times{}, 0, 0, false
	wall := k.wall().Round(0)
	doubt := last.Ahead > 0 && (last.Up > 0 || wall.Sub(last.Now) >= last.Ahead)
	switch {
	case last.Now.IsZero():
	case k.up != nil && last.Up > 0:
		k.is.Now, k.at, k.lead = last.Now, last.Up, last.Lead
	case k.up != nil && (doubt || wall.Sub(last.Now) > clockBoots):
		k.is.Now, k.at = last.Now, k.up()
	default:
		k.is.Now = wall
		if last.Now.After(wall) {
			k.is.Now = last.Now
		}
	}
	k.base = k.is.Now
	if k.up == nil {
		return
	}
	if k.at == 0 {
		k.at = k.up()
	}
	if doubt {
		k.is.Since, k.is.Held, k.lead = last.Since, last.Held, last.Lead
	}
}

// look gives the times of now. What the wall clock is ahead of the uptime adds up, and is forgotten by a thousandth of
// the time that passes: so many small steps are a large one.
func (k *timekeeper) look() Times {
	k.mu.Lock()
	defer k.mu.Unlock()
	wall := k.wall().Round(0) // without Go's monotonic reading: this is about what the wall clock says
	// to ask the kernel for the uptime costs ten times as much as to ask for the time
	if k.follows && k.up != nil && !k.believe && !wall.Before(k.is.Now) && wall.Sub(k.seen) < clockFine {
		k.is.Now, k.is.Late = wall, wall
		return k.is
	}
	return k.measure(wall)
}

// measure holds the wall clock against the uptime. k.mu is held.
func (k *timekeeper) measure(wall time.Time) Times {
	k.seen, k.follows = wall, false
	defer func() { k.base = k.is.Now }()
	passed := max(0, wall.Sub(k.base))
	if k.up != nil {
		up := k.up()
		passed, k.at = max(0, up-k.at), up
	}
	if k.is.Now.IsZero() {
		passed, k.is.Now, k.base = 0, wall, wall
	}
	sure := k.base.Add(passed)
	k.lead = max(0, k.lead-passed/clockDrift)
	believed := k.believe
	switch {
	case wall.Sub(sure)+k.lead > clockSlack && !believed:
		if k.is.Since.IsZero() {
			k.is.Since, passed = sure, 0 // that nobody looked for a day is no doubt of a day
		}
		if k.is.Now.Before(sure) {
			k.is.Now = sure
		}
		k.is.Late = wall
		if k.is.Held += passed; k.is.Held < clockTrust {
			return k.is
		}
		believed = true
	case wall.Before(k.is.Now):
		wall = k.base.Add(passed - passed/clockSlows)
		if wall.Before(k.is.Now) { // which went on with the wall clock meanwhile
			wall = k.is.Now
		}
	default:
		k.follows = true
	}
	if k.lead = max(0, k.lead+wall.Sub(sure)); believed {
		k.lead = 0
	}
	k.believe = false
	k.is = Times{Now: wall, Late: wall}
	return k.is
}

// state is what another life of the process goes on from.
func (k *timekeeper) state() clockState {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.measure(k.wall().Round(0))
	return clockState{Now: k.is.Now, Up: k.at, Since: k.is.Since, Held: k.is.Held, Ahead: t.Doubt(), Lead: k.lead}
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
	h := s.head.last
	last := h.Clock
	if s.set.Boot == "" || h.Boot != bootOf(s.set.Boot) {
		last.Up = 0
	}
	if text, err := s.LastTime(); err != nil {
		return err
	} else if text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return fmt.Errorf("the time of the newest record: %w", err)
		}
		if since := at.Sub(last.Now); since > 0 {
			if last.Now = at; last.Up > 0 { // else the time up to that record would be counted again
				last.Up += since
			}
		}
	}
	s.clock.begin(last)
	if last.Said { // and that of its end may be to come
		s.seq.doubt = last.Ahead
		s.seq.doubted.Store(last.Ahead > 0)
	}
	return nil
}
