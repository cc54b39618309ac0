package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/log"
)

// Histogram is how often values lay in which range. Counts[i] are those up to Bounds[i] and above the bound before it;
// the last of Counts, which is one longer, are those above all bounds.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// Observed is what metrics show of a store.
type Observed struct {
	Syncs          Histogram // seconds that batches waited for the disk
	Commands       Histogram // of one batch
	Records        Histogram // of one batch
	Bytes          uint64    // of records, written since the start
	QueuedCommands int       // that wait for the next batches
	QueuedBytes    int       // about what they write
	Stalls         uint64    // times that the disk stalled
	// how long the oldest record that log/head does not cover has been on disk
	CheckpointAge time.Duration
	Pending       int           // deferred calls that wait for a person
	PendingAge    time.Duration // of the oldest of them
}

// Observe gives what metrics show. It does not wait for the disk.
func (s *Store) Observe() Observed {
	now := s.set.Now()
	o := s.seen.read(now)
	q := s.seq
	q.mu.Lock()
	o.QueuedCommands, o.QueuedBytes = q.queue.len(), q.queue.bytes
	q.mu.Unlock()
	o.Pending, o.PendingAge = s.open.oldest(now)
	return o
}

// The bounds of the histograms.
var (
	syncBounds  = doubling(0.0001, 17) // 0.1 ms to 6.6 s
	batchBounds = doubling(1, 14)      // 1 to 8192
)

func doubling(first float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = first
		first *= 2
	}
	return out
}

// counted is a Histogram in the making: one goroutine counts, and anybody reads.
type counted struct {
	bounds []float64
	scale  float64 // a bound's unit, in those of add
	counts [20]atomic.Uint64
	sum    atomic.Uint64
}

// add counts a value. It allocates nothing and takes no lock.
func (c *counted) add(n uint64) {
	at, v := 0, float64(n)/c.scale
	for at < len(c.bounds) && v > c.bounds[at] {
		at++
	}
	c.counts[at].Add(1)
	c.sum.Add(n)
}

func (c *counted) read() Histogram {
	h := Histogram{Bounds: c.bounds, Counts: make([]uint64, len(c.bounds)+1), Sum: float64(c.sum.Load()) / c.scale}
	for i := range h.Counts {
		h.Counts[i] = c.counts[i].Load()
	}
	return h
}

// seen counts what the sequencer does.
type seen struct {
	syncs, commands, records counted
	bytes, stalls            atomic.Uint64
	batch                    int // commands of the batch that is written; the sequencer's alone

	mu        sync.Mutex // never held across the disk
	newest    uint64     // commit on disk
	uncovered time.Time  // since when a commit is on disk that log/head does not cover; zero: there is none
}

// begin is called before anything is counted.
func (s *seen) begin() {
	s.syncs.bounds, s.syncs.scale = syncBounds, 1e9
	s.commands.bounds, s.commands.scale = batchBounds, 1
	s.records.bounds, s.records.scale = batchBounds, 1
}

// synced counts a batch that the disk has, and what it took.
func (s *seen) synced(c *log.Commit, took time.Duration, now time.Time) {
	s.syncs.add(uint64(max(took, 0)))
	s.commands.add(uint64(s.batch))
	s.records.add(uint64(c.Count))
	s.bytes.Add(uint64(len(c.Records) - 4*int(c.Count))) // each has its length before it
	s.mu.Lock()
	s.newest = c.Number
	if s.uncovered.IsZero() {
		s.uncovered = now
	}
	s.mu.Unlock()
}

// covered is told of what log/head knows of since it was written; as it was at that time.
func (s *seen) covered(commit uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case commit >= s.newest:
		s.uncovered = time.Time{}
	case s.uncovered.Before(at): // what it does not cover came later
		s.uncovered = at
	}
}

func (s *seen) read(now time.Time) Observed {
	o := Observed{Syncs: s.syncs.read(), Commands: s.commands.read(), Records: s.records.read(), Bytes: s.bytes.Load(),
		Stalls: s.stalls.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.uncovered.IsZero() {
		o.CheckpointAge = max(now.Sub(s.uncovered), 0)
	}
	return o
}
