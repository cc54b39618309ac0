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

// TestTailIsTheLog holds Tail against Records in every state that the memory can be in.
func TestTailIsTheLog(t *testing.T) {
	r := newRig(t)
	same := func(when string) {
		t.Helper()
		size := r.s.Seq()
		for _, from := range []uint64{0, 1, 2, size / 2, size - 1, size, size + 1, size + 9} {
			if got, want := walk(t, from, r.s.Tail), walk(t, from, r.s.Records); !slices.Equal(got, want) {
				t.Fatalf("%s, from %d of %d: %d records, want %d", when, from, size, len(got), len(want))
			}
		}
	}
	write := func(n int, text string) {
		for range n {
			r.must(&Note{Type: "note", By: system, Fields: [][2]string{{"text", text}}})
		}
	}
	held := func() (groups, bytes int) {
		r.must(&StopWatch{}) // makes no record: when it is answered, all before it are in memory
		tl := &r.s.seq.tail
		tl.mu.Lock()
		defer tl.mu.Unlock()
		return len(tl.groups), tl.bytes
	}
	write(10, "before")
	same("not followed")
	stop := r.s.Follow(make(chan<- struct{}, 1))
	same("just followed")
	write(300, "after") // more groups than are copied at once
	same("followed")
	if n, _ := held(); n != 300 {
		t.Fatalf("%d groups in memory, want 300", n)
	}
	write(50, strings.Repeat("x", 200<<10))
	if _, got := held(); got > tailBytes || got < tailBytes/2 {
		t.Fatalf("%d bytes in memory, the limit is %d", got, tailBytes)
	}
	same("with the older ones gone from memory")
	other := r.s.Follow(make(chan<- struct{}, 1))
	stop()
	stop()
	if n, _ := held(); n == 0 {
		t.Fatal("one follower's end takes the memory from the other one")
	}
	other()
	if n, _ := held(); n != 0 {
		t.Fatalf("%d groups are kept for nobody", n)
	}
	write(3, "unseen")
	same("not followed any more")
	defer r.s.Follow(make(chan<- struct{}, 1))()
	write(3, "again")
	same("followed again")
}

// TestTailHasNoGap hands it batches with one missing: what is in memory must stay without gaps.
func TestTailHasNoGap(t *testing.T) {
	var tl tail
	tl.followed.Store(true)
	tl.wakes = []chan<- struct{}{make(chan struct{}, 1)}
	one := []byte{0, 0, 0, 1, 'x'}
	tl.add(5, 5, one)
	tl.add(6, 6, one)
	tl.add(8, 8, one)
	var some [4]group
	if n, ok := tl.from(6, some[:]); ok {
		t.Fatalf("it gives %d groups from 6 on, but 7 is missing", n)
	}
	if n, ok := tl.from(8, some[:]); !ok || n != 1 {
		t.Fatalf("8: %d groups, %v", n, ok)
	}
}

// TestFollow reads along while others write: everything once, in order, and a wake-up for the last one.
func TestFollow(t *testing.T) {
	r := newRig(t)
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
		err := r.s.Tail(next, func(seq uint64, rec []byte) error {
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
}

// TestTailStops ends the walk with the caller's error, from memory and from disk.
func TestTailStops(t *testing.T) {
	r := newRig(t)
	enough := fmt.Errorf("enough")
	for _, followed := range []bool{false, true} {
		if followed {
			defer r.s.Follow(make(chan<- struct{}, 1))()
		}
		from := r.s.Seq() + 1
		for range 3 {
			r.must(&Note{Type: "note", By: system})
		}
		n := 0
		if err := r.s.Tail(from, func(uint64, []byte) error { n++; return enough }); err == nil ||
			!strings.Contains(err.Error(), "enough") || n != 1 {
			t.Fatalf("followed %v: %v after %d", followed, err, n)
		}
	}
}
