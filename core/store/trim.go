package store

import (
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/yett-dev/yett/core/log/segment"
	"github.com/yett-dev/yett/sdk"
)

// Trim removes the oldest records: nobody is given them any more, and their files go once they hold nothing else. The
// tree keeps the hashes that are needed to prove what remains.
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
	kept := c.Through + 1
	if kept <= from {
		return nil
	}
	tx.trimmed = kept
	tx.set(keyStr(prefixMeta, "kept"), binary.BigEndian.AppendUint64(nil, kept))
	c.First, c.Last = from, kept-1
	tx.onSync = append(tx.onSync, func(bool) { tx.s.kept.Store(kept) })
	tx.onDone = append(tx.onDone, tx.s.records.nudge)
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

// loadKept finds the first record that is there.
func (s *Store) loadKept() error {
	kept, err := s.number("kept")
	kept = max(kept, 1)
	s.kept.Store(kept)
	s.records.shown = kept
	size, first := s.seq.tree.Size(), uint64(1)
	if sealed, _ := s.records.now(); len(sealed) > 0 {
		first = sealed[0].FirstSeq
	}
	switch {
	case err != nil:
		return err
	case kept > max(size, 1):
		return fmt.Errorf("retention has left record %d, and the log ends with record %d", kept, size)
	case first > kept:
		return fmt.Errorf("records %d to %d are missing: retention has left them, and %s names no file of theirs; put the "+
			"directory back from where it was saved", kept, first-1, filepath.Join(s.records.dir, segment.ListName))
	}
	return nil
}

// First is the seq of the first record that is still there; 1 while retention has removed none.
func (s *Store) First() uint64 { return s.kept.Load() }
