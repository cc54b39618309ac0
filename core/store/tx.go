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
	now     time.Time
	ticket  *ticket
	batch   *pebble.Batch
	records []byte // (u32 length, record)…
	hashes  []byte
	first   uint64 // seq of the first record
	firstH  uint64
	onSync  []func(refused bool) // once the batch is on disk, before the answers go; refused: refusals have gone instead
	onDone  []func()             // after the answers have gone
	start   int                  // of the record being written
	fresh   map[string][]byte    // rows of this batch that it may have to read again
	swept   map[byte]uint32      // the window up to which old rows are gone, by prefix
	closed  map[string]*Defer    // defers that this batch has ended: their rows on disk still say otherwise
	trimmed uint64               // the first record that retention leaves, if it removes some in this batch
	err     error
}

func (tx *tx) begin(now time.Time) {
	tx.now = now
	tx.records, tx.hashes = tx.records[:0], tx.hashes[:0]
	tx.first, tx.firstH = tx.q.tree.Size()+1, uint64(log.StoredHashes(tx.q.tree.Size()))
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
	return log.Begin(tx.records, tx.s.id, tx.q.tree.Size()+1, tx.now, typ)
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
	tx.q.enter()
	defer tx.q.leave()
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
