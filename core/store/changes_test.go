package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// changed is an approval with other args.
func (r *rig) changed(k *Key, token, asked, args, digest string) *Approve {
	c := r.answer(k, token, true)
	c.Modified, c.ModifiedHash, c.ModifiedCall = []byte(`{"n":"`+args+`"}`), sha256.Sum256([]byte(args)),
		called(asked, args)
	c.View, c.NewToken, c.Digest = []byte(`{"args":{"n":"`+args+`"}}`), r.id("apr_"), digest
	return c
}

// stands is the digest that a deferred call is shown with.
func (r *rig) stands(k *Key, token string) string {
	r.t.Helper()
	c := &LookAt{Token: token, Key: k}
	r.must(c)
	return r.s.CallDigest(c.Out.Stands())
}

// What was shown is what is signed: a sign-off of another call is refused, and so is one of a changed call that does
// not say what was shown. A denial is one, whatever the call has become.
func TestSignsOnlyWhatWasShown(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r, agent, ann := cast(t)
		bob := r.key("bob", nil, "approve")
		again := func() {
			if restart {
				r.reopen()
				agent, ann, bob = r.s.Key("agent"), r.s.Key("boss"), r.s.Key("bob")
			}
		}
		token := r.deferred(agent, "one", waitsForN(2))
		first := r.stands(ann, token)
		if first != r.s.CallDigest(called("agent", "one")) || first == r.s.CallDigest(called("agent", "two")) {
			t.Fatalf("digest %s", first)
		}
		wrong := r.answer(ann, token, true)
		wrong.Digest = r.s.CallDigest(called("agent", "two"))
		r.refused(wrong, sdk.CodeCallChanged)
		wrong.Digest = "x"
		r.refused(wrong, sdk.CodeCallChanged)
		r.must(r.answer(bob, token, true)) // nobody has changed it: no digest is needed
		again()
		r.must(r.changed(ann, token, "agent", "million", first))
		again()
		r.must(r.changed(ann, token, "agent", "million", first)) // the same answer, sent again
		r.refused(r.answer(bob, token, true), sdk.CodeCallChanged)
		stale := r.answer(bob, token, true)
		stale.Digest = first
		r.refused(stale, sdk.CodeCallChanged)
		r.refused(r.changed(bob, token, "agent", "two", ""), sdk.CodeCallChanged)
		r.refused(r.changed(bob, token, "agent", "two", first), sdk.CodeCallChanged)
		if got := r.status(agent, token); got != Pending {
			t.Fatalf("it is %s", got)
		}
		now := r.stands(bob, token)
		if now == first {
			t.Fatal("the digest of a changed call is the first one")
		}
		last := r.answer(bob, token, true)
		last.Digest = now
		r.must(last)
		if last.Out.Status != Approved || len(last.Out.Signed) != 2 {
			t.Fatalf("%+v", last.Out)
		}
		redeem := func(args string) *Decide {
			c := r.redeem(agent, args, token, waits)
			c.ArgsHash = sha256.Sum256([]byte(args))
			return c
		}
		r.wants(redeem("one"), mismatch)
		r.wants(redeem("million"), consumed)

		denied := r.deferred(agent, "three", waitsForN(2))
		r.must(r.changed(ann, denied, "agent", "four", ""))
		r.must(r.answer(bob, denied, false))
	}
}

// A change voids what was signed before, the grants that were asked for with it too.
func TestChangesVoidSignOffs(t *testing.T) {
	r, agent, ann := cast(t)
	bob, eve := r.key("bob", nil, "approve"), r.key("eve", nil, "approve")
	token := r.deferred(agent, "x", waitsForN(2))
	r.must(r.answer(ann, token, true))
	c := r.changed(bob, token, "agent", "y", "")
	r.must(c)
	if c.Out.Status != Pending || len(c.Out.Signed) != 1 || c.Out.Signed[0].Key != "bob" {
		t.Fatalf("%+v", c.Out)
	}
	last := r.answer(eve, token, true)
	last.Digest = r.stands(eve, token)
	r.must(last)
	if last.Out.Status != Approved {
		t.Errorf("%+v", last.Out)
	}
}

func TestAtMostEightChanges(t *testing.T) {
	r, agent, ann := cast(t)
	token := r.deferred(agent, "x", waitsForN(2))
	digest := ""
	for i := range mostChanges {
		r.must(r.changed(ann, token, "agent", fmt.Sprint(i), digest))
		digest = r.stands(ann, token)
	}
	r.reopen()
	ann, agent = r.s.Key("boss"), r.s.Key("agent")
	r.refused(r.changed(ann, token, "agent", "one more", digest), sdk.CodeConflict)
	if got := r.stands(ann, token); got != digest {
		t.Error("the refused change is in force")
	}
	bob := r.key("bob", nil, "approve")
	c := r.answer(bob, token, true)
	c.Digest = digest
	r.must(c)
	if got := r.status(agent, token); got != Approved {
		t.Errorf("it is %s", got)
	}
}

// An action whose params an approver has changed shows those everywhere, and its approval_token is another one: who saw
// the first params cannot approve the changed ones.
func TestActionShowsWhatIsApproved(t *testing.T) {
	r, agent, ann := cast(t)
	bob := r.key("bob", nil, "approve")
	submit := func() *ActionRow {
		d := r.submitted(agent, "x", waitsForN(2))
		d.Action.(*NewAction).Action.Params = `{"n":"x"}`
		d.Action.(*NewAction).Idem = &[16]byte{byte(r.n)}
		r.must(d)
		return made(d)
	}
	answer := func(a *ActionRow, token string, yes bool) *ApproveAction {
		c := r.answer(bob, token, yes)
		return &ApproveAction{ID: a.ID, Approve: *c}
	}
	before := submit()
	tokens := []string{before.ApprovalToken()}
	digest := ""
	for _, args := range []string{"y", "z"} {
		r.must(r.changed(ann, before.Token, "agent", args, digest))
		digest = r.stands(ann, before.Token)
		after := submit() // joins the changed call
		for _, restart := range []bool{false, true} {
			if restart {
				r.reopen()
				agent, ann, bob = r.s.Key("agent"), r.s.Key("boss"), r.s.Key("bob")
			}
			page, _, err := r.s.Actions(context.Background(), &ActionQuery{Limit: 10, Sees: agent.Sees})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range append(page, r.read(agent, before.ID), r.read(agent, after.ID), after) {
				if a.Params != `{"n":"`+args+`"}` || a.ApprovalToken() != r.read(bob, before.ID).ApprovalToken() ||
					r.s.CallDigest(a.Stands()) != digest {
					t.Errorf("restart %v: %s shows %s, token %s, digest %s", restart, a.ID, a.Params, a.ApprovalToken(),
						r.s.CallDigest(a.Stands()))
				}
			}
		}
		for _, old := range tokens {
			r.refused(answer(before, old, true), sdk.CodeWrongToken)
		}
		tokens = append(tokens, r.read(bob, before.ID).ApprovalToken())
	}
	stale := answer(before, tokens[2], true)
	stale.Approve.Digest = r.s.CallDigest(called("agent", "x"))
	r.refused(stale, sdk.CodeCallChanged)
	last := answer(before, tokens[2], true)
	r.must(last)
	if last.Out.Status != ActionApproved || last.Out.Params != `{"n":"z"}` {
		t.Errorf("%+v", last.Out)
	}
}

// An approval can be taken back until it is spent, by whoever could have denied the call.
func TestWithdraw(t *testing.T) {
	pending, approved := func(*rig, *Key, string) {}, func(r *rig, boss *Key, token string) {
		r.must(r.answer(boss, token, true))
	}
	for _, c := range []struct {
		name   string
		before func(r *rig, boss *Key, token string)
		by     func(r *rig) *Key
		plain  bool // a denial, not a withdrawal
		want   sdk.Code
		status string
	}{
		{"approved", approved, nil, false, "", Denied},
		{"approved, by somebody else", approved, func(r *rig) *Key { return r.key("bob", nil, "approve") }, false, "", Denied},
		{"approved, and a late denial", approved, nil, true, sdk.CodeAlreadyResolved, Approved},
		{"pending", pending, nil, false, "", Denied},
		{"redeemed", func(r *rig, boss *Key, token string) {
			approved(r, boss, token)
			r.wants(r.redeem(r.s.Key("agent"), "x", token, waits), consumed)
		}, nil, false, sdk.CodeAlreadyResolved, Consumed},
		{"denied", func(r *rig, boss *Key, token string) { r.must(r.answer(boss, token, false)) }, func(r *rig) *Key { return r.key("bob", nil, "approve") }, false, sdk.CodeAlreadyResolved, Denied},
		{"ran out", func(r *rig, boss *Key, token string) { approved(r, boss, token); r.clock.advance(5 * time.Minute) }, nil, false, sdk.CodeDeferExpired, Expired},
		{"by a key that sees other agents", approved, func(r *rig) *Key { return r.key("bob", []string{"other"}, "approve") }, false, sdk.CodeUnknownDefer, Approved},
		{"by the key that asked", approved, func(r *rig) *Key { return r.s.Key("agent") }, false, sdk.CodeSelfApproval, Approved},
		{"by a key that acts as the agent", approved, func(r *rig) *Key { return r.key("bob", nil, "approve", "authorize") }, false, sdk.CodeSelfApproval, Approved},
		{"twice", func(r *rig, boss *Key, token string) {
			approved(r, boss, token)
			c := r.answer(boss, token, false)
			c.Withdraw = true
			r.must(c)
		}, nil, false, "", Denied},
		{"twice, the second time by somebody else", func(r *rig, boss *Key, token string) {
			approved(r, boss, token)
			c := r.answer(boss, token, false)
			c.Withdraw = true
			r.must(c)
		}, func(r *rig) *Key { return r.key("bob", nil, "approve") }, false, sdk.CodeAlreadyResolved, Denied},
	} {
		for _, restart := range []bool{false, true} {
			r, agent, boss := cast(t)
			token := r.deferred(agent, "x", waits)
			c.before(r, boss, token)
			if restart {
				r.reopen()
				agent, boss = r.s.Key("agent"), r.s.Key("boss")
			}
			by := boss
			if c.by != nil {
				by = c.by(r)
			}
			a := r.answer(by, token, false)
			a.Withdraw, a.Reason = !c.plain, ""
			r.refused(a, c.want)
			if got := r.status(agent, token); got != c.status {
				t.Errorf("%s: it is %s", c.name, got)
			}
			if c.status == Denied {
				r.wants(r.redeem(agent, "x", token, waits), mismatch)
			}
			if err := consistent(r.s); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// What came with an approval goes with it: the grant, and the action that waits for its start.
func TestWithdrawTakesWhatCameWithTheApproval(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r, agent, boss := cast(t)
		issuer := r.key("issuer", nil, "approve", "grants")
		d := r.submitted(agent, "x", waits)
		r.must(d)
		a := made(d)
		yes := r.answer(issuer, a.Token, true)
		yes.Grant, yes.NewGrant = &GrantAsk{TTL: time.Hour}, r.id("stg_")
		r.must(yes)
		if restart {
			r.reopen()
			agent, boss = r.s.Key("agent"), r.s.Key("boss")
		}
		if got := r.read(agent, a.ID); got.Status != ActionApproved {
			t.Fatalf("%+v", got)
		}
		no := r.answer(boss, a.Token, false)
		no.Withdraw, no.Reason = true, ""
		r.must(&ApproveAction{ID: a.ID, Approve: *no})
		got := r.read(agent, a.ID)
		if got.Status != ActionDenied || got.Reason != "the approval was withdrawn" ||
			got.Events[len(got.Events)-1].Type != EventDenied {
			t.Errorf("%+v", got)
		}
		r.refused(r.start(got, agent, "x", waits), sdk.CodeConflict)
		r.wants(r.spends(agent, waits), "DEFER RULE_DEFER")
		rows, _, err := logOf(r.s)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, row := range rows {
			seen[row.Type+" "+row.Status]++
		}
		if seen["defer_resolved denied"] != 1 || seen["grant_revoked "] != 1 {
			t.Errorf("recorded: %v", seen)
		}
	}
}

// Who waits for the end of a call is told of its withdrawal.
func TestWithdrawWakesPollers(t *testing.T) {
	r, agent, boss := cast(t)
	token := r.deferred(agent, "x", waitsForN(2))
	r.must(r.answer(boss, token, true))
	poll := &DeferStatus{Token: token, Key: agent, Watch: true}
	r.must(poll)
	c := r.answer(boss, token, false)
	c.Withdraw = true
	r.must(c)
	<-poll.Changed
	if got := r.status(agent, token); got != Denied {
		t.Errorf("it is %s", got)
	}
}

// What approvers put in place of arguments is held in memory while a call is open, so it has a bound for each key and
// over all.
func TestChangedArgumentsHaveABound(t *testing.T) {
	const size = 1 << 20
	args := make([]byte, size) // one for all: the test needs no memory
	st := newState()
	fill := func(key string, n int) {
		for i := range n {
			token := fmt.Sprint(key, i)
			st.live[token] = &Defer{Token: token, KeyID: key, Modified: args}
		}
	}
	fill("a", changedPerKey/size)
	if err := st.room(&Defer{KeyID: "a"}, 1); codeOf(err) != sdk.CodeTooManyRequests {
		t.Errorf("one more of a key that has all it may: %v", err)
	}
	if err := st.room(st.live["a0"], size); err != nil {
		t.Errorf("other arguments in place of those: %v", err)
	}
	if err := st.room(&Defer{KeyID: "b"}, size); err != nil {
		t.Errorf("another key: %v", err)
	}
	for i := 1; i < changedInAll/changedPerKey; i++ {
		fill(fmt.Sprintf("k%d-", i), changedPerKey/size)
	}
	if err := st.room(&Defer{KeyID: "b"}, 1); codeOf(err) != sdk.CodeTooManyRequests {
		t.Errorf("one more than all may have: %v", err)
	}
}

// A call that was approved with a grant and waits again is denied with that grant: it would permit the same call.
func TestDenialEndsTheGrantOfAnEarlierApproval(t *testing.T) {
	for _, name := range []string{"a call", "an action", "in a stall"} {
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			a := l.action("x", sdk.Defer)
			issuer := l.key("issuer", nil, "approve", "grants")
			yes := l.answer(issuer, a.Token, true)
			yes.ApprovedTTL, yes.Grant, yes.NewGrant = 24*time.Hour, &GrantAsk{TTL: 24 * time.Hour}, "stg_x"
			l.must(yes)
			l.must(l.kill(KillKey, "issuer", false, nil))
			again := l.redeem(l.agent, "x", a.Token, waits)
			again.Defer.TTL, again.ToolID, again.Digest = 24*time.Hour, a.Tool, a.Digest
			l.wants(again, "DEFER RULE_DEFER")
			l.must(l.kill(KillKey, "issuer", true, nil))
			spend := func() *Decide {
				c := l.spends(l.agent, waits)
				c.ToolID = a.Tool
				c.Grants = l.s.GrantsFor(&GrantCall{AgentID: "agent", SessionID: "session", ToolID: a.Tool})
				return c
			}
			l.wants(spend(), standing)
			no := l.answer(l.boss, a.Token, false)
			switch name {
			case "a call":
				l.must(no)
				if no.Out.GrantNote == "" || no.Out.Status != Denied || no.Out.Withdrawn || no.Out.EndReason != "because" {
					t.Errorf("%q %+v", no.Out.GrantNote, no.Out)
				}
			case "an action":
				l.must(&ApproveAction{ID: a.ID, Approve: *no})
			case "in a stall":
				l.late(no)
			}
			l.wants(spend(), "DEFER RULE_DEFER")
			l.must(l.answer(l.boss, a.Token, false)) // sent again
			if n := l.records("grant_revoked"); n != 1 {
				t.Errorf("%d records of the grant's end", n)
			}
			if err := consistent(l.s); err != nil {
				t.Error(err)
			}
			l.restart()
			l.agent = l.s.Key("agent")
			l.wants(spend(), "DEFER RULE_DEFER")
		})
	}
}
