package store

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/yett-dev/yett/core/audit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Command is one change, or a read that must be in order with the changes. Commands are the types of this package; they
// carry their inputs, and their results once Commit has returned nil.
type Command interface {
	// apply checks everything first, and does what the command asks only when it returns nil; a refusal may still leave what
	// time alone has changed, an expiry. It runs on the sequencer's goroutine.
	apply(tx *tx) error
}

// ticket states.
const (
	waiting int32 = iota
	answered
	abandoned // the disk stalled: a refusal went out instead
)

type ticket struct {
	cmd    Command
	done   chan struct{}
	result error // what apply said; the sequencer's alone
	err    error // what Commit returns; written once, by whoever moves state away from waiting
	state  atomic.Int32
	first  uint64 // seq of its first record, 0 if it made none
	last   uint64
}

var tickets = sync.Pool{New: func() any { return &ticket{done: make(chan struct{}, 1)} }}

// sequencer is the one writer. While one batch syncs, the queue fills for the next one.
type sequencer struct {
	s     *Store
	state *state
	tree  *audit.Tree
	size  atomic.Uint64 // records on disk
	tail  tail          // the newest of them, for those who follow the log
	wake  chan struct{}
	quit  chan struct{}
	dead  chan struct{} // closed once the store has failed
	wg    sync.WaitGroup

	mu       sync.Mutex // never held across the disk
	queue    []*ticket
	flying   []*ticket // in the batch that is being written
	since    time.Time // when that batch was handed to the disk; zero if none is
	stalled  bool
	failed   error
	closed   bool
	late     []uint64 // seqs that reached the disk after their refusal went out
	nextDue  time.Time
	spareBuf []*ticket
}

func newSequencer(s *Store) *sequencer {
	return &sequencer{s: s, tree: &audit.Tree{}, state: newState(), wake: make(chan struct{}, 1), quit: make(chan struct{}), dead: make(chan struct{})}
}

func (q *sequencer) start() {
	q.nextDue = q.state.due // of what was loaded: early at most, never late
	q.wg.Add(2)
	go q.loop()
	go q.watch()
}

// Commit runs one command and returns when its record is on disk, or with the command's own error. The error is an
// *sdk.Error; audit_unavailable means nothing was recorded in time and nothing may be permitted. The command must not
// be touched again after audit_unavailable.
func (s *Store) Commit(ctx context.Context, cmd Command) error {
	q := s.seq
	t := tickets.Get().(*ticket)
	t.cmd, t.err, t.first, t.last = cmd, nil, 0, 0
	t.state.Store(waiting)
	q.mu.Lock()
	if q.failed != nil || q.closed || q.stalled {
		err := q.failed
		q.mu.Unlock()
		tickets.Put(t)
		return unavailable(err)
	}
	q.queue = append(q.queue, t)
	first := len(q.queue) == 1
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	<-t.done // the sequencer, the watcher or fail answers within the stall limit
	err := t.err
	if t.state.Load() == answered {
		t.cmd = nil
		tickets.Put(t)
	}
	return err
}

func (q *sequencer) loop() {
	defer q.wg.Done()
	tx := &tx{s: q.s, st: q.state, q: q}
	for {
		select {
		case <-q.wake:
		case <-q.quit:
			q.run(tx) // what was queued before close
			q.run(tx) // and the mark on what of it had been refused
			return
		}
		// Requests that are about to enqueue get to: fewer, larger batches.
		runtime.Gosched()
		runtime.Gosched()
		q.run(tx)
	}
}

// run writes one batch.
func (q *sequencer) run(tx *tx) {
	q.mu.Lock()
	if q.failed != nil {
		q.mu.Unlock()
		return
	}
	batch := q.queue
	q.queue, q.spareBuf = q.spareBuf[:0], nil
	q.flying, q.since = batch, q.s.set.Now()
	late := q.late
	q.late = nil
	q.mu.Unlock()

	tx.begin(q.since)
	tx.unanswered(late)
	tx.expire()
	for _, t := range batch {
		tx.ticket = t
		t.result = t.cmd.apply(tx)
	}
	tx.ticket = nil
	if err := tx.write(); err != nil {
		q.s.fatal(err)
		return
	}
	if q.broken() != nil {
		return // Pebble has given up elsewhere: everybody here has been refused
	}
	q.size.Store(q.tree.Size())
	for i, fn := range tx.onSync {
		fn()
		tx.onSync[i] = nil
	}
	q.release(batch)
	q.tail.add(tx.first, q.tree.Size(), tx.records)
	tx.after()
}

// release lets the answers go. What the watcher has refused meanwhile is remembered, to be marked in the log.
func (q *sequencer) release(batch []*ticket) {
	q.mu.Lock()
	q.flying, q.since = nil, time.Time{} // from here on nobody else looks at the batch
	q.mu.Unlock()
	var late []uint64
	for i, t := range batch {
		batch[i] = nil
		if t.state.CompareAndSwap(waiting, answered) {
			t.err = t.result
			t.done <- struct{}{}
			continue
		}
		for seq := t.first; seq != 0 && seq <= t.last; seq++ {
			late = append(late, seq)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stalled = false
	q.spareBuf = batch[:0]
	q.late = append(q.late, late...)
	q.nextDue = q.state.due
	if len(q.late) > 0 || len(q.queue) > 0 {
		q.nudge()
	}
}

func (q *sequencer) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// watch refuses what waits for a disk that has stalled, and wakes the sequencer when a timer is due.
func (q *sequencer) watch() {
	defer q.wg.Done()
	tick := time.NewTicker(q.s.set.Stall / 10)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			q.look(q.s.set.Now())
		case <-q.quit:
			return
		}
	}
}

func (q *sequencer) look(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.nextDue.IsZero() && !now.Before(q.nextDue) && q.since.IsZero() {
		q.nudge()
	}
	if q.since.IsZero() || now.Sub(q.since) < q.s.set.Stall {
		return
	}
	q.stalled = true
	q.refuse(q.flying, errors.New("the disk has stalled"))
	q.refuse(q.queue, errors.New("the disk has stalled"))
	q.queue = nil
}

// refuse answers tickets with audit_unavailable. q.mu is held.
func (q *sequencer) refuse(ts []*ticket, err error) {
	for _, t := range ts {
		if t != nil && t.state.CompareAndSwap(waiting, abandoned) {
			t.err = unavailable(err)
			t.done <- struct{}{}
		}
	}
}

// fail ends the store: everything that waits or will come is refused.
func (q *sequencer) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil {
		q.failed = err
		close(q.dead)
	}
	q.refuse(q.flying, err)
	q.refuse(q.queue, err)
	q.queue = nil
}

func (q *sequencer) broken() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

func (q *sequencer) healthy() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.failed != nil:
		return q.failed
	case q.stalled:
		return errors.New("the disk has stalled")
	case q.closed:
		return errors.New("the store is closed")
	}
	return nil
}

func (q *sequencer) close() {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.closed = true
	q.mu.Unlock()
	close(q.quit)
	q.wg.Wait()
}

// tx is one batch in the making.
type tx struct {
	s       *Store
	st      *state
	q       *sequencer
	now     time.Time
	ticket  *ticket
	batch   *pebble.Batch
	records []byte // (u32 length, record)…
	hashes  []byte
	first   uint64 // seq of the first record
	firstH  uint64
	onSync  []func()          // once the batch is on disk, before the answers go
	onDone  []func()          // after the answers have gone
	start   int               // of the record being written
	fresh   map[string][]byte // rows of this batch that it may have to read again
	swept   map[byte]uint32   // the window up to which old rows are gone, by prefix
	closed  map[string]*Defer // defers that this batch has ended: their rows on disk still say otherwise
	trimmed uint64            // the first record that retention leaves, if it removes some in this batch
	err     error
}

func (tx *tx) begin(now time.Time) {
	tx.now = now
	tx.records, tx.hashes = tx.records[:0], tx.hashes[:0]
	tx.first, tx.firstH = tx.q.tree.Size()+1, uint64(audit.StoredHashes(tx.q.tree.Size()))
	tx.batch = tx.s.db.NewBatch()
	tx.onSync, tx.onDone = tx.onSync[:0], tx.onDone[:0]
	clear(tx.fresh)
	clear(tx.closed)
	tx.err, tx.trimmed = nil, 0
	tx.forget()
	tx.dropCounters()
}

// record starts the next record. The caller adds members and calls tx.end with the writer, before anything else.
func (tx *tx) record(typ string) wire.Writer {
	tx.start = len(tx.records)
	tx.records = append(tx.records, 0, 0, 0, 0)
	return audit.Begin(tx.records, tx.s.id, tx.q.tree.Size()+1, tx.now, typ)
}

func (tx *tx) end(o wire.Writer) {
	tx.records = o.Close()
	rec := tx.records[tx.start+4:]
	binary.BigEndian.PutUint32(tx.records[tx.start:], uint32(len(rec)))
	tx.hashes = tx.q.tree.Append(rec, tx.hashes)
	if t := tx.ticket; t != nil {
		t.last = tx.q.tree.Size()
		if t.first == 0 {
			t.first = t.last
		}
	}
}

// set writes a row. A Pebble batch only fails when it is misused; the error is kept for write.
func (tx *tx) set(key, value []byte) { tx.keep(tx.batch.Set(key, value, nil)) }
func (tx *tx) del(key []byte)        { tx.keep(tx.batch.Delete(key, nil)) }
func (tx *tx) keep(err error)        { tx.err = errors.Join(tx.err, err) }

func (tx *tx) write() error {
	defer tx.batch.Close()
	if len(tx.records) > 0 {
		tx.set(keyU64(prefixRecords, tx.first), tx.records)
		tx.set(keyU64(prefixHashes, tx.firstH), tx.hashes)
	}
	if tx.err != nil || tx.batch.Empty() {
		return tx.err
	}
	if tx.s.set.Delay != nil {
		tx.s.set.Delay()
	}
	return tx.batch.Commit(pebble.Sync)
}

// after runs what had to wait for the disk, such as waking those who wait for a defer.
func (tx *tx) after() {
	for i, fn := range tx.onDone {
		fn()
		tx.onDone[i] = nil
	}
}

// unanswered marks records that reached the disk after a refusal had gone out: they bind nobody.
func (tx *tx) unanswered(seqs []uint64) {
	if len(seqs) == 0 {
		return
	}
	o := tx.record("unanswered")
	list := make([]byte, 0, 16*len(seqs))
	list = append(list, '[')
	for i, n := range seqs {
		if i > 0 {
			list = append(list, ',')
		}
		list = appendUint(list, n)
	}
	o.Raw("seqs", append(list, ']'))
	o.Str("reason_code", sdk.ReasonAuditUnavailable)
	tx.end(o)
}
