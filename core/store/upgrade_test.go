package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/cockroachdb/pebble/v2/wal"
	"golang.org/x/mod/sumdb/tlog"
)

// rowsOf makes of a closed store one of layout 1, as it was written before there were segments. The records in front of
// kept are left out.
func rowsOf(t *testing.T, fs vfs.FS, clock *clock, kept uint64) {
	t.Helper()
	s, err := Open(settings(fs, clock, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, young := s.records.now()
	b := s.db.NewBatch()
	for _, c := range young {
		if c.Count == 0 {
			continue
		}
		if c.First >= kept {
			err = errors.Join(err, b.Set(keyU64(rowsRecords, c.First), c.Records, nil))
		}
		err = errors.Join(err, b.Set(keyU64(rowsHashes, uint64(c.FirstHash())), c.Hashes, nil))
	}
	err = errors.Join(err, b.Set(keyStr(prefixMeta, "format"), []byte(layoutOfRows), nil), b.Delete(commitRow, nil),
		b.Delete(keyStr(prefixMeta, "kept"), nil), b.Commit(pebble.Sync),
		s.Close(), fs.RemoveAll("data/log"))
	db, err2 := pebble.Open("data/db", &pebble.Options{FS: fs, Logger: quiet{},
		WALRecoveryDirs: []wal.Dir{{FS: fs, Dirname: "data/db/wal"}}})
	if err = errors.Join(err, err2); err == nil {
		err = errors.Join(db.Close(), fs.RemoveAll("data/db/wal"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// TestAnOlderProgramTouchesNothing: a program that knows only layout 1 is refused by Pebble, in front of everything
// that opening changes.
func TestAnOlderProgramTouchesNothing(t *testing.T) {
	fs := vfs.NewMem()
	clock, all, _, _ := filled(t, fs)
	db, err := pebble.Open("data/db", &pebble.Options{FS: fs, Logger: quiet{}})
	if err == nil || !strings.Contains(err.Error(), "WALDir") {
		t.Errorf("it opens: %v, %v", db, err)
	}
	s, err := Open(settings(fs, clock, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := walk(t, 1, s.Records); !slices.Equal(got, all) {
		t.Errorf("%d records, want %d", len(got), len(all))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// filled is a store with a life behind it, closed.
func filled(t *testing.T, fs vfs.FS) (clock *clock, log []string, root tlog.Hash, j *journal) {
	t.Helper()
	clock, j = newClock(), newJournal()
	set := settings(fs, clock, func(err error) { t.Errorf("fatal: %v", err) })
	set.SealBytes = 1 << 30 // rowsOf wants all of it in memory
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	(&client{s: s, j: j, name: "a0"}).life(4, func(int) {})
	log = walk(t, 1, s.Records)
	if root, err = s.Root(s.Seq()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return clock, log, root, j
}

func TestUpgrade(t *testing.T) {
	for _, kept := range []uint64{1, 2, 9, 30} {
		t.Run(fmt.Sprint("from ", kept), func(t *testing.T) {
			fs := vfs.NewMem()
			clock, all, root, j := filled(t, fs)
			rowsOf(t, fs, clock, kept)
			set := settings(fs, clock, func(err error) { t.Errorf("fatal: %v", err) })
			if _, err := Open(set); err == nil || !strings.Contains(err.Error(), "yett store upgrade --data data") {
				t.Fatalf("it opens: %v", err)
			}
			if is, want, err := Layout(set); err != nil || is != "1" || want != layoutVersion {
				t.Errorf("layout %q, %q: %v", is, want, err)
			}
			set.SealBytes = 3 << 10
			done, err := Upgrade(set)
			if err != nil {
				t.Fatal(err)
			}
			if done.Root != root.String() || done.ToSeq != uint64(len(all)) || done.Records != uint64(len(all))+1-done.FromSeq ||
				done.FromSeq < kept {
				t.Errorf("%+v", done)
			}
			s, err := Open(set)
			if err != nil {
				t.Fatal(err)
			}
			if got := walk(t, 1, s.Records); !slices.Equal(got, all[done.FromSeq-1:]) {
				t.Errorf("%d records, want %d", len(got), len(all))
			}
			if got, err := s.Root(uint64(len(all))); err != nil || got != root {
				t.Errorf("another root: %v", err)
			}
			if kept == 1 {
				if err := j.verify(s); err != nil {
					t.Error(err)
				}
			}
			if err := s.Commit(context.Background(), &Note{Type: "after", By: system}); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := Upgrade(set); err == nil || !strings.Contains(err.Error(), `its layout is version "2"`) {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// TestUpgradeOfAnOldersStore: testdata/layout1.tar.gz is the database of a server that wrote layout 1 and was ended by
// kill -9. It has a key, permits, a denial, a call that waits, and a kill.
func TestUpgradeOfAnOldersStore(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", "testdata/layout1.tar.gz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	clock := newClock()
	clock.now = time.Date(2026, 11, 26, 18, 34, 0, 0, time.UTC)
	set := settings(vfs.Default, clock, func(err error) { t.Errorf("fatal: %v", err) })
	set.Dir = dir
	done, err := Upgrade(set)
	if err != nil {
		t.Fatal(err)
	}
	want := Upgraded{From: "1", To: layoutVersion, Records: 19, FromSeq: 1, ToSeq: 19,
		Root: "C4uKerM55LcnIzZiFAcPpVc2FolHNH97MNhOz9jEf0c="}
	if *done != want {
		t.Errorf("got %+v", done)
	}
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if got := walk(t, 1, s.Records); len(got) != 19 {
		t.Errorf("%d records", len(got))
	}
	if root, err := s.Root(19); err != nil || tlog.Hash(root).String() != want.Root {
		t.Errorf("root %v: %v", root, err)
	}
	if err := consistent(s); err != nil {
		t.Error(err)
	}
	if n := len(s.Keys()); n != 2 {
		t.Errorf("%d keys", n)
	}
	if s.Killed(s.Keys()[0], "mallory", "", "files/read") == nil {
		t.Error("the kill is lost")
	}
	if n := len(s.seq.state.live); n != 1 {
		t.Errorf("%d calls wait", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestUpgradeBrokenOff: whenever the power goes, the store is one of the old layout or a whole one of the new, and the
// upgrade can be done again.
func TestUpgradeBrokenOff(t *testing.T) {
	base := vfs.NewCrashableMem()
	clock, all, root, _ := filled(t, base)
	rowsOf(t, base, clock, 1)
	for _, percent := range []int{0, 50, 100} {
		fs := &cuttable{MemFS: clone(base)}
		rng := rand.New(rand.NewPCG(2, uint64(percent)))
		cuts, failure := 0, error(nil)
		l := &looker{look: func(errorfs.Op) {
			if failure != nil {
				return
			}
			cuts++
			left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
			failure = afterUpgrade(t, left, clock, all, root)
		}}
		set := settings(l.on(fs), clock, nil)
		set.SealBytes = 6 << 10
		_, err := Upgrade(set)
		l.over()
		if errors.Join(failure, err) != nil || cuts < 20 {
			t.Errorf("%d%% kept, %d cuts: %v", percent, cuts, errors.Join(failure, err))
		}
	}
}

func afterUpgrade(t *testing.T, fs vfs.FS, clock *clock, all []string, root tlog.Hash) error {
	set := settings(fs, clock, nil)
	is, _, err := Layout(set)
	if err != nil {
		return err
	}
	if is == layoutOfRows {
		done, err := Upgrade(set)
		if err != nil {
			return err
		}
		if n := uint64(len(all)); done.Root != root.String() || done.Records != n || done.FromSeq != 1 || done.ToSeq != n {
			return fmt.Errorf("the upgrade says %+v", done)
		}
	}
	s, err := Open(set)
	if err != nil {
		return err
	}
	if got := walk(t, 1, s.Records); !slices.Equal(got, all) {
		return fmt.Errorf("layout %s: %d records, want %d", is, len(got), len(all))
	}
	if got, err := s.Root(uint64(len(all))); err != nil || got != root {
		return fmt.Errorf("layout %s: another root: %w", is, err)
	}
	return s.Close()
}

// TestUpgradeRefusesAHole: what is missing in the old log is not made good.
func TestUpgradeRefusesAHole(t *testing.T) {
	for name, spoil := range map[string]func(b *pebble.Batch) error{
		"a row that is missing": func(b *pebble.Batch) error { return b.Delete(keyU64(rowsRecords, 5), nil) },
		"another record": func(b *pebble.Batch) error {
			return b.Set(keyU64(rowsRecords, 5), append(binary.BigEndian.AppendUint32(nil, 2), "{}"...), nil)
		},
	} {
		fs := vfs.NewMem()
		clock, _, _, _ := filled(t, fs)
		rowsOf(t, fs, clock, 1)
		set := settings(fs, clock, nil)
		u, err := openRows(set)
		if err != nil {
			t.Fatal(err)
		}
		b := u.db.NewBatch()
		if err := errors.Join(spoil(b), b.Commit(pebble.Sync), u.db.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := Upgrade(set); err == nil {
			t.Errorf("%s: it is upgraded", name)
		}
		if is, _, err := Layout(set); err != nil || is != layoutOfRows {
			t.Errorf("%s: its layout is %q now: %v", name, is, err)
		}
	}
}
