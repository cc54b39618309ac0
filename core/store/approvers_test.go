package store

import (
	"testing"

	"github.com/yett-dev/yett/sdk"
)

func TestAskedByDecision(t *testing.T) {
	r, agent, boss := cast(t)
	first := r.call(agent, "x", sdk.Verdict{Effect: sdk.Defer})
	r.must(first)
	joins := r.call(agent, "x", sdk.Verdict{Effect: sdk.Defer})
	r.must(joins)
	look := func(decision, status string) {
		t.Helper()
		c := &Asked{Decision: decision}
		r.must(c)
		if c.Out.Token != first.Out.Token || c.Out.Status != status || !c.Open {
			t.Errorf("got %+v, want %s", c, status)
		}
	}
	look(first.ID, Pending)
	r.reopen()
	agent, boss = r.s.Key(agent.ID), r.s.Key(boss.ID)
	look(first.ID, Pending)
	r.must(r.answer(boss, first.Out.Token, true))
	look(first.ID, Approved)
	r.wants(r.redeem(agent, "x", first.Out.Token, permit), consumed)
	look(first.ID, Consumed)
	permitted := r.call(agent, "y", permit)
	r.must(permitted)
	for _, id := range []string{"", "dec_none", joins.ID, permitted.ID, first.Out.Token} {
		r.refused(&Asked{Decision: id}, sdk.CodeUnknownDefer)
	}
}

// An operator is an approver of their own: different people are different approvers, and no list of keys has one in it.
func TestOperatorsApprove(t *testing.T) {
	ada, bob := (&Operator{Name: "ada", Role: RoleAdmin}).Approver(),
		(&Operator{Name: "bob", Role: RoleApprover}).Approver()
	if eve := (&Operator{Name: "eve", Role: RoleAuditor}).Approver(); eve.Scope() != 0 ||
		ada.Scope() != sdk.ScopeApprove || bob.Scope() != sdk.ScopeApprove {
		t.Error("the wrong roles may approve")
	}
	r, agent, _ := cast(t)
	token := r.deferred(agent, "two", waitsForN(2))
	for range 2 {
		r.must(r.answer(ada, token, true))
	}
	if got := r.status(agent, token); got != Pending {
		t.Fatalf("one person is two: %s", got)
	}
	r.must(r.answer(bob, token, true))
	if got := r.status(agent, token); got != Approved {
		t.Fatalf("two people are not enough: %s", got)
	}
	r.wants(r.redeem(agent, "two", token, waitsForN(2)), consumed)
	for _, from := range []string{"key:ada", "key:console:ada", "role:admin", "role:", "key:"} {
		token := r.deferred(agent, from, sdk.Verdict{From: []string{from}})
		r.refused(r.answer(ada, token, true), sdk.CodeNotApprover)
	}
	if k := r.s.Key(ada.ID); k != nil {
		t.Errorf("an operator became a key: %+v", k)
	}
}

// Two steps may ask for approvals: an operator is one where anybody will do, and stands for nobody whom the other step
// names.
func TestOperatorsStandForNobodyElse(t *testing.T) {
	r, agent, boss := cast(t)
	ada, bob := (&Operator{Name: "ada", Role: RoleAdmin}).Approver(),
		(&Operator{Name: "bob", Role: RoleApprover}).Approver()
	c := r.call(agent, "both", sdk.Verdict{Effect: sdk.Defer})
	c.Policy.Quorums = []sdk.Quorum{{N: 1}, {N: 1, From: []string{"key:" + boss.Name}}}
	r.must(c)
	look := &Asked{Decision: c.ID}
	r.must(look)
	if !look.Open {
		t.Error("an operator may sign it off")
	}
	r.must(r.answer(ada, c.Out.Token, true))
	if got := r.status(agent, c.Out.Token); got != Pending {
		t.Fatalf("after %s it is %s", ada.ID, got)
	}
	r.refused(r.answer(bob, c.Out.Token, true), sdk.CodeNotApprover)
	r.must(r.answer(boss, c.Out.Token, true))
	if got := r.status(agent, c.Out.Token); got != Approved {
		t.Errorf("it is %s", got)
	}
	named := r.call(agent, "named", sdk.Verdict{Effect: sdk.Defer, From: []string{"key:" + boss.Name}})
	r.must(named)
	look = &Asked{Decision: named.ID}
	r.must(look)
	if look.Open {
		t.Error("no operator may sign it off")
	}
}

// Once the rules name who has to sign, nobody else's sign-off is taken, and the number of approvals that are required
// stays.
func TestSignOffsThatWouldNotCount(t *testing.T) {
	r, agent, boss := cast(t)
	first, other := r.key("first", nil, "approve"), r.key("other", nil, "approve")
	anybody, named := sdk.Quorum{Rule: "r", N: 1}, sdk.Quorum{Rule: "r", N: 1, From: []string{"key:" + boss.Name}}
	ask := func(token string, q sdk.Quorum) *Decide {
		c := r.call(agent, "x", sdk.Verdict{Effect: sdk.Defer})
		c.Redeem.Token, c.Policy.Quorums = token, []sdk.Quorum{q}
		r.must(c)
		return c
	}
	token := ask("", anybody).Out.Token
	r.must(r.answer(first, token, true))
	ask(token, named)
	left := func(signed, required int) {
		t.Helper()
		c := &DeferStatus{Token: token, Key: agent}
		r.must(c)
		if d := c.Out; d.Status != Pending || len(d.Signed) != signed || d.Required != required {
			t.Errorf("%s, %d of %d", d.Status, len(d.Signed), d.Required)
		}
	}
	left(1, 2)
	r.refused(r.answer(other, token, true), sdk.CodeNotApprover)
	left(1, 2)
	r.must(r.answer(first, token, true)) // who signed before sends it again
	left(1, 2)
	change := r.answer(other, token, true)
	change.Modified, change.ModifiedHash, change.ModifiedCall, change.NewToken = []byte(`{"n":2}`), [32]byte{2},
		[32]byte{2}, "apr_2"
	r.must(change) // no sign-off is left, and everybody's counts for the rule of before
	left(1, 2)
	again := r.answer(boss, token, true)
	again.Digest = r.s.CallDigest(Hash{2})
	r.must(again)
	if got := r.status(agent, token); got != Approved {
		t.Errorf("it is %s", got)
	}
}
