package ops_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// plantedRounds is how many rounds a planted bug has to show itself. They end with the first in which it does.
const plantedRounds = 2_000

// yield lets other clients go on, so that what lies between looking and doing is wide enough to fall into.
func yield() {
	for range 100 {
		runtime.Gosched()
	}
}

// readThenWrite counts the uses of grants itself: it reads, and then writes. Without the gap nothing comes between.
type readThenWrite struct {
	ops.Store
	gap  bool
	mu   sync.Mutex
	uses map[string]uint64
}

func (s *readThenWrite) Commit(ctx context.Context, cmd store.Command) error {
	d, ok := cmd.(*store.Decide)
	if !ok || len(d.Grants) == 0 {
		return s.Store.Commit(ctx, cmd)
	}
	g := d.Grants[0]
	d.Grants = nil
	s.mu.Lock()
	n := s.uses[g.ID]
	if s.gap {
		s.mu.Unlock()
		yield()
		s.mu.Lock()
	}
	if g.Revocation() == nil && (g.MaxUses == 0 || n < g.MaxUses) {
		s.uses[g.ID] = n + 1
		d.Policy.Verdict = sdk.Verdict{Effect: sdk.Permit, Code: sdk.ReasonStandingConsumed}
	}
	s.mu.Unlock()
	return s.Store.Commit(ctx, cmd)
}

func TestHistoriesCatchAReadThenWriteCounter(t *testing.T) {
	counted := func(gap bool) (*world, func(*world)) {
		w := newWorld(t, func(s ops.Store) ops.Store { return &readThenWrite{Store: s, gap: gap, uses: map[string]uint64{}} })
		w.noLoss, w.noReads = true, true // it knows nothing of repeats, and lists show what it does not count
		return w, grantRound(newPeople(w))
	}
	w, round := counted(false)
	requireOrder(t, w, 6, grantSpec, round, "spend PERMIT", "spend DEFER")
	w, round = counted(true)
	requireNoOrder(t, w, plantedRounds, grantSpec, round)
}

func TestHistoriesCatchAStaleKeyCache(t *testing.T) {
	requireNoOrder(t, newWorld(t, func(s ops.Store) ops.Store { return &staleCache{Store: s} }), plantedRounds, keySpec,
		keyRound)
}

// everybodyWins is a store that takes every answer to a deferred call as the one that counts.
type everybodyWins struct{ ops.Store }

func (s everybodyWins) Commit(ctx context.Context, cmd store.Command) error {
	err := s.Store.Commit(ctx, cmd)
	if a, ok := cmd.(*store.Approve); ok && code(err) == "already_resolved" {
		a.Out.Status = map[bool]string{true: store.Approved, false: store.Denied}[a.Yes]
		return nil
	}
	return err
}

func TestHistoriesCatchADoubleWinner(t *testing.T) {
	w := newWorld(t, func(s ops.Store) ops.Store { return everybodyWins{s} })
	requireNoOrder(t, w, plantedRounds, deferSpec, deferRound(newPeople(w)))
}

func TestHistoriesCatchASecondRedemption(t *testing.T) {
	w := newWorld(t, func(s ops.Store) ops.Store { return &twice{Store: s, spent: map[string]store.Decision{}} })
	requireNoOrder(t, w, plantedRounds, deferSpec, deferRound(newPeople(w)))
}

// anyAgent is a store that binds an approval to everything but the agent that asked.
type anyAgent struct {
	ops.Store
	mu    sync.Mutex
	asked map[string]store.Call
}

func (s *anyAgent) Commit(ctx context.Context, cmd store.Command) error {
	d, ok := cmd.(*store.Decide)
	if !ok {
		return s.Store.Commit(ctx, cmd)
	}
	s.mu.Lock()
	was, known := s.asked[d.Redeem.Token]
	s.mu.Unlock()
	if known && was.Key == d.Key && was.SessionID == d.SessionID && was.ToolID == d.ToolID && was.ArgsHash == d.ArgsHash {
		d.AgentID, d.Digest = was.AgentID, was.Digest
	}
	err := s.Store.Commit(ctx, cmd)
	if err == nil && d.Redeem.Token == "" && d.Out.Token != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[d.Out.Token] = d.Call
	}
	return err
}

func TestHistoriesCatchARedemptionByAnotherAgent(t *testing.T) {
	w := newWorld(t, func(s ops.Store) ops.Store { return &anyAgent{Store: s, asked: map[string]store.Call{}} })
	requireNoOrder(t, w, plantedRounds, deferSpec, deferRound(newPeople(w)))
}

// longChain lets time go by between the first look for a kill and the commit, longer than a kill waits for requests in
// flight. Unless looks is set, no kill is looked at in commits: the first look has to do.
type longChain struct {
	ops.Store
	w     *world
	looks bool
}

func (s *longChain) Commit(ctx context.Context, cmd store.Command) error {
	if d, ok := cmd.(*store.Decide); ok && d.Policy.Verdict.Effect == sdk.Permit {
		yield()
		if part, ok := s.w.commits.Load(d.CallID); ok {
			s.w.held.hold(part.(string))
		}
		s.w.commits.Store(d.CallID, s.w.h.tick.now())
		if !s.looks {
			d.AgentID, d.SessionID, d.ToolID = "nobody", "nothing", "nowhere"
		}
	}
	return s.Store.Commit(ctx, cmd)
}

// With long chains a permit is that of its commit: what a kill that had returned by then covers is not permitted.
func TestHistoriesCatchAKillThatCommitDoesNotLookAt(t *testing.T) {
	slow := func(looks bool) *world {
		s := &longChain{looks: looks}
		s.w = newWorld(t, func(st ops.Store) ops.Store { s.Store = st; return s })
		s.w.commits = &sync.Map{}
		return s.w
	}
	w := slow(true)
	requireOrder(t, w, 6, killSpec, killRound(newPeople(w)), "use PERMIT TEST", "use DENY KILL_SWITCH_ACTIVE")
	w = slow(false)
	w.held = newKills()
	requireNoOrder(t, w, plantedRounds, killSpec, killRound(newPeople(w)))
}

// A kill returns only when requests in flight have been answered. Here they do not say that they are in flight.
func TestHistoriesCatchAPermitThatIsSentLate(t *testing.T) {
	w := newWorld(t)
	w.unsaid, w.held = true, newKills()
	requireNoOrder(t, w, plantedRounds, killSpec, killRound(newPeople(w)))
}

// lateYes is a store in which an approval that comes after the expiry still counts.
type lateYes struct{ ops.Store }

func (s lateYes) Commit(ctx context.Context, cmd store.Command) error {
	err := s.Store.Commit(ctx, cmd)
	if a, ok := cmd.(*store.Approve); ok && a.Yes && code(err) == "defer_expired" {
		a.Out.Status = store.Approved
		return nil
	}
	return err
}

func TestHistoriesCatchAnExpiryThatLosesToALateApproval(t *testing.T) {
	w := newWorld(t, func(s ops.Store) ops.Store { return lateYes{s} })
	requireNoOrder(t, w, plantedRounds, deferSpec, deferRound(newPeople(w)))
}
