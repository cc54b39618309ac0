package store

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/cockroachdb/pebble/v2/wal"
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

// twoLogs is a store that needs two write-ahead logs: the table of the older one is not written before let is called.
func twoLogs(t *testing.T) (r *rig, base vfs.FS, older wal.LogicalLog, let func()) {
	t.Helper()
	mem := vfs.NewMem()
	var hold atomic.Bool
	held := make(chan struct{})
	r = &rig{t: t, clock: newClock()}
	r.fs = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && path.Ext(op.Path) == ".sst" && path.Dir(op.Path) == "data/db" && hold.Load() {
			<-held
		}
		return nil
	}))
	r.open()
	for i := range 20 {
		r.key(fmt.Sprint("key", i), nil, "authorize")
	}
	hold.Store(true)
	if _, err := r.s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return r.s.db.Metrics().Flush.NumInProgress != 0 })
	r.key("last", nil, "authorize")
	logs, err := wal.Scan(wal.Dir{FS: mem, Dirname: "data/db/wal"})
	if err != nil || len(logs) < 2 {
		t.Fatal(len(logs), err)
	}
	return r, mem, logs[len(logs)-2], func() { hold.Store(false); close(held) }
}

// TestBackupOfAnOlderLog: only the newest write-ahead log may end where it cannot be read.
func TestBackupOfAnOlderLog(t *testing.T) {
	for what, damage := range map[string]func(data []byte, at int64) []byte{
		"a bit":                 func(data []byte, _ int64) []byte { data[len(data)-100] ^= 1; return data },
		"a byte":                func(data []byte, _ int64) []byte { data[len(data)-100] ^= 0xff; return data },
		"its last five commits": func(data []byte, at int64) []byte { return data[:at] },
		"the end that says so": func(data []byte, _ int64) []byte {
			return append(data[:len(data)-11], make([]byte, 4096)...)
		},
		"a part of a last block": func(data []byte, _ int64) []byte { return data[:len(data)-60] },
	} {
		r, base, older, let := twoLogs(t)
		at, _, err := (&residue{}).find(older, mark{Store: r.s.id, Epoch: 1, Released: 15})
		if err != nil || at == nothing {
			t.Fatal(at, err)
		}
		_, name := older.SegmentLocation(0)
		write(t, base, name, damage(read(t, base, name), at))
		if _, err := r.s.Backup(signerOf(t, r.s.ID(), 'a'), into(r.fs, "backup")); err == nil {
			t.Errorf("%s: it is made", what)
		}
		let()
		r.close()
	}
}

// TestBackupOfAFirstStartThatWasEnded: whenever the first start of a store is ended, the next one can be backed up.
func TestBackupOfAFirstStartThatWasEnded(t *testing.T) {
	base, clock, cuts := newCuttable(), newClock(), 0
	l := &looker{look: func(op errorfs.Op) {
		cuts++
		left := &cuttable{MemFS: base.ended()}
		s, err := Open(settings(left, clock, nil))
		if err == nil {
			if _, err = s.Backup(signerOf(t, s.ID(), 'a'), into(left, "backup")); err == nil {
				_, err = CheckBackup(BackupSettings{Dir: "backup", FS: left, Secret: []byte("secret")})
			}
			err = errors.Join(err, s.Close())
		}
		if err != nil {
			t.Errorf("ended in front of operation %d on %s: %v", op.Kind, op.Path, err)
		}
	}}
	s, err := Open(settings(l.on(base), clock, nil))
	l.over()
	if err == nil {
		err = s.Close()
	}
	if err != nil || cuts < 20 {
		t.Errorf("%d cuts: %v", cuts, err)
	}
}
