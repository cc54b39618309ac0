package ops

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"
)

// TestIDsAreInOrder: later ids sort behind earlier ones, within a millisecond, when the clock is set back, and when the
// random part is at its end.
func TestIDsAreInOrder(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s := newIDSource(func() time.Time { return now }, func(b []byte) { _, _ = rand.Read(b) })
	var ids []string
	for i := range 5000 {
		switch i {
		case 1000, 2000:
			now = now.Add(time.Millisecond)
		case 3000:
			now = now.Add(-time.Hour)
		case 4000:
			for j := 8; j < 16; j++ {
				s.last[j] = 0xff
			}
		}
		ids = append(ids, s.id("x_"))
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Error("the ids are not in order, or two are the same")
	}
}
