package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/yett-dev/yett/sdk"
)

// Trim removes the oldest records. The tree keeps their hashes, so what remains stays provable. Records go by whole
// commits: where one commit has written records on both sides of Through, all of them stay.
type Trim struct {
	Through uint64   // the last record that may go
	Reason  string   // such as max_age
	Passed  []string // subscribers that have not been sent all of what goes
	By      Who

	First, Last uint64 // out: what has gone; Last is 0 when nothing has, and then nothing is recorded
}

func (c *Trim) apply(tx *tx) error {
	if size := tx.q.tree.Size(); c.Through >= size {
		return sdk.FieldErrf(sdk.CodeInvalidField, "through", "the log ends at %d, and its newest record stays", size)
	}
	from := tx.trimmed
	if from == 0 {
		from = tx.s.First()
	}
	tx.q.enter()
	kept, err := tx.s.groupWith(c.Through + 1)
	tx.q.leave()
	if err != nil {
		return unavailable(err)
	}
	if kept <= from {
		return nil
	}
	tx.trimmed = kept
	tx.keep(tx.batch.DeleteRange(keyU64(prefixRecords, from), keyU64(prefixRecords, kept), nil))
	c.First, c.Last = from, kept-1
	tx.onSync = append(tx.onSync, func(bool) { tx.s.kept.Store(kept) })
	tx.onDone = append(tx.onDone, func() { tx.q.tail.forget(kept) })
	c.record(tx)
	return nil
}

func (c *Trim) record(tx *tx) {
	o := tx.record("retention_trimmed")
	by := c.By
	if by.Principal == "" {
		by = system
	}
	by.write(&o)
	o.Int("first_seq", int64(c.First))
	o.Int("last_seq", int64(c.Last))
	o.Opt("reason", c.Reason[:min(len(c.Reason), maxWhy)])
	if len(c.Passed) > 0 {
		o.Strs("passed", c.Passed)
	}
	tx.end(o)
}

// groupWith is the first record of the commit that has written seq. What is on its way to the disk does not count: then
// it is the newest commit on disk.
func (s *Store) groupWith(seq uint64) (first uint64, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixRecords}, UpperBound: upper(prefixRecords)})
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	if it.SeekLT(keyU64(prefixRecords, seq+1)) {
		first = binary.BigEndian.Uint64(it.Key()[1:])
	}
	return first, errors.Join(it.Error(), it.Close())
}

// loadKept finds the first record that is there.
func (s *Store) loadKept() error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixRecords}, UpperBound: upper(prefixRecords)})
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	kept := uint64(1)
	if it.First() {
		if len(it.Key()) != 9 {
			return errors.Join(errors.New("a record key of the wrong length"), it.Close())
		}
		kept = binary.BigEndian.Uint64(it.Key()[1:])
	}
	s.kept.Store(kept)
	return errors.Join(it.Error(), it.Close())
}

// First is the seq of the first record that is still there; 1 while retention has removed none.
func (s *Store) First() uint64 { return s.kept.Load() }

// Size is how many bytes the records from seq on take. Exact is what is in memory for those who follow the log, and a
// log, or what is left of it, of less than weighMost that does not take more on disk. Beyond that it is Pebble's
// estimate: of what records take on disk, compressed, by whole commits, and without what is in no table yet, a few MiB,
// after a burst as many as its memtables hold.
func (s *Store) Size(from uint64) (bytes uint64, err error) {
	from = max(from, s.First())
	held, first, none := s.seq.tail.size(from)
	if !none && from >= first {
		return uint64(held), nil
	}
	end := upper(prefixRecords)
	if !none {
		end = keyU64(prefixRecords, first)
	}
	old, err := s.db.EstimateDiskUsage(keyU64(prefixRecords, from), end)
	if err != nil {
		return 0, fmt.Errorf("estimate the log's size: %w", err)
	}
	if old < weighMost {
		young, err := s.weigh(from, end)
		if err != nil {
			return 0, err
		}
		old = max(old, min(young, weighMost)) // so that it never grows with from
	}
	return old + uint64(held), nil
}

// weighMost bounds how much of the log is read to learn its size: who is further behind than that is told what Pebble
// estimates, and reads nothing. Whoever asks how subscribers are asks several times for each, so that this must not
// take long.
const weighMost = 4 << 20

// weigh adds up the records from one on in front of the key end, the first weighMost bytes of them.
func (s *Store) weigh(from uint64, end []byte) (bytes uint64, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixRecords}, UpperBound: end})
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	ok := it.SeekLT(keyU64(prefixRecords, from+1))
	if ok { // the commit that wrote from may have written others in front of it
		seq := binary.BigEndian.Uint64(it.Key()[1:])
		err = eachRecord(it.Value(), func(rec []byte) error {
			if seq++; seq > from {
				bytes += uint64(len(rec)) + 4
			}
			return nil
		})
		ok = it.Next()
	} else {
		ok = it.First()
	}
	for ; ok && bytes < weighMost; ok = it.Next() {
		value := it.LazyValue()
		bytes += uint64(value.Len())
	}
	if err := errors.Join(err, it.Error(), it.Close()); err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	return bytes, nil
}
