package strict

import (
	"fmt"
	"strings"
)

// Meant gives `; did you mean "x"?` for the candidate nearest to got, or "" if none is near.
func Meant(got string, candidates []string) string {
	best := nearest(got, candidates)
	if best == "" || best == got {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// nearest gives the candidate nearest to got, or "" if none is near.
func nearest(got string, candidates []string) string {
	best, bestDist := "", len(got)/3+2
	for _, c := range candidates {
		d := distance(strings.ToLower(got), strings.ToLower(c))
		if d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, changes and swaps of neighbours that make b of a. Long names count as far
// apart, so that hostile input costs nothing.
func distance(a, b string) int {
	const most = 64
	if len(a) > most || len(b) > most {
		return most
	}
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
