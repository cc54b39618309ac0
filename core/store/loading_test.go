package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// putMany writes that many keys, and grants of which each third was used.
func (r *rig) putMany(n int) {
	r.t.Helper()
	for from := 0; from < n; from += 1000 {
		r.must(inBatch(func(tx *tx) {
			for i := from; i < min(n, from+1000); i++ {
				tx.putKey(&Key{ID: fmt.Sprintf("yk_%016d", i), Name: fmt.Sprint("key ", i), Scopes: []string{"authorize"},
					Agents: []string{"agent"}, MAC: make([]byte, 32), CreatedAt: tx.now, CreatedBy: "console:ann"}, keyState{})
				g := &Grant{ID: fmt.Sprintf("stg_%016d", i), AgentID: fmt.Sprint("agent", i), ToolPattern: "tool",
					Created: tx.now, Expires: tx.now.Add(time.Hour), IssuedBy: "console:ann", Issuers: []string{"console:ann"}}
				tx.putGrant(g, grantState{})
				if i%3 == 0 {
					tx.set(keyStr(prefixUses, g.ID), binary.BigEndian.AppendUint64(nil, uint64(i)))
				}
			}
		}))
	}
}

// TestManyRowsAreLoaded: more than one block of each kind.
func TestManyRowsAreLoaded(t *testing.T) {
	const many = 5_000
	r := newRig(t)
	r.putMany(many)
	r.reopen()
	if got := len(r.s.Keys()); got != many {
		t.Errorf("%d keys, want %d", got, many)
	}
	for i := range many {
		k, g := r.s.Key(fmt.Sprintf("yk_%016d", i)), r.s.grants.byID[fmt.Sprintf("stg_%016d", i)]
		want := uint64(0)
		if i%3 == 0 {
			want = uint64(i)
		}
		if k == nil || k.Name != fmt.Sprint("key ", i) || len(k.MAC) != 32 || g == nil || g.Uses() != want ||
			g.AgentID != fmt.Sprint("agent", i) {
			t.Fatalf("%d: key %+v, grant %+v", i, k, g)
		}
	}
}

// TestAnyRowCounts: one row of many that is changed, added or gone is noticed, wherever it stands.
func TestAnyRowCounts(t *testing.T) {
	const many = 3_000
	for _, at := range []int{0, many / 2, many - 1} {
		for name, change := range map[string]func(b *pebble.Batch, key, grant, uses []byte) error{
			"a key is gone":      func(b *pebble.Batch, key, _, _ []byte) error { return b.Delete(key, nil) },
			"a grant is gone":    func(b *pebble.Batch, _, grant, _ []byte) error { return b.Delete(grant, nil) },
			"its uses are gone":  func(b *pebble.Batch, _, _, uses []byte) error { return b.Delete(uses, nil) },
			"its uses are fewer": func(b *pebble.Batch, _, _, uses []byte) error { return b.Set(uses, make([]byte, 8), nil) },
			"a key cannot be read": func(b *pebble.Batch, key, _, _ []byte) error {
				return b.Set(key, []byte("{"), nil)
			},
			"a sweep is added": func(b *pebble.Batch, _, _, _ []byte) error {
				return b.Set(keyU64(prefixSweep, 7), []byte(`{"key":"boss"}`), nil)
			},
		} {
			t.Run(fmt.Sprint(name, " at ", at), func(t *testing.T) {
				r := newRig(t)
				r.putMany(many)
				grant := fmt.Sprintf("stg_%016d", at)
				r.must(inBatch(func(tx *tx) {
					tx.set(keyStr(prefixUses, grant), binary.BigEndian.AppendUint64(nil, 5))
				}))
				b := r.s.db.NewBatch()
				if err := change(b, keyStr(prefixKey, fmt.Sprintf("yk_%016d", at)), keyStr(prefixGrant, grant),
					keyStr(prefixUses, grant)); err != nil {
					t.Fatal(err)
				}
				if err := b.Commit(pebble.Sync); err != nil {
					t.Fatal(err)
				}
				if err := r.s.Close(); err != nil {
					t.Fatal(err)
				}
				_, err := Open(settings(r.fs, r.clock, nil))
				if err == nil || !strings.Contains(err.Error(), "are not those of commit") &&
					!strings.Contains(err.Error(), "key \"yk_") {
					t.Errorf("it opens: %v", err)
				}
			})
		}
	}
}

// BenchmarkStartWith starts a store with as many keys and grants as the sub-benchmark's name says, and tells what each
// row takes in memory and on disk. The values are like those of a real store: nothing that compresses away.
func BenchmarkStartWith(b *testing.B) {
	for _, n := range []struct{ keys, grants int }{
		{200_000, 200_000}, {1_000_000, 1_000_000}, {1_000_000, 0}, {0, 1_000_000},
	} {
		b.Run(fmt.Sprintf("%dkeys,%dgrants", n.keys, n.grants), func(b *testing.B) { startWith(b, n.keys, n.grants) })
	}
}

func startWith(b *testing.B, keys, grants int) {
	set := settings(vfs.Default, newClock(), func(err error) { b.Errorf("fatal: %v", err) })
	set.Dir, set.SealBytes = b.TempDir(), 8<<20
	disk := fillStore(b, set, keys, grants)
	before := inUse()
	var during uint64
	var worked time.Duration
	for b.Loop() {
		from := processorTime(b)
		s, err := Open(set)
		if err != nil {
			b.Fatal(err)
		}
		worked += processorTime(b) - from
		b.StopTimer()
		during = inUse()
		if got := len(s.Keys()); got != keys || len(s.grants.byID) != grants {
			b.Fatalf("%d keys and %d grants", got, len(s.grants.byID))
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		s = nil
		runtime.GC()
		b.StartTimer()
	}
	b.ReportMetric(worked.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(during-before)/float64(keys+grants), "mem-B/row")
	b.ReportMetric(float64(disk)/float64(keys+grants), "disk-B/row")
}

// fillStore makes a store of so many rows, all of them in tables, and tells how large these are.
func fillStore(b *testing.B, set Settings, keys, grants int) uint64 {
	s, err := Open(set)
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < max(keys, grants); from += 4000 {
		if err := s.Commit(b.Context(), inBatch(func(tx *tx) {
			rows := tx.batch
			tx.batch = s.db.NewBatch() // the rows are new: nobody has to look for what they replace
			for i := from; i < min(from+4000, keys); i++ {
				k := someKey(i, tx.now)
				tx.putKey(k.Key, k.keyState)
			}
			for i := from; i < min(from+4000, grants); i++ {
				g := someGrant(i, tx.now)
				tx.putGrant(g, grantState{})
				if i%3 == 0 {
					tx.set(keyStr(prefixUses, g.ID), binary.BigEndian.AppendUint64(nil, uint64(i%7)))
				}
			}
			for _, is := range tx.touched.rows {
				tx.q.sum.add(is)
			}
			tx.touched.begin()
			tx.keep(tx.batch.Commit(pebble.NoSync))
			tx.batch = rows
			tx.set(keyStr(prefixMeta, "filled"), nil)
		})); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(s.db.Flush(), s.db.Compact(b.Context(), []byte{0}, []byte{255}, true)); err != nil {
		b.Fatal(err)
	}
	disk := s.db.Metrics().DiskSpaceUsage()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return disk
}

// processorTime is what this process has used of the processors: on a machine that does other work too, the time that
// a start takes says little.
func processorTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// inUse is what the heap holds.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what a pool held is gone after the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func someKey(i int, now time.Time) storedKey {
	mac := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	k := storedKey{Key: &Key{ID: fmt.Sprintf("%x", mac[:6]), Name: fmt.Sprint("team-", i%500, "-service-", i),
		Scopes: []string{"authorize", "scan"},
		Preset: "agent", Agents: []string{fmt.Sprint("agent-", i, "-*")}, MAC: mac[:], CreatedAt: now,
		CreatedBy: "console:ann"}, keyState: keyState{LastUsed: now.Truncate(time.Minute)}}
	if i%10 == 0 {
		k.Environment, k.ExpiresAt, k.Note = "production", now.Add(1000*time.Hour), "asked for in ticket "+fmt.Sprint(i)
	}
	if i%50 == 1 {
		k.RevokedAt, k.RevokedBy = now, "console:bob"
	}
	return k
}

func someGrant(i int, now time.Time) *Grant {
	id := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	g := &Grant{ID: fmt.Sprintf("stg_01%024X", id[:12]), AgentID: fmt.Sprint("agent-", i/2),
		ToolPattern: "payments/refund", RuleID: "money",
		Rules: []string{"money"}, Steps: []string{"house-rules"}, MaxUses: 20, Created: now,
		Expires: now.Add(8 * time.Hour), IssuedBy: fmt.Sprintf("%012x", i%1000), Token: fmt.Sprintf("dfr_%x", id[:16])}
	g.Issuers = []string{g.IssuedBy}
	if i%10 == 0 {
		g.ArgsMatch, g.SessionID, g.Note = "args.amount < 100", fmt.Sprintf("session-%x", id[20:28]), "as agreed on"
	}
	return g
}
