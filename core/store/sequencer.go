package store

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/log"
)

// Command is one change, or a read that must be in order with the changes. Commands are the types of this package; they
// carry their inputs, and their results once Commit has returned nil.
type Command interface {
	// apply checks everything first, and does what the command asks only when it returns nil; a refusal may still leave
	// what time alone has changed, an expiry. It runs on the sequencer's goroutine.
	apply(tx *tx) error
	// class says what becomes of the command when it reached the disk after its caller was refused. It is asked after
	// apply.
	class() class
}

// ticket states.
const (
	waiting int32 = iota
	answered
	abandoned // the disk stalled: a refusal went out instead
)

type ticket struct {
	cmd    Command
	owner  string // the key that it is counted on, "" for none
	bytes  int    // about what it writes
	urgent bool
	claim  string // what its command takes away, if it is a taker
	sure   bool   // nothing but the disk can be in the way of that
	done   chan struct{}
	result error // what apply said; the sequencer's alone
	err    error // what Commit returns; written once, by whoever moves state away from waiting
	state  atomic.Int32
	first  uint64 // seq of its first record, 0 if it made none
	last   uint64
	undo   []undo // the sequencer's alone
	anchor uint64 // the commit that log/head has to know of before the answer leaves, 0 for none
}

// sequencer is the one writer. While one batch syncs, the queue fills for the next one.
type sequencer struct {
	s       *Store
	state   *state
	tree    *log.Tree
	size    atomic.Uint64      // records on disk
	number  uint64             // of the newest commit on disk; its own
	sum     rowSum             // of the rows then; its own
	live    map[string]rowHash // of the rows of live calls, by token; its own
	doubt   time.Duration      // how far the wall clock was ahead in the newest batch; its own
	said    bool               // that it is believed has been recorded; its own
	unborn  bool               // the log of a backup is to go on, and its first record is not written yet; its own
	starved bool               // the disk had no room for the last batch; its own
	pace    pace               // its own
	unseen  []*log.Commit      // on disk, and refused: not shown before what takes them back is on disk; its own
	origin  time.Time          // since counts from it
	since   atomic.Int64       // when the sequencer began to wait for the disk, by awake, plus 1; 0 while it does not
	doubted atomic.Bool        // doubt is not 0
	lost    atomic.Int64       // ns that the watcher did not see pass: see tick
	wake    chan struct{}
	quit    chan struct{}
	dead    chan struct{} // closed once the store has failed
	wg      sync.WaitGroup
	tickets sync.Pool // of this store's: a channel belongs to the bubble of a test that it was made in

	mu       sync.Mutex // never held across the disk
	queue    queue
	flying   []*ticket // in the batch that is being written
	busy     bool      // there is such a batch
	stalled  bool
	behind   bool // something is left to be written that the disk had no room for: the watcher asks again
	failed   error
	closed   bool
	owed     owed
	late     []*ticket // that reached the disk after their refusal went out: the next batch deals with them
	nextDue  time.Time
	spareBuf []*ticket
}

func newSequencer(s *Store) *sequencer {
	q := &sequencer{s: s, tree: &log.Tree{}, live: map[string]rowHash{},
		state: newState(), origin: s.set.Now(), wake: make(chan struct{}, 1),
		quit: make(chan struct{}), dead: make(chan struct{}), queue: queue{of: map[string]int{}, last: map[string]uint64{}},
		owed:    owed{of: map[string]bool{}},
		tickets: sync.Pool{New: func() any { return &ticket{done: make(chan struct{}, 1)} }}}
	q.pace.begin(q.nudge)
	return q
}

func (q *sequencer) start() {
	q.nextDue = q.state.next() // of what was loaded: early at most, never late
	if len(q.state.sweeps) > 0 {
		q.nudge()
	}
	q.wg.Add(2)
	go q.loop()
	go q.watch()
}

// Commit runs one command and returns when its record is on disk, or with the command's own error. The error is an
// *sdk.Error; audit_unavailable means nothing was recorded in time and nothing may be permitted: what lands later all
// the same stands only where it takes something away (see class). in_effect_not_durable is the answer to a command that
// only takes away: it holds, and is written with the next batch that the disk takes (see taker). too_many_requests
// means that the key has too much waiting. The command must not be touched again after the first two.
func (s *Store) Commit(ctx context.Context, cmd Command) error {
	q := s.seq
	t := q.tickets.Get().(*ticket)
	t.cmd, t.err, t.first, t.last, t.anchor = cmd, nil, 0, 0, 0
	t.owner, t.bytes, t.urgent = weigh(cmd)
	t.claimed(s)
	t.state.Store(waiting)
	if err := q.enqueue(t); err != nil {
		t.cmd = nil
		q.tickets.Put(t)
		return err
	}
	<-t.done // the sequencer, the watcher or fail answers within the stall limit
	err := t.err
	if t.state.Load() == answered {
		if t.anchor != 0 && s.keeper != nil {
			s.keeper.waitFor(t.anchor)
		}
		t.cmd = nil
		clear(t.undo)
		t.undo = t.undo[:0]
		q.tickets.Put(t)
	}
	return err
}

func (q *sequencer) enqueue(t *ticket) error {
	q.mu.Lock()
	if q.failed != nil || q.closed || q.stalled {
		err := q.owe(t, unavailable(q.failed))
		q.mu.Unlock()
		return err
	}
	first := q.queue.len() == 0
	err := q.s.room.refuses(t.cmd, false, false)
	if err == nil {
		err = q.queue.add(t, &q.s.set)
	}
	q.mu.Unlock()
	if err == nil && first {
		q.nudge()
	}
	return err
}

func (q *sequencer) loop() {
	defer q.wg.Done()
	tx := &tx{s: q.s, st: q.state, q: q, summer: newSummer(q.s.set.Secret)}
	for {
		select {
		case <-q.wake:
		case <-q.dead:
			return
		case <-q.quit:
			for q.owes() { // what was queued before close, and what is to be said of those of it that were refused
				q.run(tx)
			}
			return
		}
		// Requests that are about to enqueue get to: fewer, larger batches.
		runtime.Gosched()
		runtime.Gosched()
		q.run(tx)
	}
}

// owes reports whether something is still to be written.
func (q *sequencer) owes() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed == nil && (q.queue.len() > 0 || !q.starved && (len(q.late) > 0 || len(q.owed.list) > 0))
}

// run writes one batch.
func (q *sequencer) run(tx *tx) {
	q.mu.Lock()
	if q.failed != nil {
		q.mu.Unlock()
		return
	}
	batch := q.queue.next(q.spareBuf[:0])
	q.spareBuf, q.flying, q.busy = nil, batch, true
	writes := len(q.late) > 0 || len(q.owed.list) > 0
	q.mu.Unlock()
	late, owed := q.takeLate(batch, writes)

	q.s.seen.batch = len(batch)
	q.pace.batch(len(batch))
	tx.begin(q.s.clock.look(), q.starved)
	if !q.starved {
		tx.unanswered(late)
		q.s.open.settled()
		tx.writeOwed(owed)
		tx.passTime()
	}
	void := q.void()
	for _, t := range batch {
		tx.ticket = t
		if t.result = q.s.room.refuses(t.cmd, q.starved, void); t.result == nil {
			t.result = t.cmd.apply(tx)
		}
	}
	tx.ticket = nil
	if err := tx.write(); err != nil {
		q.s.fatal(err)
		return
	}
	if q.broken() != nil {
		return // Pebble has given up elsewhere: everybody here has been refused
	}
	if tx.commit != nil {
		q.number, q.unseen = tx.commit.Number, append(q.unseen, tx.commit)
	}
	refused := q.landed(void)
	if !refused && !void && !q.show(batch) {
		return
	}
	for i, fn := range tx.onSync {
		fn(refused)
		tx.onSync[i] = nil
	}
	if !refused && !void {
		q.s.records.show(q.s.First())
	}
	q.release(batch, refused, tx.now)
	if !refused && tx.commit != nil && tx.commit.Count > 0 {
		q.s.records.tell()
	}
	tx.after()
}

// void reports whether the state holds what nobody was given: a batch was refused and landed, and the disk has no room
// for what takes it back. Then nobody is shown anything, not even by a read, and a start cuts it off.
func (q *sequencer) void() bool {
	return q.starved && len(q.unseen) > 0
}

// enter and leave are around everything that waits for the disk, and around nothing else: a busy processor and a long
// queue are no stall. They do not nest.
func (q *sequencer) enter() { q.since.Store(int64(q.awake(q.s.set.Now())) + 1) }
func (q *sequencer) leave() { q.since.Store(0) }

// landed ends the time in which the watcher may refuse the batch, which is on disk, and reports whether it has: it
// refuses all of a batch or nothing of it. void is what void says.
func (q *sequencer) landed(void bool) (refused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	refused = len(q.flying) > 0 && q.flying[0].state.Load() == abandoned
	q.flying = nil
	if !refused && !void {
		q.s.open.settled()
	}
	return refused
}

// release lets the answers go. A batch that was refused meanwhile is kept for the next one to deal with.
func (q *sequencer) release(batch []*ticket, refused bool, now time.Time) {
	var late []*ticket
	if refused {
		late = append(late, batch...)
	}
	for i, t := range batch {
		batch[i] = nil
		if t.claim != "" && unrecorded(t.result) {
			q.mu.Lock()
			q.refuse([]*ticket{t}, t.result)
			q.mu.Unlock()
		}
		if t.state.CompareAndSwap(waiting, answered) {
			t.err = t.result
			t.done <- struct{}{}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stalled, q.busy = false, false
	q.spareBuf = batch[:0]
	q.late = append(q.late, late...)
	q.nextDue = q.state.next()
	left := len(q.late) > 0 || len(q.owed.list) > 0
	over := !q.unborn && q.state.over(now)
	if q.behind = q.starved && (left || over); q.queue.len() > 0 || !q.starved && (left || over && q.pace.asks()) {
		q.nudge()
	}
}

func (q *sequencer) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// refuseAll answers everything that waits with audit_unavailable. Of what has been handed to the disk nobody knows what
// will become; what was still queued will never be written. q.mu is held.
func (q *sequencer) refuseAll(err error) {
	unknown := unavailable(err)
	unknown.More = map[string]string{"outcome": "unknown"}
	unknown.Msg += "; whether this reached the disk is not known: if it does, it stands only where it takes something " +
		"away, else send it again"
	q.refuse(q.flying, unknown)
	q.refuse(q.queue.first, unavailable(err))
	q.refuse(q.queue.rest, unavailable(err))
	q.queue.clear()
}

// refuse answers tickets that wait. What only takes something away is owed instead. q.mu is held.
func (q *sequencer) refuse(ts []*ticket, err error) {
	for _, t := range ts {
		if t.state.CompareAndSwap(waiting, abandoned) {
			t.err = q.owe(t, err)
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
	q.refuseAll(err)
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
	q.pace.wake.Stop()
}
