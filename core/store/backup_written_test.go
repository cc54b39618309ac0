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
	base := newCuttable()
	var reused, copying atomic.Bool
	reads := map[string]int{}
	r := &rig{t: t, clock: newClock(), seal: 32 << 10}
	note := func() {
		r.must(&Note{Type: "note", By: system, Fields: [][2]string{{"pad", strings.Repeat("p", 200)}}})
	}
	r.fs = errorfs.Wrap(base, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpReuseForWrite:
			reused.Store(true)
		case copying.Load() && op.Kind == errorfs.OpFileRead && path.Dir(op.Path) == "data/db/wal":
			if reads[op.Path]++; reads[op.Path] == 2 { // the first block is read
				for range 200 {
					note()
				}
			}
		}
		return nil
	}))
	r.open()
	for !reused.Load() {
		note()
	}
	for range 5 {
		note()
	}
	before := r.s.Seq()
	copying.Store(true)
	m := r.backedUp(t, "backup")
	copying.Store(false)
	if len(reads) == 0 {
		t.Error("nothing was written while a log was copied")
	}
	if m.Seq < before {
		t.Errorf("it has %d records, and %d were answered before it began", m.Seq, before)
	}
	r.close()
	_, to := restored(t, restoreOf(base, r.clock, "backup", "new", "sto_new"))
	to.close()
}

// TestBackupOfADamagedLog: what cannot be read of a write-ahead log, and was answered, is missed.
func TestBackupOfADamagedLog(t *testing.T) {
	base := vfs.NewMem()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	for range 40 {
		r.must(&Note{Type: "note", By: system})
	}
	for _, name := range filesOf(t, base, "data/db/wal") {
		if path.Ext(name) != ".log" {
			continue
		}
		data := read(t, base, name)
		f, err := base.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.WriteAt([]byte{^data[len(data)-100]}, int64(len(data)-100))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.s.Backup(signerOf(t, r.s.ID(), 'a'), into(r.fs, "backup"))
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("it is made: %v", err)
	}
	r.close()
}
