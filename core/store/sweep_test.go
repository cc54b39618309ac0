package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// waitingCalls makes n calls of the key "agent" that wait for a day, for each of two agents.
func (r *rig) waitingCalls(n int) (tokens []string, agent *Key) {
	r.t.Helper()
	agent = r.key("agent", nil, "authorize")
	done := make(chan error)
	cmds := make(chan *Decide)
	for range 16 {
		go func() {
			for c := range cmds {
				if err := r.commit(c); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for i := range n {
		for _, name := range []string{"agent", "other"} {
			c := r.call(agent, fmt.Sprint(name, i), sdk.Verdict{Effect: sdk.Defer})
			c.AgentID, c.Defer.TTL, c.Limits.MaxPending = name, 24*time.Hour, 100_000
			r.clock.advance(time.Microsecond) // nobody asks at one instant
			cmds <- c
			if name == "agent" {
				tokens = append(tokens, c.Defer.Token)
			}
		}
	}
	close(cmds)
	for range 16 {
		if err := <-done; err != nil {
			r.t.Fatal(err)
		}
	}
	return tokens, agent
}

// denials counts what was denied for that reason.
func (r *rig) denials(why string) (n int) {
	for _, x := range r.takenIn(1, "defer_resolved") {
		if x.Status == Denied && x.Reason == why {
			n++
		}
	}
	return n
}

// swept waits until nothing is left to be denied.
func (r *rig) swept() {
	r.t.Helper()
	for left := true; left; {
		r.must(&Note{Type: "tick", By: system})
		left = false
		if err := r.s.scan(prefixSweep, func(_, _ []byte) error { left = true; return nil }); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestAKillDeniesInShares: many batches deny what waits; the answer comes with the first of them. An undo and a restart
// save nothing of the rest, and what was asked for later is left alone.
func TestAKillDeniesInShares(t *testing.T) {
	const calls = 12 * atOnce
	base := newCuttable()
	r := &rig{t: t, fs: base, clock: newClock(), seal: 1 << 20}
	r.open()
	tokens, agent := r.waitingCalls(calls)
	boss := r.key("boss", nil, "approve", "kill")
	r.clock.advance(time.Second)
	first := r.s.Seq()
	r.must(inBatch(func(tx *tx) { tx.s.set.shareEvery = time.Hour })) // however slow this machine is
	kill := &KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: by(boss)}
	r.must(kill)
	if kill.Denied != calls {
		t.Errorf("it says that it denied %d, want %d", kill.Denied, calls)
	}
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: by(boss), Undo: true})
	r.clock.advance(time.Second)
	ask := r.call(agent, "later", sdk.Verdict{Effect: sdk.Defer})
	ask.Limits.MaxPending = 100_000
	r.must(ask)
	later := ask.Out.Token
	at := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
	last := tokens[len(tokens)-1] // tokens are denied in order
	if got := codeOf(r.commit(r.answer(boss, last, true))); got != sdk.CodeAlreadyResolved {
		t.Errorf("an approval of what was killed: %q", got)
	}
	r.must(inBatch(func(tx *tx) {
		tx.s.set.shareEvery = 1
		tx.q.pace.wake.Reset(1)
	}))
	r.swept()
	if got := r.denials("killed"); got != calls {
		t.Errorf("%d were denied, want %d", got, calls)
	}
	if got := r.status(agent, later); got != Pending {
		t.Errorf("what was asked for after the undo is %s", got)
	}
	most := 0
	_, young := r.s.records.now()
	for _, c := range young {
		if c.First > first {
			most = max(most, int(c.Count))
		}
	}
	if most > atOnce+8 {
		t.Errorf("a batch has %d records", most)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
	r.close()
	r.fs = at // the power was cut behind the undo
	r.open()
	left := len(tokens) - r.denials("killed")
	if left < calls/4 {
		t.Errorf("only %d are left to be denied: the test shows nothing", left)
	}
	r.swept()
	if got := r.denials("killed"); got != calls {
		t.Errorf("after a restart %d were denied, want %d", got, calls)
	}
	if got := r.status(r.s.Key("agent"), later); got != Pending {
		t.Errorf("after a restart, what was asked for after the undo is %s", got)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
	r.close()
}

// TestWhatIsLeftToBeDenied: whoever comes to it finds it denied.
func TestWhatIsLeftToBeDenied(t *testing.T) {
	for name, look := range map[string]func(r *rig, agent, boss *Key, token string){
		"approve": func(r *rig, _, boss *Key, token string) {
			r.refused(r.answer(boss, token, true), sdk.CodeAlreadyResolved)
		},
		"status": func(r *rig, agent, _ *Key, token string) {
			if got := r.status(agent, token); got != Denied {
				r.t.Errorf("it is %s", got)
			}
		},
		"look": func(r *rig, _, boss *Key, token string) {
			r.refused(&LookAt{Token: token, Key: boss}, sdk.CodeAlreadyResolved)
		},
		"redeem": func(r *rig, agent, _ *Key, token string) {
			c := r.redeem(agent, "x", token, sdk.Verdict{Effect: sdk.Defer})
			r.must(c)
			if c.Out.Effect == sdk.Permit {
				r.t.Errorf("%+v", c.Out)
			}
		},
		"ask again": func(r *rig, agent, _ *Key, token string) {
			c := r.call(agent, "x", sdk.Verdict{Effect: sdk.Defer})
			r.must(c)
			if c.Out.Token == token {
				r.t.Errorf("it joins what is to be denied: %+v", c.Out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			agent, boss := r.key("agent", nil, "authorize"), r.key("boss", nil, "approve")
			token := r.deferred(agent, "x", sdk.Verdict{})
			if name == "redeem" {
				r.must(r.answer(boss, token, true))
			}
			at := r.clock.Now()
			r.clock.advance(time.Second)
			done := make(chan struct{})
			r.must(inBatch(func(tx *tx) { // as if a sweep had not come to it
				w := &sweep{Key: "agent", At: at, By: system, Why: "killed"}
				w.mark(tx.s, tx.st)
				w.left = nil
				close(done)
			}))
			<-done
			look(r, agent, boss, token)
			if got := r.denials("killed"); got != 1 {
				t.Errorf("denied %d times", got)
			}
		})
	}
}

// inBatch runs on the sequencer's goroutine.
type inBatch func(tx *tx)

func (f inBatch) apply(tx *tx) error { f(tx); return nil }
func (inBatch) class() class         { return reading }

// A kill of very many waiting calls, and what another caller waits for meanwhile.
func BenchmarkKillOfMany(b *testing.B) {
	r := &rig{t: b, fs: vfs.NewMem(), clock: newClock(), seal: 8 << 20}
	r.open()
	r.waitingCalls(100_000)
	boss := r.key("boss", nil, "kill")
	r.clock.advance(time.Second)
	worst := time.Duration(0)
	for b.Loop() {
		began := time.Now()
		r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: by(boss)})
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/kill")
		for left := true; left; {
			one := time.Now()
			if err := r.s.Commit(context.Background(), &Note{Type: "tick", By: system}); err != nil {
				b.Fatal(err)
			}
			worst = max(worst, time.Since(one))
			left = false
			if err := r.s.scan(prefixSweep, func(_, _ []byte) error { left = true; return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/all")
	}
	b.ReportMetric(float64(worst.Microseconds()), "µs/worst")
	r.close()
}

// TestCallsOfAKill: a kill denies the waiting calls that it covers, and no others.
func TestCallsOfAKill(t *testing.T) {
	names, root := []string{"", "a", "a/b", "a*", "*", "b", "k"}, &Key{ID: "k"}
	for _, scope := range []string{KillGlobal, KillKey, KillAgent, KillSession, KillTool} {
		for _, target := range names {
			k := &Kill{Scope: scope, Target: target}
			set := &killSet{all: map[killName]*Kill{{scope, target}: k}}
			set.sort(k)
			of := k.calls()
			for _, agent := range names {
				for _, session := range names {
					for _, tool := range names {
						d := asked{"k", agent, tool, &session}
						if want := set.covering("k", agent, session, tool) != nil; of(root, d) != want {
							t.Errorf("a kill of %s %q, a call of %q, %q, %q: want %v", scope, target, agent, session, tool, want)
						}
					}
				}
			}
		}
	}
}

// TestOneShareAtATime: what a kill, and what the time ends, is written in shares that lie apart, and other calls are
// answered between them, as if all had ended; without calls the shares come too.
func TestOneShareAtATime(t *testing.T) {
	const calls = 3*atOnce + 10
	for why, end := range map[string]func(r *rig){
		"killed": func(r *rig) {
			r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: system})
		},
		sdk.ReasonApprovalTimeout: func(r *rig) {
			r.clock.advance(25 * time.Hour)
			r.must(&Note{Type: "tick", By: system})
		},
	} {
		t.Run(why, func(t *testing.T) {
			r := newRig(t)
			r.must(inBatch(func(tx *tx) { tx.s.set.shareEvery = time.Hour }))
			tokens, agent := r.waitingCalls(calls)
			r.clock.advance(time.Second)
			was := r.s.Seq()
			end(r)
			for range 5 {
				r.must(&Note{Type: "tick", By: system})
			}
			if n := r.s.Seq() - was; n > atOnce+8 {
				t.Errorf("%d records were written at once", n)
			}
			want := map[string]string{"killed": Denied}[why]
			if want == "" {
				want = Expired
			}
			if got := r.status(agent, tokens[len(tokens)-1]); got != want {
				t.Errorf("the last one is %s, want %s", got, want)
			}
			grown := make(chan struct{}, 1)
			defer r.s.Follow(grown)()
			r.must(inBatch(func(tx *tx) {
				tx.s.set.shareEvery = 1
				tx.q.pace.wake.Reset(1)
			}))
			for r.s.Seq()-was < calls { // only a defect lets this wait for ever: nobody commits anything
				<-grown
			}
		})
	}
}

// endings are how what an agent waits for ends, and more than a share of it has no record yet.
var endings = map[string]func(r *rig){
	"killed": func(r *rig) {
		r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: system})
		r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system, Undo: true})
	},
	"expired": func(r *rig) {
		r.clock.advance(25 * time.Hour)
		r.must(&Note{Type: "tick", By: system})
		r.clock.advance(25 * time.Hour)
	},
}

// TestARestRefusesNoCall: what a key waited for, and has ended but for its record, does not count against its limit.
func TestARestRefusesNoCall(t *testing.T) {
	for why, end := range endings {
		t.Run(why, func(t *testing.T) {
			r := newRig(t)
			r.must(inBatch(func(tx *tx) { tx.s.set.shareEvery = time.Hour }))
			r.waitingCalls(3*atOnce + 10)
			k := r.key("k", nil, "authorize")
			ask := func(args string) string {
				c := r.call(k, args, sdk.Verdict{Effect: sdk.Defer})
				c.Limits.MaxPending, c.Defer.TTL = 1, 26*time.Hour
				r.must(c)
				return c.Out.Code
			}
			if first, second := ask("one"), ask("two"); first != "RULE_DEFER" || second != sdk.ReasonRateExceeded {
				t.Fatal(first, second)
			}
			end(r)
			if got := ask("three"); got != "RULE_DEFER" {
				t.Errorf("a call when the first has ended: %s", got)
			}
		})
	}
}

// TestARestRefusesNoCallBesideApprovedOnes: approved calls count against no limit, and are not ended for it.
func TestARestRefusesNoCallBesideApprovedOnes(t *testing.T) {
	r := newRig(t)
	r.must(inBatch(func(tx *tx) { tx.s.set.shareEvery = time.Hour }))
	r.waitingCalls(3*atOnce + 10)
	k, boss := r.key("k", nil, "authorize"), r.key("boss", nil, "approve")
	ask := func(args string, most int) *Decide {
		c := r.call(k, args, sdk.Verdict{Effect: sdk.Defer})
		c.Limits.MaxPending, c.Defer.TTL = most, 26*time.Hour
		r.must(c)
		return c
	}
	if got := ask("one", 1); got.Out.Code != "RULE_DEFER" {
		t.Fatal(got.Out)
	}
	for i := range 3 * atOnce {
		c := ask(fmt.Sprint("approved", i), 2)
		r.must(r.answer(boss, c.Out.Token, true))
	}
	r.clock.advance(time.Second)
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: system})
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system, Undo: true})
	if got := ask("three", 1).Out; got.Code != "RULE_DEFER" {
		t.Errorf("all of the key is denied, and it is refused a call: %s %s", got.Code, got.Reason)
	}
}

// TestARestRefusesNoCallOfMany: nor where more than a share of a key's calls come at once.
func TestARestRefusesNoCallOfMany(t *testing.T) {
	for why, end := range endings {
		t.Run(why, func(t *testing.T) {
			r := newRig(t)
			r.must(inBatch(func(tx *tx) { tx.s.set.shareEvery = time.Hour }))
			r.waitingCalls(3*atOnce + 10)
			k := r.key("k", nil, "authorize")
			const most = 100
			ask := func(args string) *Decide {
				c := r.call(k, args, sdk.Verdict{Effect: sdk.Defer})
				c.Limits.MaxPending, c.Defer.TTL = most, 26*time.Hour
				return c
			}
			for i := range most {
				r.must(ask(fmt.Sprint("old", i)))
			}
			r.clock.advance(time.Second)
			end(r)
			cmds, refused := []*Decide{}, 0
			for i := range 50 {
				cmds = append(cmds, ask(fmt.Sprint("new", i)))
			}
			r.must(inBatch(func(tx *tx) { // as if all had come into one batch
				was := tx.ticket
				for _, c := range cmds {
					tx.ticket = &ticket{}
					if err := c.apply(tx); err != nil {
						t.Error(err)
					}
					if c.Out.Code == sdk.ReasonRateExceeded {
						refused++
					}
				}
				tx.ticket = was
			}))
			if refused > 0 {
				t.Errorf("%d of 50 calls were refused, although nothing of the key waits", refused)
			}
		})
	}
}

// TestSharesComeAgainWithRoom: a sweep that the disk has no room for is not forgotten. The watcher asks for it again,
// also where room comes back that is less than what is to stay free, and which nothing else is told of.
func TestSharesComeAgainWithRoom(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	for r.s.room.ballast.drop() { // a seal would make room with it, whenever it comes
	}
	r.must(inBatch(func(tx *tx) { tx.s.set.shareEvery = time.Hour }))
	r.waitingCalls(4 * atOnce)
	r.must(r.kill("agent", false))
	r.clock.advance(time.Second)
	r.leave(batchNeeds / 2)
	behind := func() bool {
		for range 2 { // a batch notes what it has left once it has answered
			r.must(inBatch(func(*tx) {}))
		}
		r.s.seq.mu.Lock()
		defer r.s.seq.mu.Unlock()
		return r.s.seq.behind
	}
	if !behind() {
		t.Error("the watcher does not know that something is left")
	}
	r.clock.advance(time.Second)
	r.leave(8 * mib)
	if behind() {
		t.Error("the watcher asks although there is room")
	}
	q := &sequencer{s: &Store{set: Settings{Stall: time.Hour}, clock: timekeeper{wall: time.Now}}, behind: true,
		wake: make(chan struct{}, 1)}
	if q.look(time.Now()); len(q.wake) == 0 {
		t.Error("the watcher does not ask")
	}
}

// TestARepeatedRevokeOfAKeyIsInHead: who is told that a key is revoked is told what no start can lose.
func TestARepeatedRevokeOfAKeyIsInHead(t *testing.T) {
	r := newRig(t)
	r.key("agent", nil, "authorize")
	r.must(&RevokeKey{ID: "agent", By: system})
	r.must(inBatch(func(tx *tx) {
		was := tx.ticket
		tx.ticket = &ticket{}
		err := (&RevokeKey{ID: "agent", By: system}).apply(tx)
		if codeOf(err) != sdk.CodeConflict || tx.ticket.anchor == 0 {
			t.Errorf("%v, and log/head need not know", err)
		}
		tx.ticket = was
	}))
}

// TestListsBesideAKill: what a kill covers is denied for everybody from its answer on, also in lists, which are made
// beside the sequencer: before its denial is written, while it is, and after a start.
func TestListsBesideAKill(t *testing.T) {
	const calls = 5
	for name, kill := range map[string]func(r *rig){
		"of the agent": func(r *rig) {
			r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: system})
		},
		"of the session, undone": func(r *rig) {
			for _, undo := range []bool{false, true} {
				r.must(&KillSwitch{Kill: Kill{Scope: KillSession, Target: "s", Reason: "why"}, By: system, Undo: undo})
			}
		},
		"a revocation": func(r *rig) { r.must(&RevokeKey{ID: "agent", By: system}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.must(inBatch(func(tx *tx) { tx.s.set.share, tx.s.set.shareEvery = 1, time.Hour }))
			agent, other := r.key("agent", nil, "authorize"), r.key("other", nil, "authorize")
			boss := r.key("boss", nil, "approve")
			of := map[string]string{}
			ask := func(k *Key, name string) string {
				c := r.submitted(k, r.id("x"), sdk.Verdict{Effect: sdk.Defer})
				c.AgentID, c.SessionID = name, map[string]string{"agent": "s"}[name]
				r.must(c)
				of[made(c).ID] = name
				return c.Out.Token
			}
			last := ""
			for range calls + 1 {
				last = ask(agent, "agent")
			}
			waits := ask(other, "other")
			kill(r)
			look := func(when string, left int) {
				t.Helper()
				page, _, err := r.s.Actions(t.Context(), &ActionQuery{Limit: 100, Sees: func(string) bool { return true }})
				if err != nil || len(page) != len(of) {
					t.Fatalf("%s: %d actions, want %d: %v", when, len(page), len(of), err)
				}
				for _, a := range page {
					if want := map[string]string{"agent": ActionDenied, "other": ActionPending}[of[a.ID]]; a.Status != want {
						t.Errorf("%s: an action of %s is %s in the list, want %s", when, of[a.ID], a.Status, want)
					} else if want == ActionDenied && a.Reason != "killed" && a.Reason != "the asking key was revoked" {
						t.Errorf("%s: an action was denied for %q", when, a.Reason)
					}
				}
				l := &ListPending{Key: boss, Most: 1}
				r.s.FindPending(l)
				r.must(l)
				if l.Out.Total != 1 || l.Out.More || len(l.Out.Calls) != 1 || l.Out.Calls[0].Token != waits {
					t.Errorf("%s: a page of %d of %d, more: %v", when, len(l.Out.Calls), l.Out.Total, l.Out.More)
				}
				n := 0
				r.must(inBatch(func(tx *tx) {
					for _, d := range tx.st.live {
						if tx.st.doomed(d) != nil {
							n++
						}
					}
				}))
				if n != left {
					t.Errorf("%s: %d are left to be denied, want %d: the test shows nothing", when, n, left)
				}
			}
			look("after the kill", calls)
			if got := r.status(boss, last); got != Denied {
				t.Errorf("the last one is %s", got)
			}
			look("when one was asked for", calls-1)
			r.must(inBatch(func(tx *tx) {
				for len(tx.st.sweeps) > 0 {
					tx.sweep()
				}
				if tx.s.open.left.Load() == nil {
					t.Error("lists look no more for what is to be denied, and it is not on disk")
				}
			}))
			look("at the end", 0)
			if r.s.open.left.Load() != nil {
				t.Error("lists still look for what is to be denied")
			}
		})
	}
}

// TestWhoWaitsIsToldOfAKillFirst: the first share of a kill is of the calls that somebody polls.
func TestWhoWaitsIsToldOfAKillFirst(t *testing.T) {
	r := newRig(t)
	r.must(inBatch(func(tx *tx) { tx.s.set.share, tx.s.set.shareEvery = 1, time.Hour }))
	tokens, agent := r.waitingCalls(5)
	poll := &DeferStatus{Token: tokens[3], Key: agent, Watch: true}
	r.must(poll)
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: system})
	select {
	case <-poll.Changed:
	default:
		t.Error("nothing is said to the one who waits for an answer")
	}
}
