package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"sync"

	"github.com/yett-dev/yett/sdk"
)

// The types of records that tell what became of a subscriber's deliveries.
const (
	SubscriberGap = "subscriber_gap" // records that retention had removed before they were delivered
	// a record cannot be delivered: nothing goes out until an operator says so
	SubscriberPaused     = "subscriber_paused"
	SubscriberResumed    = "subscriber_resumed"     // an operator said so
	SubscriberDeadLetter = "subscriber_dead_letter" // a record was passed over
	SubscriberReplay     = "subscriber_replay"      // an operator asked for records once more
	SubscriberDropped    = "subscriber_dropped"     // its cursor was removed
)

// The limits of cursors.
const (
	maxCursors    = 1000
	maxCursorName = 128
	maxWhy        = 1024 // bytes of a reason in a record
)

// Cursor is how far a subscriber has come.
type Cursor struct {
	Seq  uint64 // it has taken in every record up to this one, or was told why not
	High uint64 // the furthest it ever was: what it is sent up to here was sent before
}

// cursorTable holds all cursors in memory.
type cursorTable struct {
	next map[string]Cursor // with what is on its way to the disk; the sequencer's alone

	mu   sync.Mutex
	disk map[string]Cursor
}

// SubscriberEvent becomes one record.
type SubscriberEvent struct {
	Type  string // one of the constants above
	First uint64 // the records that it is about; 0: none
	Last  uint64
	Why   string // cut to 1024 bytes
	By    Who    // zero: the system

	Policy string // the configuration in force
}

// MoveCursor moves a subscriber's cursor, and records events in the same write. It makes no record of its own: a cursor
// moves several times a second. A cursor that is at To already has been moved by an earlier try: then nothing is
// recorded.
type MoveCursor struct {
	Name   string
	To     uint64
	Back   bool // To may lie behind the cursor: without it, that is refused
	Stay   bool // only the events: To does not count
	Events []SubscriberEvent
}

func (c *MoveCursor) apply(tx *tx) error {
	if err := c.check(tx); err != nil {
		return err
	}
	was, known := tx.s.cursors.next[c.Name]
	if !c.Stay && known && was.Seq == c.To {
		return nil // it was done, and only the answer came too late
	}
	for i := range c.Events {
		tx.subscriberRecord(c.Name, &c.Events[i])
	}
	if c.Stay {
		return nil
	}
	is := Cursor{Seq: c.To, High: max(was.High, c.To)}
	tx.set(keyStr(prefixCursor, c.Name), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, is.Seq),
		is.High))
	tx.s.cursors.next[c.Name] = is
	tx.onSync = append(tx.onSync, func(bool) { tx.s.cursors.keep(c.Name, is) })
	return nil
}

func (c *MoveCursor) check(tx *tx) error {
	was, known := tx.s.cursors.next[c.Name]
	switch size := tx.q.tree.Size(); {
	case c.Name == "" || len(c.Name) > maxCursorName:
		return sdk.FieldErrf(sdk.CodeInvalidField, "name", "a subscriber's name has 1 to %d bytes", maxCursorName)
	case c.Stay:
		return nil
	case c.To > size:
		return sdk.FieldErrf(sdk.CodeInvalidField, "seq", "record %d is not written yet, the log ends at %d", c.To, size)
	case known && c.To < was.Seq && !c.Back:
		return sdk.FieldErrf(sdk.CodeConflict, "seq", "the cursor is at %d already, and %d lies behind it", was.Seq, c.To)
	case !known && len(tx.s.cursors.next) >= maxCursors:
		return sdk.FieldErrf(sdk.CodeTooManyRequests, "name",
			"there are %d cursors already; remove one that nobody uses (yett plugin forget NAME)", maxCursors)
	}
	return nil
}

// DropCursor removes the cursor of a subscriber that is gone, and records it. If it comes back it begins anew.
type DropCursor struct {
	Name   string
	By     Who
	Policy string // the configuration in force

	Was Cursor // out: where it stood
}

func (c *DropCursor) apply(tx *tx) error {
	was, known := tx.s.cursors.next[c.Name]
	if !known {
		return sdk.FieldErrf(sdk.CodeNotFound, "name", "there is no cursor %q", c.Name)
	}
	tx.subscriberRecord(c.Name, &SubscriberEvent{Type: SubscriberDropped, Last: was.Seq, By: c.By, Policy: c.Policy})
	c.Was = was
	tx.del(keyStr(prefixCursor, c.Name))
	delete(tx.s.cursors.next, c.Name)
	tx.onSync = append(tx.onSync, func(bool) { tx.s.cursors.drop(c.Name) })
	return nil
}

func (tx *tx) subscriberRecord(name string, e *SubscriberEvent) {
	o := tx.record(e.Type)
	by := e.By
	if by.Principal == "" {
		by = system
	}
	by.write(&o)
	o.Str("subscriber", name)
	if e.Policy != "" {
		o.Str("policy_version", e.Policy)
	}
	if e.First != 0 {
		o.Int("first_seq", int64(e.First))
	}
	if e.Last != 0 {
		o.Int("last_seq", int64(e.Last))
	}
	o.Opt("reason", e.Why[:min(len(e.Why), maxWhy)]) // what a cut leaves of a character is written as U+FFFD
	tx.end(o)
}

func (t *cursorTable) keep(name string, c Cursor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disk[name] = c
}

func (t *cursorTable) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.disk, name)
}

// Cursor is the subscriber's cursor as it is on disk; ok is false when it has none.
func (s *Store) Cursor(name string) (c Cursor, ok bool) {
	s.cursors.mu.Lock()
	defer s.cursors.mu.Unlock()
	c, ok = s.cursors.disk[name]
	return c, ok
}

// Cursors are all of them by subscriber, also those of subscribers that are not configured any more.
func (s *Store) Cursors() map[string]Cursor {
	s.cursors.mu.Lock()
	defer s.cursors.mu.Unlock()
	return maps.Clone(s.cursors.disk)
}

func (s *Store) loadCursors() error {
	t := &s.cursors
	t.next = map[string]Cursor{}
	err := s.scan(prefixCursor, func(key, value []byte) error {
		if len(value) != 16 {
			return fmt.Errorf("the cursor of %q has %d bytes", key[1:], len(value))
		}
		t.next[string(key[1:])] = Cursor{Seq: binary.BigEndian.Uint64(value), High: binary.BigEndian.Uint64(value[8:])}
		return nil
	})
	t.disk = maps.Clone(t.next)
	return err
}
