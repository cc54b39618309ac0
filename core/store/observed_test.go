package store

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/RaduBerinde/btreemap"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
)

func all(h Histogram) (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// What metrics show is what has happened: each batch with its records and its time, and a stall once.
func TestObserved(t *testing.T) {
	disk, now := &stuck{}, newClock()
	set := settings(vfs.NewMem(), now, func(err error) { t.Errorf("fatal: %v", err) })
	set.Delay, set.Stall = disk.delay, time.Hour
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: now, s: s}
	agent := r.key("agent", nil, "authorize")
	before, seq := s.Observe(), s.Seq()
	r.must(r.call(agent, "a", sdk.Verdict{Effect: sdk.Permit}))
	r.must(r.call(agent, "b", sdk.Verdict{Effect: sdk.Permit}))
	after := s.Observe()
	bytes := uint64(0)
	if err := s.Records(seq+1, func(_ uint64, rec []byte) error { bytes += uint64(len(rec)); return nil }); err != nil {
		t.Fatal(err)
	}
	if n := all(after.Syncs) - all(before.Syncs); n != 2 || all(after.Records)-all(before.Records) != 2 ||
		all(after.Commands)-all(before.Commands) != 2 {
		t.Errorf("two batches are %d: %+v", n, after)
	}
	if n := after.Records.Sum - before.Records.Sum; n != float64(s.Seq()-seq) || n != 2 ||
		after.Bytes-before.Bytes != bytes || after.Commands.Sum-before.Commands.Sum != 2 {
		t.Errorf("%v records and %d bytes, want %d bytes", n, after.Bytes-before.Bytes, bytes)
	}

	disk.stop()
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Commit(context.Background(), r.call(agent, "c", sdk.Verdict{Effect: sdk.Permit})) })
	<-disk.begun
	wg.Go(func() { _ = s.Commit(context.Background(), r.call(agent, "d", sdk.Verdict{Effect: sdk.Permit})) })
	until(t, func() bool { return s.Observe().QueuedCommands != 0 })
	if o := s.Observe(); o.QueuedCommands != 1 || o.QueuedBytes < baseBytes || o.Stalls != 0 {
		t.Errorf("one command waits: %+v", o)
	}
	s.seq.look(now.advance(time.Hour))
	s.seq.look(now.advance(time.Hour))
	wg.Wait()
	if o := s.Observe(); o.Stalls != 1 || o.QueuedCommands != 0 {
		t.Errorf("one stall: %+v", o)
	}
	disk.goOn()
	healthyAgain(t, s)
	if o := s.Observe(); o.Syncs.Counts[len(o.Syncs.Counts)-1] == 0 || o.Syncs.Sum < 7200 {
		t.Errorf("a sync of two hours is not seen: %+v", o.Syncs)
	}
	r.close()
}

// The age of the checkpoint grows while log/head is not written, and says nothing of what is covered.
func TestCheckpointAge(t *testing.T) {
	c, s := &log.Commit{}, &seen{}
	s.begin()
	at := newClock()
	age := func(want time.Duration) {
		t.Helper()
		if got := s.read(at.Now()).CheckpointAge; got != want {
			t.Errorf("age %v, want %v", got, want)
		}
	}
	age(0)
	lands := func(n uint64) { c.Number = n; s.synced(c, 0, at.Now()) }
	lands(1)
	at.advance(time.Second)
	lands(2)
	at.advance(time.Second)
	age(2 * time.Second)
	began := at.Now()
	lands(3)
	at.advance(time.Second)
	s.covered(2, began)
	age(time.Second)
	s.covered(3, at.Now())
	at.advance(time.Hour)
	age(0)
}

// log/head covers what is on disk, once it is written.
func TestCheckpointOfAStore(t *testing.T) {
	r, agent, _ := cast(t)
	r.must(r.call(agent, "a", permit))
	r.s.records.mu.RLock()
	last := r.s.records.last
	r.s.records.mu.RUnlock()
	r.s.keeper.waitFor(last)
	r.clock.advance(time.Hour)
	if age := r.s.Observe().CheckpointAge; age != 0 {
		t.Errorf("the checkpoint covers everything, and its age is %v", age)
	}
}

func TestHistogramBounds(t *testing.T) {
	c := counted{bounds: []float64{1, 2, 4}, scale: 10}
	for _, n := range []uint64{0, 10, 11, 20, 40, 41, 1000} {
		c.add(n)
	}
	if h := c.read(); !slices.Equal(h.Counts, []uint64{2, 2, 1, 2}) || h.Sum != 112.2 {
		t.Errorf("%+v", h)
	}
}

// Whoever waits for a person is counted from the time of the call, also behind a restart, and until somebody answers.
func TestPendingAges(t *testing.T) {
	r, agent, boss := cast(t)
	wants := func(calls int, age time.Duration) {
		t.Helper()
		if o := r.s.Observe(); o.Pending != calls || o.PendingAge != age {
			t.Errorf("%d calls, the oldest for %v; want %d and %v", o.Pending, o.PendingAge, calls, age)
		}
	}
	wants(0, 0)
	first := r.deferred(agent, "one", waitsForN(2))
	r.clock.advance(time.Minute)
	second := r.deferred(agent, "two", sdk.Verdict{})
	wants(2, time.Minute)
	r.must(r.answer(boss, first, true)) // one of two
	wants(2, time.Minute)
	r.reopen()
	boss = r.s.Key(boss.ID)
	wants(2, time.Minute)
	r.must(r.answer(boss, first, false))
	wants(1, 0)
	r.must(r.answer(boss, second, true))
	wants(0, 0)

	var a ages
	a.begin()
	for _, created := range []int{5, 9, 7} {
		a.put(&Defer{Token: string(rune('a' + created)), Status: Pending, Created: time.Unix(int64(created), 0)})
	}
	var order []int64
	for call := range a.calls.Ascend(btreemap.Min[agedCall](), btreemap.Max[agedCall]()) {
		order = append(order, call.created/1e9)
	}
	if !slices.Equal(order, []int64{5, 7, 9}) {
		t.Errorf("in the order %v", order)
	}
}

// BenchmarkSeen is what counting costs the sequencer, with the two looks at the clock that it takes: it has to stay
// below 200 ns a batch.
func BenchmarkSeen(b *testing.B) {
	s, c := &seen{}, &log.Commit{Number: 1, Count: 64, Records: make([]byte, 64<<10)}
	s.begin()
	s.batch = 64
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		now := time.Now()
		s.synced(c, now.Sub(began)+3*time.Millisecond, now)
	}
}
