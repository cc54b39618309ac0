// Package follow reads a log behind a cursor while the log grows. It owns how much is read at once, how long a reader
// rests, and how a hole that retention has left is told. It must never wait for whoever takes the records, keep one for
// them, or go past one without a word: who has no room says so, and is given that record again.
package follow

import (
	"errors"
	"runtime"
	"time"
)

// How reading shares the machine with decisions.
const (
	restAtEnd   = 25 * time.Millisecond // after a turn that has reached the end of the log
	restBetween = 2 * time.Millisecond  // after one that has not
	giveWay     = 32                    // records between two yields

	// ParseWork is the work of a byte that is parsed. That of a byte that is copied or skipped is 1.
	ParseWork = 8
)

// History is what there is of a log.
type History interface {
	// Seq is the number of records on disk.
	Seq() uint64
	// First is the first record that is still there; 1 while retention has removed none.
	First() uint64
	// Records calls fn with every record on disk from seq on, in order; where that one has been removed, from First on.
	// The bytes are only valid during the call. An error of fn ends the walk and is returned.
	Records(from uint64, fn func(seq uint64, record []byte) error) error
}

// Log is a log that grows.
type Log interface {
	History
	// Follow puts a token into wake, without waiting for room, whenever records have reached the disk, until stop is
	// called.
	Follow(wake chan<- struct{}) (stop func())
}

// Cursor is a place in a log. The zero Cursor is in none. One goroutine's.
type Cursor struct {
	log   History
	next  uint64
	reads int
}

// At is a cursor in front of record next.
func At(log History, next uint64) Cursor { return Cursor{log: log, next: next} }

// Next is the record to be read next.
func (c *Cursor) Next() uint64 { return c.next }

// Move puts the cursor in front of record next.
func (c *Cursor) Move(next uint64) { c.next = next }

// ToEnd puts the cursor behind what there is.
func (c *Cursor) ToEnd() { c.next = max(c.next, c.log.Seq()+1) }

// Limits bound a turn. Those that are 0 do not.
type Limits struct {
	Work    int    // no record is begun when so much is done
	Records int    // that are handed over
	Before  uint64 // this record is not read
}

// ErrLater is what the function that Read calls returns to end the turn and get this record again in the next one.
var ErrLater = errors.New("the record is for another turn")

// State is how a turn has ended.
type State int

// The states.
const (
	More   State = iota // at a limit, or with ErrLater
	AtEnd               // all that was on disk when it began is handed over
	Gone                // retention has removed what comes next, up to Turn.Gone
	Failed              // with Turn.Err: what cannot be read is not left out
)

// Turn is what has come of one.
type Turn struct {
	State State
	Work  int
	Gone  uint64
	Err   error
}

// errTurn ends a walk whose turn says why.
var errTurn = errors.New("the turn is over")

// Read is one turn: it hands records from the cursor on to fn, and the cursor follows. The work of a record is its
// bytes, and what fn says that it has done besides. The bytes are only valid during the call. While fn runs, the cursor
// is in front of the record.
func (c *Cursor) Read(lim Limits, fn func(seq uint64, record []byte) (work int, err error)) Turn {
	if first := c.log.First(); c.next < first {
		return Turn{State: Gone, Gone: first - 1}
	}
	t, count := Turn{State: AtEnd}, 0
	err := c.log.Records(c.next, func(seq uint64, record []byte) error {
		switch {
		case seq != c.next:
			t.State, t.Gone = Gone, seq-1
			return errTurn
		case lim.Work > 0 && t.Work >= lim.Work, lim.Records > 0 && count >= lim.Records,
			lim.Before > 0 && seq >= lim.Before:
			t.State = More
			return errTurn
		}
		if c.reads++; c.reads%giveWay == 0 {
			runtime.Gosched()
		}
		work, err := fn(seq, record)
		t.Work += len(record) + work
		if errors.Is(err, ErrLater) {
			t.State = More
			return errTurn
		}
		if err != nil {
			return err
		}
		c.next = seq + 1
		count++
		return nil
	})
	if err != nil && !errors.Is(err, errTurn) {
		t.State, t.Err = Failed, err
	}
	return t
}

// Follower is a cursor that hears of new records. One goroutine's.
type Follower struct {
	Cursor
	wake  chan struct{}
	stop  func()
	atEnd bool
}

// Start is a follower of a log, in front of record next. The caller calls Stop.
func Start(log Log, next uint64) *Follower {
	f := &Follower{Cursor: At(log, next), wake: make(chan struct{}, 1)}
	f.stop = log.Follow(f.wake)
	return f
}

// Stop hears of nothing any more.
func (f *Follower) Stop() { f.stop() }

// Read is a turn of the cursor.
func (f *Follower) Read(lim Limits, fn func(seq uint64, record []byte) (work int, err error)) Turn {
	t := f.Cursor.Read(lim, fn)
	f.atEnd = t.State == AtEnd
	return t
}

// AtEnd reports whether there is nothing to read before a token comes.
func (f *Follower) AtEnd() bool { return f.atEnd }

// Wake has a token when records have reached the disk since one was taken.
func (f *Follower) Wake() <-chan struct{} { return f.wake }

// Woken says that there may be something to read, for AtEnd: a token was taken, or what was read is not done with.
func (f *Follower) Woken() { f.atEnd = false }

// Rest is how long to rest behind a turn; more says that there is more to read at once.
func Rest(more bool) time.Duration {
	if more {
		return restBetween
	}
	return restAtEnd
}

// Pause waits, and reports whether stop is still open.
func Pause(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}
