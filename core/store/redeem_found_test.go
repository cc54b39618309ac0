package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// found asks without a token, and redeems what is approved.
func (r *rig) found(k *Key, callID, args string, v sdk.Verdict) *Decide {
	c := r.call(k, args, v)
	if callID != "" {
		c = r.named(k, "agent", callID, args, v)
	}
	c.Redeem.Auto = true
	return c
}

// TestRedeemWithoutAToken: an agent that remembers nothing asks for the same call again, and it runs once.
func TestRedeemWithoutAToken(t *testing.T) {
	r, agent, boss := cast(t)
	other := r.key("other", nil, "authorize")
	token := r.deferred(agent, "x", waits)
	wait := r.found(agent, "", "x", waits)
	if r.wants(wait, "DEFER RULE_DEFER"); wait.Out.Token != token || wait.Out.Approved {
		t.Errorf("while it waits: %+v", wait.Out)
	}
	r.must(r.answer(boss, token, true))
	r.wants(r.found(agent, "", "y", waits), "DEFER RULE_DEFER")    // another call
	r.wants(r.found(other, "", "x", waits), "DEFER RULE_DEFER")    // another key's
	r.wants(r.found(agent, "", "x", deny), "DENY RULE_DENY")       // today's rules win
	r.wants(r.found(agent, "", "x", permit), "PERMIT RULE_PERMIT") // and nothing is spent for what they permit
	r.wants(r.found(agent, "", "x", waits), consumed)
	again := r.found(agent, "", "x", waits)
	if r.wants(again, "DEFER RULE_DEFER"); again.Out.Token == token || again.Out.Approved {
		t.Errorf("it was spent: %+v", again.Out)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestRedeemedUnderItsCallID: the same call_id first waits, then runs once, and an answer that was lost comes again as
// a repeat.
func TestRedeemedUnderItsCallID(t *testing.T) {
	r, agent, boss := cast(t)
	first := r.found(agent, "job", "x", waits)
	r.wants(first, "DEFER RULE_DEFER")
	told := r.named(agent, "agent", "job", "x", waits)
	r.must(r.answer(boss, first.Out.Token, true))
	if r.wants(told, "DEFER RULE_DEFER"); !told.Out.Approved || told.Out.Token != first.Out.Token || !told.Out.Repeat {
		t.Errorf("who does not ask for it is told that it is approved: %+v", told.Out)
	}
	runs := r.found(agent, "job", "x", waits)
	if r.wants(runs, consumed); runs.Out.Repeat {
		t.Error("the first permit is no repeat")
	}
	for range 2 {
		again := r.found(agent, "job", "x", waits)
		if r.wants(again, consumed); !again.Out.Repeat {
			t.Error("a second permit is a repeat")
		}
	}
	r.reopen()
	agent, boss = r.s.Key("agent"), r.s.Key("boss")
	again := r.found(agent, "job", "x", waits)
	if r.wants(again, consumed); !again.Out.Repeat {
		t.Error("after a restart too")
	}
	r.wants(r.found(agent, "job", "x", deny), "DENY RULE_DENY")
	r.wants(r.found(agent, "other job", "x", waits), "DEFER RULE_DEFER")
	r.must(&RevokeKey{ID: boss.ID, By: system})
	r.wants(r.found(agent, "job", "x", waits), mismatch) // nobody may approve it any more
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestWhatIsNotFound: approvals that are over, withdrawn, of a killed agent, of an action, or for other arguments.
func TestWhatIsNotFound(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(r *rig, boss *Key, token string)
		want string
	}{
		"it has expired":          {func(r *rig, _ *Key, _ string) { r.clock.advance(5 * time.Minute) }, "DEFER RULE_DEFER"},
		"its approver is revoked": {func(r *rig, boss *Key, _ string) { r.must(&RevokeKey{ID: boss.ID, By: system}) }, "DEFER RULE_DEFER"},
		"it is withdrawn": {func(r *rig, boss *Key, token string) {
			c := r.answer(boss, token, false)
			c.Withdraw = true
			r.must(c)
		}, "DEFER RULE_DEFER"},
		"the agent is killed": {func(r *rig, boss *Key, _ string) {
			r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: by(boss)})
		}, "DENY KILL_SWITCH_ACTIVE"},
	} {
		t.Run(name, func(t *testing.T) {
			r, agent, boss := cast(t)
			token := r.deferred(agent, "x", waits)
			r.must(r.answer(boss, token, true))
			end.do(r, boss, token)
			c := r.found(agent, "", "x", waits)
			if r.wants(c, end.want); c.Out.Approved {
				t.Errorf("%+v", c.Out)
			}
			if err := consistent(r.s); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOneAskerRedeems: of many who ask for an approved call without its token at once, one gets the permit.
func TestOneAskerRedeems(t *testing.T) {
	r, agent, boss := cast(t)
	token := r.deferred(agent, "x", waits)
	r.must(r.answer(boss, token, true))
	asks := make([]*Decide, 64)
	var all sync.WaitGroup
	for i := range asks {
		asks[i] = r.found(agent, "", "x", waits)
		all.Go(func() {
			if err := r.s.Commit(context.Background(), asks[i]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	permits := 0
	for _, c := range asks {
		switch {
		case c.Out.Effect == sdk.Permit && c.Out.Token == token && !c.Out.Repeat:
			permits++
		case c.Out.Effect != sdk.Defer || c.Out.Token == token || c.Out.Approved:
			t.Errorf("%+v", c.Out)
		}
	}
	if permits != 1 {
		t.Errorf("%d of them got a permit", permits)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestChangedArgumentsAreNotFound: an approver has changed the arguments. Who asks for the first ones is told, and gets
// no permit; the token redeems the new ones.
func TestChangedArgumentsAreNotFound(t *testing.T) {
	r, agent, boss := cast(t)
	token := r.deferred(agent, "x", waits)
	c := r.answer(boss, token, true)
	c.Modified, c.ModifiedHash = []byte(`{}`), [32]byte{1}
	r.must(c)
	told := r.found(agent, "", "x", waits)
	if r.wants(told, "DEFER RULE_DEFER"); told.Out.Token != token || !told.Out.Approved {
		t.Errorf("%+v", told.Out)
	}
	spends := r.call(agent, "x", waits)
	spends.Redeem.Token, spends.ArgsHash = token, [32]byte{1}
	r.wants(spends, consumed)
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestExplicitKeysRedeemNothingByAsking: whoever asks with such a key and without a token is told of the approval, and
// spends nothing: under a call_id too, with a rolled key as with its first, and after a restart. The token redeems as
// ever.
func TestExplicitKeysRedeemNothingByAsking(t *testing.T) {
	r, _, boss := cast(t)
	r.must(&CreateKey{Key: &Key{ID: "shared", Name: "shared", Scopes: []string{"authorize"}, Explicit: true}, By: system})
	r.must(&RollKey{ID: "shared", New: &Key{ID: "rolled"}, Grace: time.Hour, By: system})
	for _, id := range []string{"shared", "rolled"} {
		told := func(name string) *Decide {
			t.Helper()
			c := r.found(r.s.Key(id), name, "x", waits)
			if r.wants(c, "DEFER RULE_DEFER"); !c.Out.Approved {
				t.Errorf("%s, %q: it is not told of the approval: %+v", id, name, c.Out)
			}
			return c
		}
		first := r.found(r.s.Key(id), "job", "x", waits)
		r.wants(first, "DEFER RULE_DEFER")
		r.must(r.answer(boss, first.Out.Token, true))
		for _, name := range []string{"job", "job", "another", "a third"} {
			if c := told(name); c.Out.Token != first.Out.Token {
				t.Errorf("%s, %q: told of another call: %+v", id, name, c.Out)
			}
		}
		r.reopen()
		boss = r.s.Key("boss")
		told("job")
		with := r.named(r.s.Key(id), "agent", "job", "x", waits)
		with.Redeem.Token, with.Redeem.Auto = first.Out.Token, true
		r.wants(with, consumed)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}
