package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
)

// answerable is what a key may answer, worked out from all that there is.
type answerable struct {
	key   *Key
	agent string

	places []string
	tokens []string
}

func (c *answerable) class() class { return reading }

func (c *answerable) apply(tx *tx) error {
	var all []*Defer
	for _, d := range tx.st.live {
		if tx.st.doomed(d) == nil && !d.over(tx.times) && (c.agent == "" || d.AgentID == c.agent) &&
			tx.stands(d) == Pending && tx.mayAnswer(c.key, d) == nil {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b *Defer) int {
		if PendingPlace(a) < PendingPlace(b) {
			return -1
		}
		return 1
	})
	for _, d := range all {
		c.places, c.tokens = append(c.places, PendingPlace(d)), append(c.tokens, d.Token)
	}
	return nil
}

// TestPagesOfPendingCalls: whatever has happened, pages and their total are what a look at every call gives.
func TestPagesOfPendingCalls(t *testing.T) {
	for seed := range uint64(testkit.Rounds(100, 20)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t)
		if seed%2 == 0 { // what a kill has left stays for long
			r.must(inBatch(func(tx *tx) { tx.s.set.share, tx.s.set.shareEvery = 1, time.Hour }))
		}
		var askers, viewers []*Key
		for i := range 3 {
			askers = append(askers, r.key(fmt.Sprint("asker", i), []string{fmt.Sprint("a", i), "shared"}, "authorize"))
		}
		viewers = append(viewers, r.key("all", nil, "approve"), r.key("some", []string{"a1", "shared"}, "approve"),
			r.key("both", []string{"a2", "shared"}, "approve", "authorize"), r.key("boss", nil, "approve", "kill"))
		var tokens []string
		for range 120 {
			switch k := rng.IntN(10); {
			case k < 5:
				n := rng.IntN(3)
				c := r.call(askers[n], r.id("x"), sdk.Verdict{Effect: sdk.Defer})
				if c.AgentID = fmt.Sprint("a", n); rng.IntN(3) == 0 {
					c.AgentID = "shared"
				}
				c.Defer.TTL = time.Duration(1+rng.IntN(20)) * time.Minute
				r.must(c)
				tokens = append(tokens, c.Out.Token)
			case k < 8 && len(tokens) > 0:
				c := r.answer(viewers[rng.IntN(4)], tokens[rng.IntN(len(tokens))], rng.IntN(2) == 0)
				c.ApprovedTTL = time.Duration(1+rng.IntN(20)) * time.Minute
				_ = r.commit(c) // a refusal is as good
			case k == 8:
				r.clock.advance(time.Duration(rng.IntN(60)) * time.Second)
			case k == 9 && rng.IntN(2) == 0:
				kill := Kill{Scope: KillAgent, Target: []string{"a0", "a1", "a*", "shared"}[rng.IntN(4)], Reason: "why"}
				if rng.IntN(3) == 0 {
					kill.Scope, kill.Target = KillKey, fmt.Sprint("asker", rng.IntN(3))
				}
				for _, undo := range []bool{false, true} {
					r.must(&KillSwitch{Kill: kill, By: system, Undo: undo})
				}
			default:
				undo := rng.IntN(2) == 0
				_ = r.commit(&KillSwitch{Kill: Kill{Scope: KillKey, Target: viewers[rng.IntN(4)].ID, Reason: "why"},
					By: system, Undo: undo})
			}
			viewer, agent := viewers[rng.IntN(4)], []string{"", "", "shared", "a1"}[rng.IntN(4)]
			if err := samePages(r, viewer, agent, 1+rng.IntN(7)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

func samePages(r *rig, viewer *Key, agent string, most int) error {
	first := &ListPending{Key: viewer, Agent: agent, Most: most}
	r.s.FindPending(first) // before a batch ends what is over
	want := &answerable{key: viewer, agent: agent}
	r.must(want)
	if first.Out.Total != len(want.tokens) {
		return fmt.Errorf("at first %s sees %d in all, want %d", viewer.ID, first.Out.Total, len(want.tokens))
	}
	var got []string
	for after, more := "", true; more; {
		c := &ListPending{Key: viewer, Agent: agent, Most: most, After: after}
		r.s.FindPending(c)
		r.must(c)
		if c.Out.Total != len(want.tokens) {
			return fmt.Errorf("%s sees %d in all, want %d", viewer.ID, c.Out.Total, len(want.tokens))
		}
		for i := range c.Out.Calls {
			got, after = append(got, c.Out.Calls[i].Token), PendingPlace(&c.Out.Calls[i])
		}
		if more = c.Out.More; more && len(c.Out.Calls) != most {
			return fmt.Errorf("a page of %d has %d, and there are more", most, len(c.Out.Calls))
		}
	}
	if !slices.Equal(got, want.tokens) {
		return fmt.Errorf("%s sees %q, want %q", viewer.ID, got, want.tokens)
	}
	return nil
}

// TestPagesBesideChanges: lists are made while calls come and go.
func TestPagesBesideChanges(t *testing.T) {
	r := newRig(t)
	agent, boss := r.key("agent", nil, "authorize"), r.key("boss", nil, "approve")
	var all sync.WaitGroup
	for i := range 4 {
		var cmds []*Decide
		for range 100 {
			cmds = append(cmds, r.call(agent, fmt.Sprint(i, r.id("x")), sdk.Verdict{Effect: sdk.Defer}))
		}
		all.Go(func() {
			for n, c := range cmds {
				if err := r.commit(c); err != nil {
					t.Error(err)
				}
				if n%2 == 0 {
					if err := r.commit(r.answer(boss, c.Out.Token, false)); err != nil {
						t.Error(err)
					}
				}
			}
		})
		all.Go(func() {
			for range 200 {
				c := &ListPending{Key: boss, Most: 20}
				r.s.FindPending(c)
				if err := r.commit(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := samePages(r, boss, "", 50); err != nil {
		t.Error(err)
	}
}

// A page of very many waiting calls.
func BenchmarkPageOfMany(b *testing.B) {
	r := &rig{t: b, fs: vfs.NewMem(), clock: newClock(), seal: 8 << 20}
	r.open()
	r.waitingCalls(50_000)
	boss := r.key("boss", nil, "approve")
	for b.Loop() {
		c := &ListPending{Key: boss, Most: 50}
		r.s.FindPending(c)
		r.must(c)
		if c.Out.Total != 100_000 || len(c.Out.Calls) != 50 {
			b.Fatal(c.Out.Total)
		}
	}
	r.close()
}

// A start of a store in which very many calls wait.
func BenchmarkStartWithMany(b *testing.B) {
	r := &rig{t: b, fs: vfs.NewMem(), clock: newClock(), seal: 8 << 20}
	r.open()
	r.waitingCalls(50_000)
	for b.Loop() {
		b.StopTimer()
		if err := r.s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		r.open()
	}
	if err := r.s.Close(); err != nil {
		b.Fatal(err)
	}
}
