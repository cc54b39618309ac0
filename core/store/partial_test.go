package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// refusedWith opens what must be refused, and gives what was said.
func (s *stoppedStore) refusedWith(fs vfs.FS, boot string) string {
	s.t.Helper()
	refused, err := s.starts(fs, boot)
	if refused == nil || err != nil {
		s.t.Errorf("it starts: %v", err)
		return ""
	}
	return refused.Error()
}

// TestTheFirstSegmentIsMissed: with its line in the list, so that the list and the files fit each other.
func TestTheFirstSegmentIsMissed(t *testing.T) {
	s := newStopped(t)
	list := strings.SplitAfter(string(read(t, s.today, "data/log/segments")), "\n")
	if len(list) < 4 {
		t.Fatalf("%d segments", len(list)-1)
	}
	write(t, s.today, "data/log/segments", []byte(strings.Join(list[1:], "")))
	for _, boot := range []string{thisBoot, anotherBoot} {
		said := s.refusedWith(clone(s.today), boot)
		if !strings.Contains(said, "records 1 to ") || !strings.Contains(said, "data/log/segments names no file of theirs") {
			t.Errorf("said: %s", said)
		}
	}
}

// TestTheListIsMissed: no first list is begun where segments are.
func TestTheListIsMissed(t *testing.T) {
	s := newStopped(t)
	if err := s.today.Remove("data/log/segments"); err != nil {
		t.Fatal(err)
	}
	if said := s.refusedWith(s.today, anotherBoot); !strings.Contains(said, "data/log/segments is missing") {
		t.Errorf("said: %s", said)
	}
}

// TestRefusedStartsLeaveEverything: whatever is missing or cut, nothing is removed that a person may put it right with.
// Once it is put right the store is whole.
func TestRefusedStartsLeaveEverything(t *testing.T) {
	s := newStopped(t)
	refusals := 0
	for _, file := range filesOf(t, s.today, "data") {
		if path.Base(file) == "LOCK" {
			continue
		}
		data := read(t, s.today, file)
		for _, to := range []int{-1, 0, len(data) / 2} {
			fs := clone(s.today)
			if to >= 0 {
				write(t, fs, file, data[:to])
			} else if err := fs.Remove(file); err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprint(file, " cut to ", to)
			if refused, err := s.starts(fs, anotherBoot); err != nil {
				t.Fatalf("%s: %v", what, err)
			} else if refused == nil {
				continue
			}
			refusals++
			left := filesOf(t, fs, "data")
			for _, other := range filesOf(t, s.today, "data") {
				ext := path.Ext(other)
				holds := ext == ".sst" || ext == ".log" || ext == ".seg" || strings.HasPrefix(path.Base(other), "MANIFEST-")
				if holds && other != file && (!slices.Contains(left, other) ||
					string(read(t, fs, other)) != string(read(t, s.today, other))) {
					t.Errorf("%s: %s was changed", what, other)
				}
			}
		}
	}
	if refusals < 10 {
		t.Errorf("%d refusals", refusals)
	}
}

// TestYoungStoreInParts: a store without a segment of which a directory is missing is no new store.
func TestYoungStoreInParts(t *testing.T) {
	base := vfs.NewCrashableMem()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	r.key("boss", nil, "kill")
	r.close()
	for _, missing := range []string{"db", "db/wal", "log"} {
		for _, boot := range []string{thisBoot, anotherBoot} {
			for _, renew := range []bool{false, true} {
				if renew && missing == "log" { // all records are in db/wal
					continue
				}
				fs := clone(base)
				if err := fs.RemoveAll(path.Join("data", missing)); err != nil {
					t.Fatal(err)
				}
				set := settings(fs, r.clock, nil)
				set.Boot, set.Renew = boot, renew
				if s, err := Open(set); err == nil {
					t.Errorf("it opens without %s: %v", missing, s.Close())
				}
			}
		}
	}
}

// TestADatabaseWithoutOptions: Pebble names its write-ahead logs' directory there, and would open a store of the first
// layout as if it were a new one of today's.
func TestADatabaseWithoutOptions(t *testing.T) {
	for _, layout := range []string{layoutOfRows, layoutVersion} {
		fs := vfs.NewMem()
		clock, _, _, _ := filled(t, fs)
		if layout == layoutOfRows {
			rowsOf(t, fs, clock, 1)
		}
		for _, file := range filesOf(t, fs, "data/db") {
			if strings.Contains(file, "OPTIONS") {
				if err := fs.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := filesOf(t, fs, "data")
		if _, err := Open(settings(fs, clock, nil)); err == nil || !strings.Contains(err.Error(), "files are missing") {
			t.Errorf("layout %s: %v", layout, err)
		}
		if got := filesOf(t, fs, "data"); !slices.Equal(got, before) {
			t.Errorf("layout %s: files %q, before %q", layout, got, before)
		}
	}
}

// TestReadersMakeNoStore: a command that only reads leaves nothing where no store is.
func TestReadersMakeNoStore(t *testing.T) {
	fs := vfs.NewMem()
	set := settings(fs, newClock(), nil)
	set.NewID = func() string { return "" }
	if _, err := Open(set); err == nil || !strings.Contains(err.Error(), "there is no store yet") {
		t.Error(err)
	}
	if names, err := fs.List(""); err != nil || len(names) > 0 {
		t.Errorf("left %q: %v", names, err)
	}
}

// TestListThatWasNotSynced: a process is killed between a line of the list and its sync. Whoever builds upon the line
// makes it be on disk first.
func TestListThatWasNotSynced(t *testing.T) {
	base := vfs.NewCrashableMem()
	own := segment.Store{ID: "sto_test", Epoch: 1, Salt: log.NewSalt("sto_test", 1)}
	l, err := segment.OpenList(files{base}, "log", own)
	if err == nil {
		err = l.Sealed(segment.Info{FirstCommit: 1, LastCommit: 4, FirstSeq: 1, NextSeq: 9})
	}
	if err = errors.Join(err, syncDir(base, "")); err != nil {
		t.Fatal(err)
	}
	line := read(t, base, "log/segments")
	write(t, base, "log/segments", nil)
	f, err := base.OpenReadWrite("log/segments", vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.WriteAt(slices.Clone(line), 0)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := segment.OpenList(files{base}, "log", own)
	if err != nil || len(again.Infos()) != 1 {
		t.Fatal(again, err)
	}
	cut := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
	if got := read(t, cut, "log/segments"); string(got) != string(line) {
		t.Errorf("after a power cut it is %q, want %q", got, line)
	}
}

// TestLogsThatWereNotSynced: the same for a write-ahead log, which Pebble makes tables of.
func TestLogsThatWereNotSynced(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	l.disk.stop()
	go func() { _ = l.s.Commit(context.Background(), &Note{Type: "one", By: system}) }()
	<-l.disk.begun
	stopped := &cuttable{MemFS: base.ended()}
	l.disk.goOn()
	log := ""
	for _, name := range filesOf(t, stopped, "data/db/wal") {
		if path.Ext(name) == ".log" {
			log = name
		}
	}
	data := read(t, stopped, log)
	f, err := stopped.Create(log, vfs.WriteCategoryUnspecified) // what it holds is in memory only
	if err == nil {
		_, err = f.Write(slices.Clone(data))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	var cut *vfs.MemFS // in front of the first table
	look := &looker{look: func(op errorfs.Op) {
		if op.Kind == errorfs.OpCreate && path.Ext(op.Path) == ".sst" && cut == nil {
			cut = stopped.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
		}
	}}
	set := settings(look.on(stopped), l.clock, nil)
	set.Boot = anotherBoot // the mark would cut it off
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	look.over()
	if err := s.Close(); err != nil || cut == nil {
		t.Fatal(cut, err)
	}
	if got := read(t, cut, log); string(got) != string(data) {
		t.Errorf("%s has %d bytes on disk, want %d", log, len(got), len(data))
	}
}

// TestNoRoomForASpare: the store goes on without one.
func TestNoRoomForASpare(t *testing.T) {
	tried := false
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && path.Base(op.Path) == fillingName {
			tried = true
			return syscall.ENOSPC
		}
		return nil
	}))
	r := &rig{t: t, fs: fs, clock: newClock(), seal: 4 << 10}
	r.open()
	for range 400 {
		r.must(&Note{Type: "note", By: system})
	}
	r.close()
	names, err := fs.List("data/db/wal")
	if err != nil || !tried || slices.Contains(names, fillingName) {
		t.Errorf("tried %v, there is %q: %v", tried, names, err)
	}
}

// TestReadersLeaveNoSpares: each takes a write-ahead log, and none of them the size of a spare.
func TestReadersLeaveNoSpares(t *testing.T) {
	fs := vfs.NewMem()
	r := &rig{t: t, fs: fs, clock: newClock(), seal: 4 << 10}
	r.open()
	for range 400 {
		r.must(&Note{Type: "note", By: system})
	}
	r.close()
	logs := func() (size int64) {
		for _, file := range slices.Concat(filesOf(t, fs, "data/log/wal"), filesOf(t, fs, "data/db/wal")) {
			st, err := fs.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if path.Ext(file) == ".log" {
				size += st.Size()
			}
		}
		return size
	}
	before := logs()
	for range 4 {
		r.open()
		r.close()
	}
	if more := logs() - before; more > 1<<10 {
		t.Errorf("they have left %d bytes", more)
	}
}

// TestSealingThatStandsStill: a disk that takes commits and no segments holds up the writers; what waits in memory has
// a bound.
func TestSealingThatStandsStill(t *testing.T) {
	base := vfs.NewMem()
	held, let := make(chan struct{}, 1), make(chan struct{})
	fs := errorfs.Wrap(base, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".seg.tmp") {
			select {
			case held <- struct{}{}:
			default:
			}
			<-let
		}
		return nil
	}))
	r := &rig{t: t, fs: fs, clock: newClock(), seal: 4 << 10}
	r.open()
	l := &r.s.records
	wrote := make(chan error)
	go func() {
		for range 1000 {
			if err := r.s.Commit(t.Context(), &Note{Type: "note", By: system}); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	<-held
	until(t, func() bool { return l.over() })
	var err error
	until(t, func() bool { // as for a disk: within the limit of a stall
		if r.s.seq.since.Load() != 0 {
			r.s.seq.look(r.clock.advance(time.Hour))
		}
		select {
		case err = <-wrote:
			return true
		default:
			return false
		}
	})
	if codeOf(err) != "audit_unavailable" {
		t.Errorf("got %v", err)
	}
	l.mu.RLock()
	bytes := l.bytes
	l.mu.RUnlock()
	if most := (mostYoung + 1) * (4 << 10); bytes > most {
		t.Errorf("%d bytes wait in memory, at most %d", bytes, most)
	}
	close(let)
	healthyAgain(t, r.s)
	r.must(&Note{Type: "on", By: system})
	r.close()
}
