package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestWriteAheadLogsAreReused: write-ahead logs are written over old ones, and what an old one has left behind the end
// of a new one is no part of it, however the process or the machine ends.
func TestWriteAheadLogsAreReused(t *testing.T) {
	base := newCuttable()
	var reused []string
	l := &looker{look: func(op errorfs.Op) {
		if op.Kind == errorfs.OpReuseForWrite {
			reused = append(reused, path.Base(op.Path))
		}
	}}
	r := &rig{t: t, fs: l.on(base), clock: newClock(), seal: 4 << 10}
	r.open()
	note := func() { r.must(&Note{Type: "note", By: system}) }
	for range 400 {
		note()
	}
	for first := l.count(&reused); l.count(&reused) < first+3; { // the sealer works beside it
		note()
	}
	all := walk(t, 1, r.s.Records)
	for percent, boot := range map[int]string{0: anotherBoot, 100: thisBoot} {
		fs := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
		if err := holds(t, fs, boot, all); err != nil {
			t.Errorf("%d%% of what was not synced: %v", percent, err)
		}
	}
	r.close()
	l.over()
	if err := holds(t, base, thisBoot, all); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(reused, func(name string) bool { return strings.HasPrefix(name, spareName) }) {
		t.Errorf("reused: %q", reused)
	}
	names, err := base.List("data/db/wal")
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, spareName) })
	if err != nil || len(names) > mostSpares {
		t.Errorf("spares %q: %v", names, err)
	}
}

func (l *looker) count(list *[]string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(*list)
}

// holds opens a store and checks that it has these records.
func holds(t *testing.T, fs vfs.FS, boot string, all []string) error {
	set := settings(fs, newClock(), func(err error) { t.Errorf("fatal: %v", err) })
	set.Boot, set.SealBytes = boot, 4<<10
	s, err := Open(set)
	if err != nil {
		return err
	}
	if got := walk(t, 1, s.Records); !slices.Equal(got, all) {
		err = fmt.Errorf("%d records, want %d", len(got), len(all))
	}
	return errors.Join(err, consistent(s), s.Close())
}

// TestSparesOfAnEarlierProcess: those are taken over, up to a number; what was being made is removed.
func TestSparesOfAnEarlierProcess(t *testing.T) {
	fs := vfs.NewMem()
	for _, name := range []string{"spare-7", "spare-9", "spare-11", "filling", "000012.log", "other"} {
		if err := errors.Join(fs.MkdirAll("wal", 0o700)); err != nil {
			t.Fatal(err)
		}
		write(t, fs, "wal/"+name, []byte("x"))
	}
	s := &spares{fs: fs, dir: "wal", size: 1 << 10}
	if err := s.find(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("wal")
	slices.Sort(names)
	if err != nil || len(s.paths) != mostSpares || len(names) != 4 || slices.Contains(names, "filling") {
		t.Errorf("%q, %q: %v", s.paths, names, err)
	}
	for _, path := range s.paths {
		if !slices.Contains(names, strings.TrimPrefix(path, "wal/")) {
			t.Errorf("%s is not there", path)
		}
	}
	if kept, err := s.put("wal/000012.log"); kept || err != nil {
		t.Errorf("one more than enough was kept: %v", err)
	}
	s.takeSpare()
	if kept, err := s.put("wal/000012.log"); !kept || err != nil {
		t.Errorf("it was not kept: %v", err)
	}
	if _, err := fs.Stat(s.paths[1]); err != nil {
		t.Error(err)
	}
	s.takeSpare()
	write(t, fs, "wal/000013.log", make([]byte, 4<<10+1))
	if kept, err := s.put("wal/000013.log"); kept || err != nil {
		t.Errorf("a large one was kept: %v", err)
	}
}
