package store

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// TestManyTablesHoldUpNoRestore: the state of a backup that was made under load lies in many tables. Nothing merges
// them while it is restored, so nothing may wait for that.
func TestManyTablesHoldUpNoRestore(t *testing.T) {
	r := newRig(t)
	r.close()
	var done atomic.Bool
	var err error
	go func() {
		defer done.Store(true)
		err = withDB(settings(r.fs, r.clock, nil), "data/db", func(s *Store) (err error) {
			for range 80 {
				err = errors.Join(err, s.db.Set([]byte("~one"), nil, pebble.Sync), s.db.Flush())
			}
			if n := s.db.Metrics().Levels[0].Sublevels; n < 80 {
				t.Errorf("%d tables lie above each other", n)
			}
			return errors.Join(err, s.db.Delete([]byte("~one"), pebble.Sync))
		})
	}()
	until(t, done.Load)
	if err != nil {
		t.Fatal(err)
	}
	r.open()
	r.close()
}
