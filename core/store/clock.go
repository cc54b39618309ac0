package store

import (
	"encoding/json"
	"fmt"

	"github.com/yett-dev/yett/core/log"
)

// KeepClock keeps what is known of the time, for retention: JSON, whose members are the caller's. It makes no record.
type KeepClock struct{ Known json.RawMessage }

func (c *KeepClock) apply(tx *tx) error {
	tx.set(keyStr(prefixMeta, "clock"), c.Known)
	return nil
}

func (*KeepClock) class() class { return noting }

// Clock is what KeepClock has kept; nil if it has kept nothing.
func (s *Store) Clock() (known json.RawMessage, err error) {
	row, _, err := s.get(keyStr(prefixMeta, "clock"))
	return row, err
}

// LastTime is the time of the newest record, as it stands there; "" if there is none.
func (s *Store) LastTime() (at string, err error) {
	err = s.Records(max(s.Seq(), 1), func(seq uint64, rec []byte) error {
		var h log.Head
		if !h.Read(rec) {
			return fmt.Errorf("record %d cannot be parsed", seq)
		}
		at = string(h.Timestamp)
		return nil
	})
	return at, err
}
