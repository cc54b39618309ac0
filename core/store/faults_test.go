package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/yett-dev/yett/core/testkit"
)

// failing makes the k-th changing operation of a disk fail, once, and tells which it was.
func failing(fs vfs.FS, k int64) (vfs.FS, *atomic.Pointer[errorfs.Op]) {
	var ops atomic.Int64
	failed := new(atomic.Pointer[errorfs.Op])
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose || ops.Add(1) != k {
			return nil
		}
		failed.Store(&op)
		return errorfs.ErrInjected
	})), failed
}

// failAt runs the workload on a disk whose k-th changing operation fails. The process then ends, and what it has left
// is opened again, both as the disk shows it and as a power cut would leave it. end says what became of the store.
func failAt(k int64, clients int) (end string, reached bool, err error) {
	base := newCuttable()
	fs, failed := failing(base, k)
	j := newJournal()
	told := make(chan struct{})
	tell := sync.OnceFunc(func() { close(told) })
	s, err := workload(settings(fs, newClock(), func(error) { tell() }), true, j, clients, 4)
	op := failed.Load()
	if op == nil {
		return "", false, errors.Join(err, overIt(s, base, j))
	}
	// Refusals go out before OnFatal is called, and so do answers of takers (in_effect_not_durable, which are in j.other).
	// Only a defect lets this wait end.
	if j.refused > 0 || s != nil && len(j.other) > 0 {
		select {
		case <-told:
		case <-time.After(30 * time.Second):
		}
	}
	fatal := false
	select {
	case <-told:
		fatal = true
	default:
	}
	end = fmt.Sprintf("open=%v fatal=%v refused=%v", s != nil, fatal, j.refused > 0)
	switch {
	case err != nil && !strings.Contains(err.Error(), "injected"):
	case j.refused > 0 && !fatal:
		err = fmt.Errorf("%d commits were refused and nobody was told that the process has to end", j.refused)
	case s != nil && !fatal:
		err = overIt(s, base, j)
	case s != nil && s.Healthy() == nil:
		err = errors.New("the store has failed and calls itself healthy")
	default:
		err = restarts(base, j)
	}
	if err != nil {
		err = fmt.Errorf("operation %d (kind %d on %s): %w", k, op.Kind, op.Path, err)
	}
	return end, true, err
}

// restarts opens what a process has left, with and without what it had not synced.
func restarts(base *cuttable, j *journal) error {
	for percent, boot := range map[int]string{100: thisBoot, 0: anotherBoot} {
		fs := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 2))})
		if _, err := afterCut(fs, j, boot); err != nil {
			return fmt.Errorf("restart with %d%% of what was not synced: %w", percent, err)
		}
	}
	return nil
}

// overIt checks a store that the fault did not stop: in place, and opened again.
func overIt(s *Store, base *cuttable, j *journal) error {
	if err := j.verify(s); err != nil {
		return err
	}
	if err := s.Close(); err != nil && !strings.Contains(err.Error(), "injected") {
		return err
	}
	return restarts(base, j)
}

func TestEveryWriteFailingOnce(t *testing.T) {
	step := int64(1)
	if testing.Short() || !testkit.Every(1, 2) {
		step = int64(testkit.Rounds(7, 29))
	}
	for _, clients := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			seen := map[string]int{}
			for k := int64(1); ; k += step {
				end, reached, err := failAt(k, clients)
				if err != nil {
					t.Fatal(err)
				}
				if !reached {
					break
				}
				seen[end]++
			}
			if seen["open=true fatal=true refused=true"] == 0 || seen["open=false fatal=false refused=false"] == 0 {
				t.Errorf("the faults had only these ends: %v", seen)
			}
			t.Log(seen)
		})
	}
}

// forgetful is a disk that loses writes to a log, from one on, and says that they were written.
type forgetful struct {
	vfs.FS
	left *atomic.Int64
}

type forgetfulFile struct {
	vfs.File
	left *atomic.Int64
}

func (d forgetful) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if strings.HasSuffix(name, ".log") {
		f = forgetfulFile{f, d.left}
	}
	return f, err
}

func (f forgetfulFile) Write(p []byte) (int, error) {
	if f.left.Add(-1) < 0 {
		return len(p), nil
	}
	return f.File.Write(p)
}

// The checks above would see answers that were never written.
func TestFaultCheckCatchesALostWrite(t *testing.T) {
	base := newCuttable()
	left := new(atomic.Int64)
	left.Store(12)
	s, err := Open(settings(forgetful{base, left}, newClock(), func(error) {}))
	if err != nil {
		t.Fatal(err)
	}
	j := newJournal()
	(&client{s: s, j: j, name: "a0"}).life(3, func(int) {})
	if err = restarts(base, j); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Fatalf("lost writes were not noticed: %v", err)
	}
	t.Logf("caught: %v", err)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
