package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"
)

// RecordTypes are the types of records that there are.
var RecordTypes = []string{"action_result", "auth_failed", "clock_believed", "clock_in_doubt", "config_applied",
	"config_refused", "console_sign_in", "console_sign_in_refused", "console_sign_out", "decision", "defer_created",
	"defer_expired",
	"defer_resolved", "defer_signed", "grant_added", "grant_consumed", "grant_revoked", "key_created", "key_revoked",
	"kill", "operator_added", "plugin_resumed", "plugin_state", "retention_trimmed", "scan", SubscriberDeadLetter,
	SubscriberDropped, SubscriberGap, SubscriberPaused, SubscriberReplay, SubscriberResumed, "unanswered", "unkill",
	"voided", "withheld"}

// groupOf reads the key of one commit's records and counts them.
func groupOf(key, value []byte) (first, count uint64, err error) {
	if len(key) != 9 {
		return 0, 0, errors.New("a record key of the wrong length")
	}
	first = binary.BigEndian.Uint64(key[1:])
	err = eachRecord(value, func([]byte) error { count++; return nil })
	return first, count, err
}

// eachRecord splits one commit's value.
func eachRecord(value []byte, fn func(record []byte) error) error {
	for len(value) > 0 {
		if len(value) < 4 {
			return errors.New("a cut record group")
		}
		n := int(binary.BigEndian.Uint32(value))
		if n > len(value)-4 {
			return errors.New("a cut record group")
		}
		if err := fn(value[4 : 4+n]); err != nil {
			return err
		}
		value = value[4+n:]
	}
	return nil
}

// Records calls fn with every record from seq on, in order, up to what is on disk when it starts; where retention has
// removed that one, from the first that is there. The bytes are only valid during the call. An error of fn ends the
// walk and is returned.
func (s *Store) Records(from uint64, fn func(seq uint64, record []byte) error) error {
	size := s.Seq() // Pebble shows a batch before it has synced it
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixRecords}, UpperBound: upper(prefixRecords)})
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if from > 1 && it.SeekLT(keyU64(prefixRecords, from+1)) {
		// the group that from is in may have begun before it
	} else {
		it.First()
	}
	for ; it.Valid(); it.Next() {
		seq := binary.BigEndian.Uint64(it.Key()[1:])
		if seq > size {
			break
		}
		err := eachRecord(it.Value(), func(rec []byte) error {
			defer func() { seq++ }()
			if seq < from {
				return nil
			}
			return fn(seq, rec)
		})
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// hashReader gives tlog the stored hashes.
type hashReader struct{ s *Store }

// ReadHashes implements tlog.HashReader.
func (r hashReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	it, err := r.s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixHashes}, UpperBound: upper(prefixHashes)})
	if err != nil {
		return nil, fmt.Errorf("read tree: %w", err)
	}
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if !it.SeekLT(keyU64(prefixHashes, uint64(x)+1)) {
			return nil, errors.Join(fmt.Errorf("read tree: hash %d is missing", x), it.Close())
		}
		off := (uint64(x) - binary.BigEndian.Uint64(it.Key()[1:])) * tlog.HashSize
		v := it.Value()
		if off+tlog.HashSize > uint64(len(v)) {
			return nil, errors.Join(fmt.Errorf("read tree: hash %d is missing", x), it.Close())
		}
		copy(out[i][:], v[off:])
	}
	return out, it.Close()
}
