//go:build linux

package bench

import (
	"math/bits"
	"time"
)

// histogram counts durations in log-linear buckets, as HDR histograms do: 256 to each power of two, so a percentile is
// off by less than 0.4 %. The zero histogram is empty. Not safe for concurrent use.
type histogram struct {
	counts [(64 - subBits + 1) << subBits]uint64
	total  uint64
	max    time.Duration
}

const subBits = 8

// add counts one duration; negative ones count as 0.
func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
	h.max = max(h.max, d)
}

func bucketOf(ns uint64) int {
	over := bits.Len64(ns) - subBits - 1
	if over <= 0 {
		return int(ns)
	}
	return over<<subBits + int(ns>>over)
}

// top is the largest value of a bucket, ns.
func top(bucket int) uint64 {
	if bucket < 2<<subBits {
		return uint64(bucket)
	}
	over := bucket>>subBits - 1
	return uint64(bucket-over<<subBits+1)<<over - 1
}

// at is the duration that the share q (0 to 1) of all counted ones does not exceed, 0 when nothing was counted.
func (h *histogram) at(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	want := min(uint64(q*float64(h.total))+1, h.total)
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; seen >= want {
			return min(time.Duration(top(i)), h.max)
		}
	}
	return h.max
}
