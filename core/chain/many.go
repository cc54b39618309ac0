package chain

import "time"

// Time is what is left of the chain's budget. The texts of one request have one budget together.
type Time struct{ end time.Time }

// Begin starts the budget of a request.
func (c *ScanChain) Begin() *Time { return &Time{c.Now().Add(c.Budget)} }

// Without leaves out a time in which the request waited for its turn.
func (t *Time) Without(d time.Duration) { t.end = t.end.Add(d) }

// Add makes the receipt one for its text and another of the same request: a failure of either is one of both, and the
// first one's is told.
func (r *Receipt) Add(next *Receipt) {
	switch {
	case next.Outcome == "skipped":
		return
	case r.Outcome == "skipped":
		*r = *next
		return
	}
	if r.Err == nil && next.Err != nil {
		r.Err, r.Outcome = next.Err, next.Outcome
	}
	if r.Began.IsZero() {
		r.Began = next.Began
	}
	r.Prefiltered = r.Prefiltered && next.Prefiltered
	r.Bytes += next.Bytes
	r.Took += next.Took
}
