package store

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// tableGate keeps what nobody was given out of Pebble's tables. A start can cut commits off whose answers have not left
// (see mark), but only from write-ahead logs: so no table is begun before all that it may hold is released.
type tableGate struct {
	mu       sync.Mutex
	changed  sync.Cond
	given    uint64 // the newest commit that Pebble was given
	released uint64 // the newest one whose answers may have left
	held     bool   // Pebble waits for room before it takes the commit given
	closed   bool   // nothing is released any more
}

// give says that Pebble is given a commit.
func (g *tableGate) give(commit uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.given = commit
}

// release says that answers up to a commit may leave.
func (g *tableGate) release(commit uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.given, g.released = max(g.given, commit), commit
	g.changed.Broadcast()
}

// newest is the newest commit that Pebble may hold.
func (g *tableGate) newest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.given
}

func (g *tableGate) hold(held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = held
	g.changed.Broadcast()
}

// end lets nobody wait any more: the database is about to be closed, and waits for them.
func (g *tableGate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.changed.Broadcast()
}

// errClosing is what a table ends with that was waiting when the store was closed. What it was to hold is in the
// write-ahead logs.
var errClosing = errors.New("the store is being closed")

// listener hears of Pebble's waiting.
func (g *tableGate) listener() *pebble.EventListener {
	return &pebble.EventListener{
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { g.hold(true) },
		WriteStallEnd:   func() { g.hold(false) },
	}
}

// pass returns once all that Pebble holds in memory now is released. An error says that this would never be: what takes
// the refused commits back waits for room, and the room comes with the table that waits here.
func (g *tableGate) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for want := g.given; ; g.changed.Wait() {
		switch need := want; {
		case g.released >= need:
			return nil
		case g.closed:
			return errClosing
		case !g.held: // its answers, or what takes it back, will come
		case want == g.given && g.released >= need-1: // it is in no memtable that is complete
			return nil
		default:
			return errors.New("refused writes cannot be taken back: the database has no room")
		}
	}
}
