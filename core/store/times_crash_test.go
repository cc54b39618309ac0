package store

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestTheClockAfterACrashCountsNothingTwice: the time between log/head and a newer record has passed once. If a
// doubtful wall clock is ahead, nothing else keeps the store's clock from it.
func TestTheClockAfterACrashCountsNothingTwice(t *testing.T) {
	base := newCuttable()
	clocks, _ := newTwoClocks()
	d := &doubted{rig: &rig{t: t, fs: base, clock: newClock()}, clocks: clocks}
	d.start()
	path := d.s.head.path
	known, _, err := readAll(base.MemFS, path)
	if err != nil {
		t.Fatal(err)
	}
	clocks.pass(25 * time.Minute)
	clocks.set(100 * 24 * time.Hour)
	d.must(&Note{Type: "tick", By: system})
	at, left := d.s.Now(), base.ended()
	d.close()
	f, err := left.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err == nil { // the process ended before it wrote the file again
		_, err = f.WriteAt(known, 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	set := settings(left, d.clock, nil)
	set.Now, set.Uptime = clocks.wall, clocks.up
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Now(); !got.Equal(at) {
		t.Errorf("it is %v, and was %v a moment ago", got, at)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
