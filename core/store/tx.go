package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk/wire"
)

// tx is one batch in the making.
type tx struct {
	s       *Store
	st      *state
	q       *sequencer
	times   Times
	now     time.Time // times.Now
	ticket  *ticket
	batch   *pebble.Batch
	commit  *log.Commit // what the batch adds to the log; the log's own once it is on disk
	frame   []byte
	onSync  []func(refused bool) // once the batch is on disk, before the answers go; refused: refusals have gone instead
	onDone  []func()             // after the answers have gone
	start   int                  // of the record being written
	commits []log.Commit         // for the next batches
	records slab
	hashes  slab
	meta    []byte
	row     []byte // room for a row of a key or grant
	summer  *summer
	touched touched
	fresh   map[string][]byte // rows of this batch that it may have to read again
	swept   map[byte]uint32   // the window up to which old rows are gone, by prefix
	closed  map[string]*Defer // defers that this batch has ended: their rows on disk still say otherwise
	ended   map[string]int    // by key: how many of those that wait endOver has still to look at in this batch
	trimmed uint64            // the first record that retention leaves, if it removes some in this batch
	mute    bool              // nothing can be written: only reads run, and change nothing
	err     error
}

func (tx *tx) begin(times Times, mute bool) {
	tx.times, tx.now = times, times.Now
	if len(tx.commits) == 0 {
		tx.commits = make([]log.Commit, 64)
	}
	tx.commit = &tx.commits[0]
	*tx.commit = log.Commit{Number: tx.q.number + 1, First: tx.q.tree.Size() + 1, Records: tx.records.begin(),
		Hashes: tx.hashes.begin()}
	tx.batch = tx.s.db.NewBatch()
	tx.onSync, tx.onDone = tx.onSync[:0], tx.onDone[:0]
	clear(tx.fresh)
	clear(tx.closed)
	clear(tx.ended)
	tx.err, tx.trimmed, tx.mute = nil, 0, mute
	tx.touched.begin()
	if !mute {
		tx.forget()
		tx.dropCounters()
	}
}

// record starts the next record. The caller adds members and calls tx.end with the writer, before anything else.
func (tx *tx) record(typ string) wire.Writer {
	c := tx.commit
	if t := tx.ticket; t != nil && anchors(typ) {
		t.anchor = c.Number
	}
	tx.start = len(c.Records)
	c.Records = append(c.Records, 0, 0, 0, 0)
	return log.BeginIn(c.Records, tx.s.id, tx.s.records.own.Epoch, tx.q.tree.Size()+1, tx.now, typ)
}

// anchors reports whether log/head has to know of a record before its answer leaves.
func anchors(typ string) bool {
	return typ == "kill" || typ == "key_revoked" || typ == "grant_revoked" || typ == "clock_believed"
}

// anchor has log/head know of all that there is before the command's answer leaves: it says again what an earlier one
// did, whose answer may have come too late.
func (tx *tx) anchor() {
	t := tx.ticket
	if t == nil || t.anchor != 0 {
		return
	}
	if t.anchor = tx.q.number; tx.commit.Count > 0 {
		t.anchor = tx.commit.Number
	}
}

func (tx *tx) end(o wire.Writer) {
	c := tx.commit
	c.Records = o.Close()
	rec := c.Records[tx.start+4:]
	binary.BigEndian.PutUint32(c.Records[tx.start:], uint32(len(rec)))
	c.Hashes = tx.q.tree.Append(rec, c.Hashes)
	c.Count++
	if t := tx.ticket; t != nil {
		t.last = tx.q.tree.Size()
		if t.first == 0 {
			t.first = t.last
		}
	}
}

// set writes a row. A Pebble batch only fails when it is misused; the error is kept for write.
func (tx *tx) set(key, value []byte) {
	tx.touched.set(tx.summer, key, value, true)
	tx.keep(tx.batch.Set(key, value, nil))
}

// del removes a row.
func (tx *tx) del(key []byte) {
	tx.touched.set(tx.summer, key, nil, false)
	tx.keep(tx.batch.Delete(key, nil))
}

func (tx *tx) keep(err error) { tx.err = errors.Join(tx.err, err) }

func (tx *tx) write() error {
	defer tx.batch.Close()
	if tx.err != nil || tx.batch.Empty() && tx.commit.Count == 0 {
		tx.commit = nil
		return tx.err
	}
	if tx.mute { // it would fail in the middle
		return errors.New("a batch without room for it has something to write")
	}
	tx.q.enter()
	defer tx.q.leave()
	// Pebble skips a batch of nothing but LogData when it reads a log: the number is what makes it one of a change.
	tx.keep(tx.touched.change(tx.s, tx.summer, &tx.q.sum, tx.q.live))
	tx.meta = tx.summer.seal(tx.meta[:0], tx.s.id, tx.commit.Number, tx.q.sum)
	tx.set(commitRow, tx.meta)
	tx.commit.Left = tx.s.records.marked.Released
	tx.frame = tx.commit.AppendFrame(tx.frame[:0], tx.s.records.own.Salt)
	tx.keep(tx.batch.LogData(tx.frame, nil))
	if tx.err != nil {
		return tx.err
	}
	tx.s.room.written.Add(int64(tx.batch.Len()))
	tx.commit.Records, tx.commit.Hashes = tx.records.end(tx.commit.Records), tx.hashes.end(tx.commit.Hashes)
	tx.commits = tx.commits[1:]
	tx.s.gate.give(tx.commit.Number)
	tx.s.records.waitForRoom()
	began := tx.s.set.Now()
	if tx.s.set.Delay != nil {
		tx.s.set.Delay()
	}
	if err := tx.batch.Commit(pebble.Sync); err != nil {
		return err
	}
	now := tx.s.set.Now()
	tx.s.seen.synced(tx.commit, now.Sub(began), now)
	return nil
}

// after runs what had to wait for the disk, such as waking those who wait for a defer.
func (tx *tx) after() {
	for i, fn := range tx.onDone {
		fn()
		tx.onDone[i] = nil
	}
}

var commitRow = keyStr(prefixMeta, "commit")

// slab is memory for what batches leave behind for good: a piece of it is one batch's, and never changed afterwards. It
// is made in large pieces, so that a batch costs no allocation.
type slab struct{ free []byte }

const slabSize = 256 << 10

// begin gives an empty slice to append to.
func (s *slab) begin() []byte {
	if cap(s.free) < slabSize/8 {
		s.free = make([]byte, 0, slabSize)
	}
	return s.free[:0]
}

// end takes the slice when nothing more is appended, and gives it as it stays.
func (s *slab) end(b []byte) []byte {
	if cap(b) == cap(s.free) { // else it has outgrown the slab, and is memory of its own
		s.free = s.free[len(b):cap(s.free)][:0]
	}
	return b[:len(b):len(b)]
}
