package store

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// putMany writes that many keys, and grants of which each third was used.
func (r *rig) putMany(n int) {
	r.t.Helper()
	for from := 0; from < n; from += 1000 {
		r.must(inBatch(func(tx *tx) {
			for i := from; i < min(n, from+1000); i++ {
				tx.putKey(&Key{ID: fmt.Sprintf("yk_%016d", i), Name: fmt.Sprint("key ", i), Scopes: []string{"authorize"},
					Agents: []string{"agent"}, MAC: make([]byte, 32), CreatedAt: tx.now, CreatedBy: "console:ann"})
				g := &Grant{ID: fmt.Sprintf("stg_%016d", i), AgentID: fmt.Sprint("agent", i), ToolPattern: "tool",
					Created: tx.now, Expires: tx.now.Add(time.Hour), IssuedBy: "console:ann", Issuers: []string{"console:ann"}}
				tx.putGrant(g)
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

// A start of a store with very many keys and grants.
func BenchmarkStartWithKeys(b *testing.B) {
	const many = 200_000
	r := newRig(b)
	r.putMany(many)
	if err := r.s.db.Flush(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		if err := r.s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		r.open()
	}
	if len(r.s.Keys()) != many {
		b.Fatal(len(r.s.Keys()))
	}
}
