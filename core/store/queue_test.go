package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

func newQueue() *queue { return &queue{of: map[string]int{}, last: map[string]uint64{}} }

var roomy = &Settings{QueuedPerKey: 1 << 40, Queued: 1 << 40}

// large adds n tickets of that key, and fails when one is refused.
func (q *queue) large(t *testing.T, owner string, n, bytes int) (made []*ticket) {
	t.Helper()
	for range n {
		tk := &ticket{owner: owner, bytes: bytes}
		if err := q.add(tk, roomy); err != nil {
			t.Fatal(err)
		}
		made = append(made, tk)
	}
	return made
}

func weightOf(batch []*ticket) (sum int, of map[string]int) {
	of = map[string]int{}
	for _, t := range batch {
		sum += t.bytes
		of[t.owner]++
	}
	return sum, of
}

// However much one key has waiting, a call of another one is in the next batch, and a batch stays within its bytes.
func TestQueueSharesBatches(t *testing.T) {
	q := newQueue()
	q.large(t, "greedy", 200, 877<<10)
	q.large(t, "modest", 3, 1<<10)
	q.large(t, "", 1, 1<<10)
	batch := q.next(nil)
	sum, of := weightOf(batch)
	if of["modest"] != 3 || of[""] != 1 || of["greedy"] == 0 || sum > batchBytes {
		t.Errorf("%d bytes of %v", sum, of)
	}
	for left := 200 - of["greedy"]; left > 0; {
		q.large(t, "modest", 1, 1<<10)
		sum, of := weightOf(q.next(nil))
		if of["modest"] != 1 || of["greedy"] == 0 || sum > batchBytes {
			t.Fatalf("%d bytes of %v, %d left", sum, of, left)
		}
		left -= of["greedy"]
	}
	if q.len() != 0 || q.bytes != 0 || len(q.of) != 0 || len(q.last) != 0 {
		t.Errorf("left behind: %+v", q)
	}
}

// More keys than one batch has room for: all of them get their turn before anybody gets two.
func TestQueueTakesTurns(t *testing.T) {
	q := newQueue()
	const keys, each = 20, 3
	for i := range keys {
		q.large(t, fmt.Sprint("key ", i), each, 1<<20)
	}
	got := map[string]int{}
	for q.len() > 0 {
		_, of := weightOf(q.next(nil))
		most, least := 0, each
		for owner, n := range of {
			got[owner] += n
		}
		for i := range keys {
			n := got[fmt.Sprint("key ", i)]
			most, least = max(most, n), min(least, n)
		}
		if most-least > 1 {
			t.Fatalf("unequal turns: %v", got)
		}
	}
}

// One record that is larger than a batch is written all the same.
func TestQueueTakesWhatIsLargerThanABatch(t *testing.T) {
	q := newQueue()
	q.large(t, "a", 2, 3*batchBytes)
	for range 2 {
		if batch := q.next(nil); len(batch) != 1 {
			t.Fatalf("%d in a batch", len(batch))
		}
	}
}

func TestQueueKeepsOrder(t *testing.T) {
	for _, bytes := range []int{100, 300 << 10} { // with room and without
		q := newQueue()
		want := q.large(t, "a", 20, bytes)
		var got []*ticket
		for q.len() > 0 {
			got = append(got, q.next(nil)...)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%d bytes each: number %d is another one", bytes, i)
			}
		}
	}
}

func TestQueueIsBounded(t *testing.T) {
	q, set := newQueue(), &Settings{QueuedPerKey: 100, Queued: 250}
	add := func(owner string, bytes int) sdk.Code { return codeOf(q.add(&ticket{owner: owner, bytes: bytes}, set)) }
	for _, c := range []struct {
		owner string
		bytes int
		want  sdk.Code
	}{
		{"a", 60, ""}, {"a", 41, sdk.CodeTooManyRequests}, {"a", 40, ""}, {"a", 1, sdk.CodeTooManyRequests},
		{"b", 140, ""}, // more than its share, but it has nothing else waiting
		{"c", 11, sdk.CodeTooManyRequests}, {"c", 10, ""},
		{"", 1000, ""}, // the gateway's own
	} {
		if got := add(c.owner, c.bytes); got != c.want {
			t.Errorf("%s, %d bytes: %q, want %q", c.owner, c.bytes, got, c.want)
		}
	}
	if err := q.add(&ticket{owner: "a", bytes: 1, urgent: true}, set); err != nil {
		t.Errorf("a kill: %v", err)
	}
}

// A kill and a revocation are in the next batch, whatever waits.
func TestKillGoesFirst(t *testing.T) {
	s, g := openGated(t)
	k, other := newKey(t, s, "k", "authorize"), newKey(t, s, "other", "authorize")
	before, after := ask(k, "before", sdk.Permit), ask(other, "other", sdk.Permit)
	kill := &KillSwitch{Kill: Kill{Scope: KillKey, Target: "k"}, By: system}
	errs := g.together(t, s, before, after, &RevokeKey{ID: "other", By: system}, kill)
	if errs[0] != nil || errs[2] != nil || errs[3] != nil {
		t.Fatal(errs)
	}
	if before.Out.Code != sdk.ReasonKillSwitch || codeOf(errs[1]) != sdk.CodeKeyRevoked {
		t.Errorf("%+v, %v", before.Out, errs[1])
	}
}

// One key that floods the store with large records: others are answered, and the flood is told to slow down.
func TestFloodOfOneKey(t *testing.T) {
	g := &gate{}
	set := settings(vfs.NewMem(), newClock(), func(err error) { t.Errorf("fatal: %v", err) })
	set.Delay, set.QueuedPerKey = g.delay, 8<<20
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	greedy, modest := newKey(t, s, "greedy", "authorize"), newKey(t, s, "modest", "authorize")
	g.mu.Lock()
	g.hold, g.held = make(chan struct{}), make(chan struct{}, 1)
	g.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Commit(context.Background(), &Note{Type: "tick", By: system}) })
	<-g.held
	var mu sync.Mutex
	codes := map[sdk.Code]int{}
	for i := range 16 {
		c := ask(greedy, fmt.Sprint("large ", i), sdk.Permit)
		c.Record.Args = make([]byte, 877<<10)
		copy(c.Record.Args, `"`)
		for j := 1; j < len(c.Record.Args); j++ {
			c.Record.Args[j] = 'x'
		}
		c.Record.Args[len(c.Record.Args)-1] = '"'
		wg.Go(func() {
			code := codeOf(s.Commit(context.Background(), c))
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	waits := func(n int) {
		until(t, func() bool {
			s.seq.mu.Lock()
			queued := s.seq.queue.len()
			s.seq.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			return queued+codes[sdk.CodeTooManyRequests] >= n
		})
	}
	waits(16)
	one := ask(modest, "small", sdk.Permit)
	wg.Go(func() {
		if err := s.Commit(context.Background(), one); err != nil {
			t.Error(err)
		}
	})
	waits(17)
	g.mu.Lock()
	close(g.hold)
	g.hold = nil
	g.mu.Unlock()
	wg.Wait()
	if one.Out.Effect != sdk.Permit || codes[""] != 9 || codes[sdk.CodeTooManyRequests] != 7 {
		t.Errorf("%+v, %v", one.Out, codes)
	}
	var at uint64
	if err := s.Records(1, func(seq uint64, rec []byte) error {
		if at == 0 && len(rec) < 2000 && bytes.Contains(rec, []byte(one.ID)) {
			at = seq
		}
		return nil
	}); err != nil || at == 0 || at > 3+1+5 {
		t.Errorf("the small one is record %d: %v", at, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// slow is a command that keeps the processor busy for longer than any disk may take.
type slow struct {
	clock *clock
	look  func(now time.Time)
}

func (c *slow) apply(*tx) error { c.look(c.clock.advance(time.Hour)); return nil }
func (c *slow) class() class    { return reading }

// Processor time and waiting for one's turn are no stall of the disk.
func TestBusyIsNotStalled(t *testing.T) {
	disk, now := &stuck{}, newClock()
	set := settings(vfs.NewMem(), now, func(err error) { t.Errorf("fatal: %v", err) })
	set.Delay = disk.delay
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: now, s: s}
	r.must(&slow{now, s.seq.look})
	if err := s.Healthy(); err != nil {
		t.Errorf("after an hour of work: %v", err)
	}
	disk.stop()
	done := make(chan error)
	go func() { done <- s.Commit(context.Background(), &Note{Type: "tick", By: system}) }()
	<-disk.begun
	s.seq.look(now.advance(time.Hour))
	if err := <-done; codeOf(err) != sdk.CodeAuditUnavailable {
		t.Errorf("a disk that stands still: %v", err)
	}
	disk.goOn()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
