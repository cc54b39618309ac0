package store

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestWhatIsRefusedStaysOutOfTables: a command is refused, lands, and Pebble begins a new write-ahead log behind it.
// The process ends when what takes it back is in that one, and not released either. The next start finds it all the
// same.
func TestWhatIsRefusedStaysOutOfTables(t *testing.T) {
	base := newCuttable()
	var armed atomic.Bool
	var ended atomic.Pointer[vfs.MemFS]
	look := func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt && armed.CompareAndSwap(true, false) { // the mark
			ended.Store(base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}))
		}
		return nil
	}
	l := newLaterRigOn(t, errorfs.Wrap(base, errorfs.InjectorFunc(look)))
	token := l.pending("x")
	size := l.s.Seq()
	l.disk.stop()
	done := make(chan error)
	go func() { done <- l.s.Commit(context.Background(), l.longYes(token)) }()
	<-l.disk.begun
	l.s.seq.look(l.clock.advance(time.Hour))
	if err := <-done; err == nil {
		t.Fatal("it was not refused")
	}
	l.disk.oneMore()
	<-l.disk.begun
	waits := l.s.gate.watched()
	flushed, err := l.s.db.AsyncFlush()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-flushed:
		t.Fatal("the refused command is in a table")
	case <-waits:
	}
	armed.Store(true)
	l.disk.goOn()
	healthyAgain(t, l.s)
	<-flushed
	l.startOn(ended.Load())
	if got := l.status(l.agent, token); got != Pending {
		t.Errorf("the approval is %s", got)
	}
	if got := l.s.Seq(); got != size {
		t.Errorf("the log has %d records, want %d", got, size)
	}
	if err := consistent(l.s); err != nil {
		t.Error(err)
	}
}

// watched gives a channel that hears of everybody who begins to wait at the gate.
func (g *tableGate) watched() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := waitsFor{&g.mu, make(chan struct{}, 16)}
	g.changed.L = w
	return w.waits
}

// waitsFor is the lock of a condition: it is unlocked when somebody begins to wait.
type waitsFor struct {
	sync.Locker
	waits chan struct{}
}

func (w waitsFor) Unlock() {
	w.waits <- struct{}{}
	w.Locker.Unlock()
}

// TestTableGate: a table waits for what it may hold, and for nothing that waits for the table.
func TestTableGate(t *testing.T) {
	full := pebble.WriteStallBeginInfo{}
	for name, c := range map[string]struct {
		given, released uint64
		held            bool
		then            func(g *tableGate) // while it waits; nil: it does not
		fails           bool
	}{
		"nothing was given":             {},
		"all is released":               {given: 5, released: 5},
		"released later":                {given: 5, released: 4, then: func(g *tableGate) { g.release(5) }},
		"the last one waits for room":   {given: 5, released: 4, held: true},
		"the last one begins to wait":   {given: 5, released: 4, then: func(g *tableGate) { g.listener().WriteStallBegin(full) }},
		"a refused one waits for room":  {given: 5, released: 3, held: true, fails: true},
		"there is room, and it goes on": {given: 5, released: 3, then: func(g *tableGate) { g.release(5) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := &tableGate{given: c.given, released: c.released, held: c.held}
			waits := g.watched()
			passed := make(chan error, 1)
			go func() { passed <- g.pass() }()
			if c.then != nil {
				select {
				case err := <-passed:
					t.Fatalf("it did not wait: %v", err)
				case <-waits:
				}
				c.then(g)
			}
			if err := <-passed; (err != nil) != c.fails {
				t.Errorf("got %v", err)
			}
		})
	}
}
