package store

import (
	"errors"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestBackupOfALogThatIsWritten: a write-ahead log is copied block by block while it is written over an old one, so a
// copy may have what was written last and, in front of it, what the old one has left.
func TestBackupOfALogThatIsWritten(t *testing.T) {
	for n, tries := 0, 0; n < 5; tries++ { // what of the log is written in time is up to the sequencer and the sealer
		if tries == 100 {
			t.Fatal("nothing was written while a log was copied")
		}
		if backUpWhileWritten(t) {
			n++
		}
	}
}

// backUpWhileWritten reports whether something was written while the newest log was copied.
func backUpWhileWritten(t *testing.T) bool {
	t.Helper()
	base := newCuttable()
	var copied atomic.Value // the log that is written
	copied.Store("")
	reads := 0
	r := &rig{t: t, clock: newClock(), seal: 128 << 10}
	note := func() {
		r.must(&Note{Type: "note", By: system, Fields: [][2]string{{"pad", strings.Repeat("p", 200)}}})
	}
	r.fs = errorfs.Wrap(base, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileRead && op.Path == copied.Load() {
			if reads++; reads == 2 { // the first block is read
				for range 200 {
					note()
				}
			}
		}
		return nil
	}))
	r.open()
	newest := func() (name string, size int64) {
		names, err := base.List("data/db/wal")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if st, err := base.Stat("data/db/wal/" + n); err == nil && path.Ext(n) == ".log" && n > name {
				name, size = n, st.Size()
			}
		}
		return name, size
	}
	for { // until a log has begun that has the size of an old one
		was, _ := newest()
		note()
		if is, size := newest(); is != was && size > 64<<10 {
			copied.Store("data/db/wal/" + is)
			break
		}
	}
	before := r.s.Seq()
	m := r.backedUp(t, "backup")
	copied.Store("")
	if m.Seq < before {
		t.Errorf("it has %d records, and %d were answered before it began", m.Seq, before)
	}
	r.close()
	_, to := restored(t, restoreOf(base, r.clock, "backup", "new", "sto_new"))
	to.close()
	return reads >= 2
}

// TestBackupOfADamagedLog: what cannot be read of a write-ahead log, and was answered, is missed.
func TestBackupOfADamagedLog(t *testing.T) {
	base := vfs.NewMem()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	for range 40 {
		r.must(&Note{Type: "note", By: system})
	}
	names, err := base.List("data/db/wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if path.Ext(name) != ".log" {
			continue
		}
		name = "data/db/wal/" + name
		data := read(t, base, name)
		f, err := base.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.WriteAt([]byte{^data[len(data)-100]}, int64(len(data)-100))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = r.s.Backup(signerOf(t, r.s.ID(), 'a'), into(r.fs, "backup"))
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("it is made: %v", err)
	}
	r.close()
}
