package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/wal"
)

// eachFrame calls fn with the LogData of every batch of a write-ahead log, in order. The bytes are fn's. It ends in
// front of the first batch that is not whole.
func eachFrame(one wal.LogicalLog, fn func(frame []byte) error) (err error) {
	r := one.OpenForRead()
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		rec, _, err := r.NextRecord()
		if errors.Is(err, io.EOF) || record.IsInvalidRecord(err) {
			return nil
		}
		if err != nil {
			return err
		}
		repr, err := io.ReadAll(rec)
		if err != nil {
			return err
		}
		if err := framesOf(batchrepr.Read(repr), fn); err != nil {
			return err
		}
	}
}

// framesOf calls fn with the LogData of one batch.
func framesOf(b batchrepr.Reader, fn func(frame []byte) error) error {
	for len(b) > 0 {
		kind, data, _, ok, err := b.Next()
		if err != nil {
			return fmt.Errorf("a batch that cannot be read: %w", err)
		}
		if !ok {
			return nil
		}
		if kind == pebble.InternalKeyKindLogData {
			if err := fn(data); err != nil {
				return err
			}
		}
	}
	return nil
}
