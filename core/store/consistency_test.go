package store

import (
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// TestConsistency: the tree over any first records is proved to be a beginning of any later one, also behind what
// retention has removed, as far as there is a proof.
func TestConsistency(t *testing.T) {
	r := newRig(t)
	r.notes(60)
	roots := map[uint64][32]byte{}
	for n := uint64(1); n <= 60; n++ {
		var err error
		if roots[n], err = r.s.Root(n); err != nil {
			t.Fatal(err)
		}
	}
	prove := func(from uint64) {
		t.Helper()
		for first := from; first < 60; first++ {
			for size := first + 1; size <= 60; size++ {
				proof, err := r.s.Consistency(first, size)
				if err == nil {
					err = tlog.CheckTree(proof, int64(size), roots[size], int64(first), roots[first])
				}
				if err != nil {
					t.Fatalf("%d to %d: %v", first, size, err)
				}
			}
		}
	}
	prove(1)
	r.must(&Trim{Through: 21, Reason: "max_age"})
	prove(r.s.First() - 1)
	for _, c := range [][2]uint64{{0, 5}, {40, 40}, {41, 40}, {40, r.s.Seq() + 1}} {
		if _, err := r.s.Consistency(c[0], c[1]); err == nil {
			t.Errorf("%d to %d is proved", c[0], c[1])
		}
	}
}
