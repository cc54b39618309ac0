package store

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

var (
	permit    = sdk.Verdict{Effect: sdk.Permit}
	deny      = sdk.Verdict{Effect: sdk.Deny}
	waits     = sdk.Verdict{Effect: sdk.Defer}
	waitsForN = func(n int) sdk.Verdict { return sdk.Verdict{Effect: sdk.Defer, Approvals: n} }
)

// outcome commits a decision and gives its effect and reason code.
func (r *rig) outcome(c *Decide) string {
	r.t.Helper()
	r.must(c)
	return c.Out.Effect.String() + " " + c.Out.Code
}

func (r *rig) wants(c *Decide, want string) {
	r.t.Helper()
	if got := r.outcome(c); got != want {
		r.t.Errorf("got %s (%s), want %s", got, c.Out.Reason, want)
	}
}

const (
	consumed = "PERMIT APPROVAL_CONSUMED"
	mismatch = "DENY APPROVAL_MISMATCH"
)

// cast is who takes part in most of these stories.
func cast(t testing.TB) (r *rig, agent, boss *Key) {
	r = newRig(t)
	return r, r.key("agent", nil, "authorize", "scan"), r.key("boss", nil, "approve")
}

func (r *rig) approved(agent, boss *Key, args string) string {
	r.t.Helper()
	token := r.deferred(agent, args, waits)
	r.must(r.answer(boss, token, true))
	return token
}

func TestRedeemMismatch(t *testing.T) {
	r, agent, boss := cast(t)
	other := r.key("other", nil, "authorize")
	type change = func(c *Decide)
	for _, c := range []struct {
		name   string
		before func(token string)
		change change
		want   string
	}{
		{"the same call", nil, nil, consumed},
		{"chain permits today", nil, func(c *Decide) { c.Policy.Verdict = sdk.Verdict{Effect: sdk.Permit, Code: "X"} }, consumed},
		{"other key", nil, func(c *Decide) { c.Key = other }, mismatch},
		{"other agent", nil, func(c *Decide) { c.AgentID = "someone" }, mismatch},
		{"other session", nil, func(c *Decide) { c.SessionID = "another" }, mismatch},
		{"other args", nil, func(c *Decide) { c.Digest[31]++ }, mismatch},
		{"other token", nil, func(c *Decide) { c.Redeem.Token += "x" }, mismatch},
		{"other token, chain permits", nil, func(c *Decide) { c.Redeem.Token, c.Policy.Verdict = "x", sdk.Verdict{Effect: sdk.Permit, Code: "X"} }, mismatch},
		{"chain denies today", nil, func(c *Decide) { c.Policy.Verdict = sdk.Verdict{Effect: sdk.Deny, Code: "NO"} }, "DENY NO"},
		{"chain denies, other args", nil, func(c *Decide) { c.Policy.Verdict, c.Digest[31] = sdk.Verdict{Effect: sdk.Deny, Code: "NO"}, 9 }, "DENY NO"},
		{"used", func(token string) { r.wants(r.redeem(agent, "used", token, waits), consumed) }, nil, mismatch},
		{"expired", func(string) { r.clock.advance(5 * time.Minute) }, nil, mismatch},
		{"a moment before it expires", func(string) { r.clock.advance(5*time.Minute - 1) }, nil, consumed},
		{"dry run", nil, func(c *Decide) { c.DryRun = true }, "DEFER RULE_DEFER"},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := r.approved(agent, boss, c.name)
			if c.before != nil {
				c.before(token)
			}
			d := r.redeem(agent, c.name, token, waits)
			if c.change != nil {
				c.change(d)
			}
			if got := r.outcome(d); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if c.want == mismatch && c.before == nil || c.want == "DENY NO" || d.DryRun { // what failed has spent nothing
				if got := r.outcome(r.redeem(agent, c.name, token, waits)); got != consumed {
					t.Errorf("afterwards: %s", got)
				}
			}
		})
	}
	for _, c := range []struct {
		name string
		end  func(token string)
	}{{"pending", func(string) {}}, {"denied", func(token string) { r.must(r.answer(boss, token, false)) }}} {
		token := r.deferred(agent, c.name, waits)
		c.end(token)
		r.wants(r.redeem(agent, c.name, token, waits), mismatch)
		r.wants(r.redeem(agent, c.name, token, permit), mismatch)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// hashed is what the operations make of a call_id.
func hashed(k *Key, agent, call string) (out [16]byte) {
	sum := sha256.Sum256([]byte(k.ID + "|" + agent + "|" + call))
	copy(out[:], sum[:])
	return out
}

// named is a call with that call_id of its own, of that agent.
func (r *rig) named(k *Key, agent, call, args string, v sdk.Verdict) *Decide {
	c := r.call(k, agent+args, v)
	c.AgentID, c.CallID, c.Names.Hashes = agent, call, [][16]byte{hashed(k, agent, call)}
	if stem, ok := strings.CutSuffix(call, "-resume"); ok {
		c.Redeem.CallID, c.Redeem.CallHash = stem, hashed(k, agent, stem)
	}
	return c
}

func TestResumeForm(t *testing.T) {
	r, agent, boss := cast(t)
	ask := func(call, args string) *Decide { return r.named(agent, "agent", call, args, waits) }
	first := ask("my-call", "refund")
	r.wants(first, "DEFER RULE_DEFER")
	joined := ask("joined", "refund")
	r.wants(joined, "DEFER RULE_DEFER")
	r.wants(ask("my-call-resume", "refund"), mismatch) // still pending
	r.must(r.answer(boss, first.Out.Token, true))
	r.wants(ask("my-call-resume", "another"), mismatch)
	r.reopen()
	agent = r.s.Key("agent")
	r.wants(ask("joined-resume", "refund"), consumed) // who joined was deferred, too
	for range 2 {
		r.wants(ask("my-call-resume", "refund"), mismatch)
	}
	made := ask("", "payment")
	made.CallID, made.Names.Hashes, made.Names.Made = "call_made", nil, hashed(agent, "agent", "call_made")
	r.wants(made, "DEFER RULE_DEFER")
	r.must(r.answer(boss, made.Out.Token, true))
	r.wants(ask("call_made-resume", "payment"), consumed)
	r.wants(ask("call_made-resume", "payment"), mismatch)
}

// A call_id that merely ends in -resume redeems nothing, and is repeated like any other.
func TestResumeIsACallIDLikeAnyOther(t *testing.T) {
	r, agent, boss := cast(t)
	other := r.key("other", nil, "authorize")
	first := r.named(agent, "agent", "job", "x", waits)
	r.wants(first, "DEFER RULE_DEFER")
	r.must(r.answer(boss, first.Out.Token, true))
	for _, c := range []struct {
		name string
		ask  func() *Decide
	}{
		{"no such call", func() *Decide { return r.named(agent, "agent", "upload-resume", "y", permit) }},
		{"another key's call", func() *Decide { return r.named(other, "agent", "job-resume", "x", permit) }},
		{"another agent's call", func() *Decide { return r.named(agent, "agent-2", "job-resume", "x", permit) }},
		{"a call that was permitted", func() *Decide { return r.named(agent, "agent", "fine-resume", "z", permit) }},
	} {
		r.wants(r.named(agent, "agent", "fine", "z", permit), "PERMIT RULE_PERMIT")
		one, two := c.ask(), c.ask()
		r.wants(one, "PERMIT RULE_PERMIT")
		r.wants(two, "PERMIT RULE_PERMIT")
		if one.Out.Repeat || !two.Out.Repeat {
			t.Errorf("%s: repeat %v, then %v", c.name, one.Out.Repeat, two.Out.Repeat)
		}
	}
	r.wants(r.named(agent, "agent", "job-resume", "x", waits), consumed)
}

func TestJoining(t *testing.T) {
	r, agent, boss := cast(t)
	first := r.deferred(agent, "x", waits)
	again := r.call(agent, "x", waits)
	r.wants(again, "DEFER RULE_DEFER")
	if again.Out.Token != first {
		t.Error("the same digest made a second defer")
	}
	if other := r.deferred(agent, "y", waits); other == first {
		t.Error("another digest joined")
	}
	if other := r.deferred(r.key("other", nil, "authorize"), "x", waits); other == first {
		t.Error("another key joined") // its digest differs, because the key is part of it
	}
	r.must(r.answer(boss, first, true))
	known := r.call(agent, "x", waits)
	r.wants(known, "DEFER RULE_DEFER")
	if known.Out.Token != first || !known.Out.Approved {
		t.Errorf("an agent that has forgotten the token is not told of the approval: %+v", known.Out)
	}
	r.wants(r.redeem(agent, "x", first, waits), consumed)
	second := r.deferred(agent, "x", waits)
	if second == first {
		t.Error("a call joined a defer that is consumed")
	}
	r.clock.advance(5 * time.Minute)
	if third := r.deferred(agent, "x", waits); third == second {
		t.Error("a call joined a defer that has expired")
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

func TestPendingPerKey(t *testing.T) {
	r, agent, _ := cast(t)
	ask := func(k *Key, args string) *Decide {
		c := r.call(k, args, waits)
		c.Limits.MaxPending = 2
		return c
	}
	one := ask(agent, "1")
	r.wants(one, "DEFER RULE_DEFER")
	r.wants(ask(agent, "2"), "DEFER RULE_DEFER")
	r.wants(ask(agent, "3"), "DENY RATE_EXCEEDED")
	r.wants(ask(agent, "2"), "DEFER RULE_DEFER") // joins
	r.wants(ask(r.key("other", nil, "authorize"), "3"), "DEFER RULE_DEFER")
	r.reopen()
	agent, boss := r.s.Key("agent"), r.s.Key("boss")
	r.wants(ask(agent, "3"), "DENY RATE_EXCEEDED")
	r.must(r.answer(boss, one.Out.Token, true)) // approved is not pending
	r.wants(ask(agent, "3"), "DEFER RULE_DEFER")
	r.wants(ask(agent, "4"), "DENY RATE_EXCEEDED")
	r.clock.advance(5 * time.Minute)
	r.wants(ask(agent, "4"), "DEFER RULE_DEFER")
}

func TestQuorum(t *testing.T) {
	r, agent, boss := cast(t)
	second, third := r.key("second", nil, "approve"), r.key("third", nil, "approve")
	status := func(token, want string) {
		t.Helper()
		if got := r.status(agent, token); got != want {
			t.Errorf("status is %s, want %s", got, want)
		}
	}
	t.Run("different approvers", func(t *testing.T) {
		token := r.deferred(agent, "quorum", waitsForN(3))
		r.must(r.answer(boss, token, true))
		r.must(r.answer(boss, token, true)) // twice the same counts once
		r.must(r.answer(second, token, true))
		status(token, Pending)
		r.must(r.answer(third, token, true))
		status(token, Approved)
		r.wants(r.redeem(agent, "quorum", token, waitsForN(3)), consumed)
	})
	t.Run("one denial ends it", func(t *testing.T) {
		token := r.deferred(agent, "denied", waitsForN(3))
		r.must(r.answer(boss, token, true))
		r.must(r.answer(second, token, false))
		status(token, Denied)
		r.refused(r.answer(third, token, true), sdk.CodeAlreadyResolved)
	})
	t.Run("a revoked approver does not count", func(t *testing.T) {
		gone := r.key("gone", nil, "approve")
		token := r.deferred(agent, "revoked", waitsForN(2))
		r.must(r.answer(gone, token, true))
		r.must(&RevokeKey{ID: gone.ID, By: system})
		r.must(r.answer(second, token, true))
		status(token, Pending)
		r.refused(r.answer(gone, token, true), sdk.CodeKeyRevoked)
		r.must(r.answer(third, token, true))
		status(token, Approved)
	})
	t.Run("an approver revoked after the approval", func(t *testing.T) {
		gone := r.key("gone later", nil, "approve")
		token := r.deferred(agent, "later", waits)
		r.must(r.answer(gone, token, true))
		r.must(&RevokeKey{ID: gone.ID, By: system})
		r.wants(r.redeem(agent, "later", token, waits), "DEFER RULE_DEFER")
		status(token, Pending)
		r.must(r.answer(boss, token, true))
		r.wants(r.redeem(agent, "later", token, waits), consumed)
	})
	t.Run("the rule asks for more now", func(t *testing.T) {
		token := r.deferred(agent, "more", waits)
		r.must(r.answer(boss, token, true))
		more := r.redeem(agent, "more", token, waitsForN(2))
		r.wants(more, "DEFER RULE_DEFER")
		if more.Out.Token != token {
			t.Error("it has another token now")
		}
		status(token, Pending)
		r.wants(r.redeem(agent, "more", token, waits), mismatch) // pending is pending, whatever the rule says again
		r.must(r.answer(second, token, true))
		r.wants(r.redeem(agent, "more", token, waitsForN(2)), consumed)
	})
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

func TestSelfApproval(t *testing.T) {
	r := newRig(t)
	agent := r.key("agent", []string{"agent"}, "authorize", "approve")
	for _, c := range []struct {
		name   string
		key    *Key
		want   sdk.Code
		status string
	}{
		{"the asking key", agent, sdk.CodeSelfApproval, Pending},
		{"a key that acts as the agent", r.key("twin", []string{"ag*"}, "authorize", "approve"), sdk.CodeSelfApproval, Pending},
		{"a key that acts as every agent", r.key("all", nil, "authorize", "approve"), sdk.CodeSelfApproval, Pending},
		{"a key that sees other agents only", r.key("blind", []string{"elsewhere"}, "approve"), sdk.CodeUnknownDefer, Pending},
		{"a key that acts as another agent and sees that one only", r.key("apart", []string{"elsewhere"}, "authorize", "approve"), sdk.CodeUnknownDefer, Pending},
		{"a key that sees the agent and acts as nobody", r.key("boss", []string{"ag*"}, "approve"), "", Approved},
	} {
		for _, yes := range []bool{true, false} {
			token := r.deferred(agent, strconv.FormatBool(yes)+c.name, waits) // a digest has the first bytes
			if got := codeOf(r.commit(r.answer(c.key, token, yes))); got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
			want := c.status
			if want == Approved && !yes {
				want = Denied
			}
			if got := r.status(agent, token); got != want {
				t.Errorf("%s: status %s, want %s", c.name, got, want)
			}
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Run("beats an approval in the same moment", func(t *testing.T) {
		r, agent, boss := cast(t)
		token := r.deferred(agent, "x", waits)
		r.clock.advance(5 * time.Minute)
		r.refused(r.answer(boss, token, true), sdk.CodeDeferExpired)
		r.wants(r.redeem(agent, "x", token, waits), mismatch)
		if got := r.status(agent, token); got != Expired {
			t.Errorf("status %s", got)
		}
	})
	t.Run("a moment before it does not", func(t *testing.T) {
		r, agent, boss := cast(t)
		token := r.deferred(agent, "x", waits)
		r.clock.advance(5*time.Minute - 1)
		r.must(r.answer(boss, token, true))
		r.clock.advance(5*time.Minute - 1) // an approval has its own time
		r.wants(r.redeem(agent, "x", token, waits), consumed)
	})
	t.Run("timers survive a restart", func(t *testing.T) {
		r, agent, boss := cast(t)
		early, late, approved := r.deferred(agent, "early", waits), "", ""
		r.clock.advance(time.Minute)
		late, approved = r.deferred(agent, "late", waits), r.approved(agent, boss, "approved")
		r.close()
		r.clock.advance(4 * time.Minute) // early runs out while nothing runs
		r.open()
		agent = r.s.Key("agent")
		for token, want := range map[string]string{early: Expired, late: Pending, approved: Approved} {
			if got := r.status(agent, token); got != want {
				t.Errorf("status %s, want %s", got, want)
			}
		}
		r.clock.advance(time.Minute)
		r.must(&Note{Type: "tick", By: system})
		if n := len(r.s.seq.state.live); n != 0 {
			t.Errorf("%d defers are live after their time", n)
		}
		if err := consistent(r.s); err != nil {
			t.Error(err)
		}
	})
	t.Run("wakes who waits", func(t *testing.T) {
		r, agent, _ := cast(t)
		watch := &DeferStatus{Token: r.deferred(agent, "x", waits), Key: agent, Watch: true}
		r.must(watch)
		r.clock.advance(5 * time.Minute)
		r.s.seq.look(r.clock.Now()) // what the watcher's ticker does
		<-watch.Changed
	})
}

func TestRevokingTheAskingKey(t *testing.T) {
	r, agent, boss := cast(t)
	other := r.key("other", nil, "authorize")
	pending, approved, kept := r.deferred(agent, "1", waits), r.approved(agent, boss, "2"), r.deferred(other, "1", waits)
	watch := &DeferStatus{Token: pending, Key: agent, Watch: true}
	r.must(watch)
	r.must(&RevokeKey{ID: agent.ID, By: system})
	<-watch.Changed
	for token, want := range map[string]string{pending: Denied, approved: Denied, kept: Pending} {
		c := &DeferStatus{Token: token, Key: boss}
		r.must(c)
		if c.Out.Status != want {
			t.Errorf("status %s, want %s", c.Out.Status, want)
		}
	}
	r.refused(r.redeem(agent, "2", approved, waits), sdk.CodeKeyRevoked)
	r.refused(r.answer(boss, pending, true), sdk.CodeAlreadyResolved)
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}
