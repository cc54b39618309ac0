package config

import "testing"

// TestLeastFree: a share has a floor that small disks can live with, a size has none.
func TestLeastFree(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, tt := range []struct {
		set         string
		total, want uint64
	}{
		{"5%", 100 * gib, 5 * gib}, {"5%", 2 * gib, 256 * mib}, {"5%", 1 * gib, 256 * mib}, {"5%", 96 * mib, 24 * mib},
		{"50%", 96 * mib, 48 * mib}, {"64MiB", 100 * gib, 64 * mib}, {"0B", 100 * gib, 0}, {"", 100 * gib, 256 * mib},
	} {
		s := Storage{MinFree: tt.set}
		got := s.LeastFree(tt.total)
		if got/mib != tt.want/mib && got/mib+1 != tt.want/mib { // of whole hundredths
			t.Errorf("%q of %d: %d, want %d", tt.set, tt.total, got, tt.want)
		}
	}
}
