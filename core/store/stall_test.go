package store

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// stuck is a disk whose syncs wait while it is held.
type stuck struct {
	mu    sync.Mutex
	hold  chan struct{}
	begun chan struct{}
}

func (d *stuck) delay() {
	d.mu.Lock()
	hold, begun := d.hold, d.begun
	d.mu.Unlock()
	if hold != nil {
		begun <- struct{}{}
		<-hold
	}
}

func (d *stuck) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold, d.begun = make(chan struct{}), make(chan struct{}, 16)
}

// oneMore lets the sync that waits go on, and stops the next one.
func (d *stuck) oneMore() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.hold)
	d.hold, d.begun = make(chan struct{}), make(chan struct{}, 16)
}

func (d *stuck) goOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hold != nil {
		close(d.hold)
		d.hold = nil
	}
}

// A disk that hangs: who waits is refused at the stall limit, who comes later at once, and when it moves again the
// store does too and says in the log which records bind nobody.
func TestStalledDisk(t *testing.T) {
	disk, now := &stuck{}, newClock()
	set := settings(vfs.NewMem(), now, func(err error) { t.Errorf("fatal: %v", err) })
	// the stall limit is an hour: the watcher's ticker does not come in between
	set.Delay, set.Stall = disk.delay, time.Hour
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: now, s: s}
	agent, boss := r.key("agent", nil, "authorize"), r.key("boss", nil, "approve")
	token := r.deferred(agent, "held", sdk.Verdict{})
	yes := r.answer(boss, token, true)
	yes.ApprovedTTL = 24 * time.Hour
	r.must(yes)
	before := s.Seq()

	disk.stop()
	var wg sync.WaitGroup
	inFlight := []*Decide{r.call(agent, "a", sdk.Verdict{Effect: sdk.Permit}),
		r.redeem(agent, "held", token, sdk.Verdict{Effect: sdk.Defer})}
	errs := make([]error, 2)
	wg.Go(func() { errs[0] = s.Commit(context.Background(), inFlight[0]) })
	<-disk.begun
	wg.Go(func() { errs[1] = s.Commit(context.Background(), inFlight[1]) }) // waits behind it
	until(t, func() bool {
		s.seq.mu.Lock()
		defer s.seq.mu.Unlock()
		return s.seq.queue.len() > 0
	})
	if err := s.Healthy(); err != nil {
		t.Errorf("it is called stalled too early: %v", err)
	}
	s.seq.look(now.advance(time.Hour - 1))
	if err := s.Healthy(); err != nil {
		t.Errorf("a moment before the limit: %v", err)
	}
	s.seq.look(now.advance(1))
	wg.Wait() // nothing moves the disk: only the stall limit can end this
	for i, err := range errs {
		if codeOf(err) != sdk.CodeAuditUnavailable {
			t.Errorf("waiting %d: got %v", i, err)
		}
	}
	if s.Healthy() == nil {
		t.Error("a stalled store calls itself healthy")
	}
	r.refused(r.call(agent, "later", sdk.Verdict{Effect: sdk.Permit}), sdk.CodeAuditUnavailable)

	disk.goOn()
	healthyAgain(t, s)
	r.must(r.call(agent, "after", sdk.Verdict{Effect: sdk.Permit}))
	if got := r.status(agent, token); got != Approved {
		t.Errorf("the queued redemption was refused, and yet the approval is %s", got)
	}
	checkUnanswered(t, s, before, inFlight[0].ID)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A process that stood still as a whole, and a clock that was set, are no stall of the disk; a stall behind them is.
func TestPauseIsNoStall(t *testing.T) {
	for name, step := range map[string]time.Duration{"a stop, or a clock set ahead": 10 * time.Hour,
		"a clock set back": -10 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			disk, now := &stuck{}, newClock()
			set := settings(vfs.NewMem(), now, func(err error) { t.Errorf("fatal: %v", err) })
			set.Delay, set.Stall = disk.delay, time.Hour
			s, err := Open(set)
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t: t, clock: now, s: s}
			agent := r.key("agent", nil, "authorize")
			disk.stop()
			refused := make(chan error, 1)
			go func() { refused <- s.Commit(context.Background(), r.call(agent, "a", sdk.Verdict{Effect: sdk.Permit})) }()
			<-disk.begun
			last := now.Now()
			tick := func(d time.Duration) { last = s.seq.tick(last, now.advance(d)) }
			tick(step)
			for range looks - 4 {
				tick(time.Hour / looks)
			}
			if err := s.Healthy(); err != nil {
				t.Errorf("within the limit: %v", err)
			}
			for range 4 {
				tick(time.Hour / looks)
			}
			if err := <-refused; codeOf(err) != sdk.CodeAuditUnavailable {
				t.Errorf("behind the limit: %v", err)
			}
			disk.goOn()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A wait that began before the watcher saw the gap counts from where it saw it.
func TestStallBehindAPauseIsSeen(t *testing.T) {
	q := &sequencer{s: &Store{set: Settings{Stall: time.Hour}, clock: timekeeper{wall: time.Now}}}
	base := time.Now()
	q.origin = base
	now := base.Add(10 * time.Hour)
	q.since.Store(int64(q.awake(now)) + 1) // the process went on, and the sequencer was first
	last := q.tick(base, now)
	for range looks {
		last = q.tick(last, last.Add(time.Hour/looks))
	}
	if !q.stalled {
		t.Error("a stall was not seen for a pause before it")
	}
}

// checkUnanswered expects that the refused decision is in the log and that a mark names it.
func checkUnanswered(t *testing.T, s *Store, before uint64, id string) {
	t.Helper()
	rows, _, err := logOf(s)
	if err != nil {
		t.Fatal(err)
	}
	var landed uint64
	var marked []uint64
	for _, r := range rows[before:] {
		if r.DecisionID == id && r.Type == "decision" {
			landed = r.Seq
		}
		if r.Type == "unanswered" {
			marked = append(marked, r.Seqs...)
		}
	}
	if landed == 0 || !slices.Equal(marked, []uint64{landed}) {
		text, _ := json.Marshal(rows[before:])
		t.Errorf("the refused record is %d, marked are %v\n%s", landed, marked, text)
	}
}

// A store that closes while the mark is still owed writes it first.
func TestStallThenClose(t *testing.T) {
	disk, now := &stuck{}, newClock()
	set := settings(vfs.NewMem(), now, func(err error) { t.Errorf("fatal: %v", err) })
	set.Delay, set.Stall = disk.delay, time.Hour
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: now, s: s}
	agent := r.key("agent", nil, "authorize")
	before := s.Seq()
	disk.stop()
	c := r.call(agent, "a", sdk.Verdict{Effect: sdk.Permit})
	done := make(chan error)
	go func() { done <- s.Commit(context.Background(), c) }()
	<-disk.begun
	s.seq.look(now.advance(time.Hour))
	if err := <-done; codeOf(err) != sdk.CodeAuditUnavailable {
		t.Fatalf("got %v", err)
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	disk.goOn()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	set.Delay = nil
	if s, err = Open(set); err != nil {
		t.Fatal(err)
	}
	checkUnanswered(t, s, before, c.ID)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A kill that the disk did not take when it was asked for is in effect, is written when the disk goes on, and outlives
// a restart.
func TestKillIsWrittenBehindAStall(t *testing.T) {
	disk, now := &stuck{}, newClock()
	set := settings(vfs.NewMem(), now, func(err error) { t.Errorf("fatal: %v", err) })
	set.Delay, set.Stall = disk.delay, time.Hour
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: now, s: s}
	agent, boss := r.key("agent", nil, "authorize"), r.key("boss", nil, "kill")
	waits := r.deferred(agent, "asked", sdk.Verdict{})
	disk.stop()
	first := make(chan error, 1)
	go func() { first <- s.Commit(context.Background(), r.call(agent, "a", sdk.Verdict{Effect: sdk.Permit})) }()
	<-disk.begun
	k := Kill{Scope: KillAgent, Target: "*", By: boss.ID, At: now.Now()}
	held := s.Hold(k)
	killed := make(chan error, 1)
	go func() {
		killed <- s.Commit(context.Background(), &KillSwitch{Kill: k, Key: boss, By: Who{Principal: boss.ID}, Held: held})
	}()
	until(t, func() bool {
		s.seq.mu.Lock()
		defer s.seq.mu.Unlock()
		return s.seq.queue.len() > 0
	})
	s.seq.look(now.advance(time.Hour))
	if <-first; codeOf(<-killed) != sdk.CodeNotDurable {
		t.Fatal("the kill was answered while the disk stood still")
	}
	if s.Killed(agent, "a", "", "t") == nil {
		t.Error("it is not in effect")
	}
	disk.goOn()
	healthyAgain(t, s)
	if err := s.Commit(context.Background(), Barrier{boss}); err != nil {
		t.Fatal(err)
	}
	if got := r.status(agent, waits); got != Denied {
		t.Errorf("what waited is %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	set.Delay = nil
	if s, err = Open(set); err != nil {
		t.Fatal(err)
	}
	if len(s.Kills()) != 1 {
		t.Errorf("after a restart there are the kills %v", s.Kills())
	}
	rows, _, err := logOf(s)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, row := range rows {
		if row.Type == "kill" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d records of the kill", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
