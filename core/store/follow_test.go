package store

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// walk is what a reading function gives: seq and a checksum of the record.
func walk(t testing.TB, from uint64, read func(uint64, func(uint64, []byte) error) error) []string {
	t.Helper()
	var out []string
	err := read(from, func(seq uint64, rec []byte) error {
		out = append(out, fmt.Sprintf("%d %x", seq, crc32.ChecksumIEEE(rec)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sealing is a rig that seals after so many bytes.
func sealing(t testing.TB, bytes int) *rig {
	r := &rig{t: t, fs: vfs.NewMem(), clock: newClock(), seal: bytes}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

// sealed waits until at least that many segments were made, and gives their number.
func (r *rig) sealed(least int) int {
	r.t.Helper()
	n := 0
	until(r.t, func() bool {
		s, _ := r.s.records.now()
		n = len(s)
		return n >= least
	})
	return n
}

// TestRecordsAreTheSameWhereverTheyLie: in memory, in segments, after a start; whatever one begins with.
func TestRecordsAreTheSameWhereverTheyLie(t *testing.T) {
	r := sealing(t, 20<<10)
	var want []string
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		pad := strings.Repeat("p", rng.IntN(400))
		r.must(&Note{Type: "note", By: system, Fields: [][2]string{{"n", fmt.Sprint(i)}, {"pad", pad}}})
		if i%200 == 199 { // each time there is more than enough for one more
			r.sealed(i/200 + 1)
		}
	}
	want = walk(t, 1, r.s.Records)
	if len(want) != 600 {
		t.Fatalf("%d records, want 600", len(want))
	}
	root, err := r.s.Root(600)
	if err != nil {
		t.Fatal(err)
	}
	same := func(when string) {
		t.Helper()
		for _, from := range []uint64{0, 1, 2, 59, 60, 61, 299, 300, 599, 600, 601, 700} {
			first := max(from, 1)
			var tail []string
			if first <= 600 {
				tail = want[first-1:]
			}
			if got := walk(t, from, r.s.Records); !slices.Equal(got, tail) {
				t.Fatalf("%s, from %d: %d records, want %d", when, from, len(got), len(tail))
			}
		}
		for _, size := range []uint64{1, 2, 100, 599, 600} {
			if _, err := r.s.Root(size); err != nil {
				t.Fatalf("%s: root of %d: %v", when, size, err)
			}
		}
		r.s.roots = rootCache{}
		if got, err := r.s.Root(600); err != nil || got != root {
			t.Fatalf("%s: another root: %v", when, err)
		}
	}
	same("sealed in part")
	r.reopen()
	same("opened again")
	r.reopen()
	same("and again")
}

// TestFollow reads along while others write: everything once, in order, and a wake-up for the last one.
func TestFollow(t *testing.T) {
	r := sealing(t, 10<<10)
	wake := make(chan struct{}, 1)
	defer r.s.Follow(wake)()
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range each {
				n := &Note{Type: "note", By: system, Fields: [][2]string{{"who", fmt.Sprintf("%d/%d", w, i)},
					{"pad", strings.Repeat("p", rng.IntN(300))}}}
				if err := r.s.Commit(context.Background(), n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := uint64(1)
	for next <= writers*each {
		<-wake
		err := r.s.Records(next, func(seq uint64, rec []byte) error {
			if seq != next || !strings.Contains(string(rec), fmt.Sprintf(`"seq":%d,`, seq)) {
				t.Fatalf("got %d, want %d: %s", seq, next, rec)
			}
			next++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	stop := r.s.Follow(make(chan<- struct{}, 1))
	stop()
	stop()
	if n := len(r.s.records.wakes); n != 1 {
		t.Errorf("%d follow, want 1", n)
	}
}

// TestRecordsStop ends the walk with the caller's error, from memory and from segments.
func TestRecordsStop(t *testing.T) {
	r := sealing(t, 2<<10)
	enough := fmt.Errorf("enough")
	for range 50 {
		r.must(&Note{Type: "note", By: system})
	}
	r.sealed(1)
	for _, from := range []uint64{1, 50} {
		n := 0
		if err := r.s.Records(from, func(uint64, []byte) error { n++; return enough }); err == nil ||
			!strings.Contains(err.Error(), "enough") || n != 1 {
			t.Fatalf("from %d: %v after %d", from, err, n)
		}
	}
}
