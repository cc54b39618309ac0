package store

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// granted makes a grant for that agent with n uses.
func (r *rig) granted(agent string, n uint64) *Grant {
	r.t.Helper()
	g := &Grant{ID: r.id("stg_"), AgentID: agent, ToolPattern: "**", MaxUses: n, IssuedBy: "console:ann",
		Issuers: []string{"console:ann"}}
	return r.grants(g)
}

func (r *rig) grants(g *Grant) *Grant {
	r.t.Helper()
	if g.ID == "" {
		g.ID = r.id("stg_")
	}
	r.must(&AddGrant{Grant: g, TTL: time.Hour, By: Who{Principal: "console:ann"}, Most: 1000})
	return g
}

// spends is a deferred call with the grants that the store has for it.
func (r *rig) spends(k *Key, v sdk.Verdict) *Decide {
	c := r.call(k, r.id("args"), v)
	c.Grants = r.s.GrantsFor(&GrantCall{AgentID: c.AgentID, ToolID: c.ToolID, SessionID: c.SessionID, RuleID: v.RuleID,
		Policy: c.Policy.Version})
	return c
}

// spendsAgainst is a call that such steps defer.
func (r *rig) spendsAgainst(k *Key, v sdk.Verdict, quorums []sdk.Quorum) *Decide {
	c := r.call(k, r.id("args"), v)
	c.Policy.Quorums = quorums
	c.Grants = r.s.GrantsFor(&GrantCall{AgentID: c.AgentID, ToolID: c.ToolID, SessionID: c.SessionID, RuleID: v.RuleID,
		Policy: c.Policy.Version, Quorums: quorums})
	return c
}

const standing = "PERMIT STANDING_APPROVAL_CONSUMED"

func TestNarrowestGrantFirst(t *testing.T) {
	r, agent, _ := cast(t)
	r.grants(&Grant{ID: "stg_f", AgentID: "agent", ToolPattern: "**"})
	r.grants(&Grant{ID: "stg_e", AgentID: "agent", ToolPattern: "**"})
	r.grants(&Grant{ID: "stg_d", AgentID: "agent", ToolPattern: "**", ArgsMatch: "true"})
	r.grants(&Grant{ID: "stg_c", AgentID: "agent", ToolPattern: "to*"})
	r.grants(&Grant{ID: "stg_b", AgentID: "agent", ToolPattern: "**", SessionID: "session"})
	r.grants(&Grant{ID: "stg_a", AgentID: "ag*", ToolPattern: "tool", SessionID: "session"})
	r.grants(&Grant{ID: "stg_other1", AgentID: "another", ToolPattern: "tool"})
	r.grants(&Grant{ID: "stg_other2", AgentID: "agent", ToolPattern: "tool/*"})
	r.grants(&Grant{ID: "stg_other3", AgentID: "agent", ToolPattern: "tool", SessionID: "another"})
	r.grants(&Grant{ID: "stg_other4", AgentID: "agent", ToolPattern: "tool", RuleID: "another"})
	r.grants(&Grant{ID: "stg_other5", AgentID: "agent", ToolPattern: "tool", Policy: "another"})
	var got []string
	for _, g := range r.spends(agent, waits).Grants {
		got = append(got, g.ID)
	}
	want := []string{"stg_b", "stg_c", "stg_d", "stg_e", "stg_f", "stg_a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestGrantUsesAreExact(t *testing.T) {
	for _, n := range []uint64{1, 2, 100} {
		r, agent, _ := cast(t)
		g := r.granted("agent", n)
		calls := make([]*Decide, n+50)
		for i := range calls {
			calls[i] = r.spends(agent, waits)
		}
		var wg sync.WaitGroup
		for _, c := range calls {
			wg.Go(func() {
				if err := r.commit(c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		spent := uint64(0)
		for _, c := range calls {
			if c.Out.GrantID == g.ID {
				spent++
			}
		}
		if spent != n || g.Uses() != n || g.Status(r.clock.Now()) != "used_up" {
			t.Errorf("N = %d: %d were permitted, %d uses, %s", n, spent, g.Uses(), g.Status(r.clock.Now()))
		}
		r.reopen()
		r.wants(r.spends(r.s.Key("agent"), waits), "DEFER RULE_DEFER")
	}
}

func TestGrantsEnd(t *testing.T) {
	r, agent, _ := cast(t)
	g := r.granted("agent", 0)
	r.wants(r.spends(agent, waits), standing)
	r.wants(r.spends(agent, deny), "DENY RULE_DENY")
	r.wants(r.spends(agent, waitsForN(2)), "DEFER RULE_DEFER") // one issuer is not two approvers
	late := r.spends(agent, waits)                             // has seen the grant before it was revoked
	r.must(&RevokeGrant{ID: g.ID, By: Who{Principal: "console:ann"}})
	r.wants(late, "DEFER RULE_DEFER")
	r.reopen()
	agent = r.s.Key("agent")
	r.wants(r.spends(agent, waits), "DEFER RULE_DEFER")
	h := r.granted("agent", 2)
	r.wants(r.spends(agent, waits), standing)
	r.reopen()
	agent = r.s.Key("agent")
	r.wants(r.spends(agent, waits), standing) // half used before the restart
	r.wants(r.spends(agent, waits), "DEFER RULE_DEFER")
	r.granted("agent", 0)
	r.clock.advance(time.Hour)
	r.wants(r.spends(agent, waits), "DEFER RULE_DEFER")
	var all []string
	if err := r.s.Grants("", func(g *Grant) bool {
		all = append(all, g.ID+" "+g.Status(r.clock.Now()))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || all[1] != h.ID+" used_up" || all[2] != g.ID+" revoked" {
		t.Errorf("all grants: %v", all)
	}
}

// TestGrantSignedByQuorum: as many different issuers as the rule asks for approvals.
func TestGrantSignedByQuorum(t *testing.T) {
	r, agent, _ := cast(t)
	a, b := r.key("a", nil, "approve", "grants"), r.key("b", nil, "approve", "grants")
	two := waitsForN(2)
	story := func(grantB bool) *Approve {
		token := r.deferred(agent, r.id("args"), two)
		first, second := r.answer(a, token, true), r.answer(b, token, true)
		first.Grant, first.NewGrant = &GrantAsk{TTL: time.Hour, MaxUses: 5}, r.id("stg_")
		if grantB {
			second.Grant = &GrantAsk{TTL: time.Minute, MaxUses: 1}
		}
		second.NewGrant = r.id("stg_")
		r.must(first)
		if first.Out.Granted != "" {
			t.Error("a grant before the quorum")
		}
		r.must(second)
		return second
	}
	if c := story(false); c.Out.Granted != "" || c.Out.GrantNote == "" {
		t.Errorf("one of two asked for a grant: %q %q", c.Out.Granted, c.Out.GrantNote)
	}
	c := story(true)
	if c.Out.Granted == "" {
		t.Fatal("no grant")
	}
	g := r.s.grants.byID[c.Out.Granted]
	if g.MaxUses != 1 || g.Expires.Sub(r.clock.Now()) != time.Minute || len(g.Issuers) != 2 {
		t.Errorf("not the narrowest of what was asked: %+v", g)
	}
	r.wants(r.spends(agent, two), standing)
	r.wants(r.spends(agent, two), "DEFER RULE_DEFER")
}

// TestQuorumOfNamedApprovers: who is not named does not count, and is told so.
func TestQuorumOfNamedApprovers(t *testing.T) {
	r, agent, boss := cast(t)
	a, b := r.key("a", nil, "approve"), r.key("b", nil, "approve")
	v := waitsForN(2)
	v.From = []string{"key:name of a", "key:name of b"}
	token := r.deferred(agent, "x", v)
	r.refused(r.answer(boss, token, true), sdk.CodeNotApprover)
	r.must(r.answer(a, token, true))
	r.must(r.answer(a, token, true)) // the same approver twice is one
	r.wants(r.redeem(agent, "x", token, v), mismatch)
	last := r.answer(b, token, true)
	r.must(last)
	if last.Out.Status != Approved {
		t.Errorf("after both: %s", last.Out.Status)
	}
	r.wants(r.redeem(agent, "x", token, v), consumed)
}

// Whoever makes as many grants as they may leaves room for those of others, also after rolling their key and after a
// restart.
func TestGrantsOfOneIssuerLeaveRoom(t *testing.T) {
	r, _, _ := cast(t)
	greedy, other := r.key("greedy", nil, "grants"), r.key("another", nil, "grants")
	add := func(k *Key) error {
		g := &Grant{ID: r.id("stg_"), AgentID: "x", ToolPattern: "**", IssuedBy: k.ID, Issuers: []string{k.ID}}
		return r.commit(&AddGrant{Grant: g, TTL: time.Hour, Key: k, By: Who{Principal: k.ID}, Most: 10, Each: 3})
	}
	for range 3 {
		if err := add(greedy); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(greedy); err == nil || !strings.Contains(err.Error(), "limits.grants_per_key") {
		t.Errorf("one more than its share: %v", err)
	}
	if err := add(other); err != nil {
		t.Errorf("another's: %v", err)
	}
	r.must(&RollKey{ID: greedy.ID, New: &Key{ID: "rolled", MAC: []byte("rolled")}, By: system})
	for _, restart := range []bool{false, true} {
		if restart {
			r.reopen()
		}
		if err := add(r.s.Key("rolled")); err == nil || !strings.Contains(err.Error(), "limits.grants_per_key") {
			t.Errorf("the key that it was rolled to: %v", err)
		}
	}
	r.clock.advance(time.Hour)
	if err := add(r.s.Key("rolled")); err != nil {
		t.Errorf("when the others have expired: %v", err)
	}
}

// An approval with a grant is bound by the share too, before anything is signed.
func TestApprovalWithAGrantBeyondTheShareSignsNothing(t *testing.T) {
	r, agent, _ := cast(t)
	boss := r.key("boss2", nil, "approve", "grants")
	approve := func(token string) error {
		c := r.answer(boss, token, true)
		c.Grant, c.NewGrant, c.EachGrants = &GrantAsk{TTL: time.Hour}, r.id("stg_"), 1
		return r.commit(c)
	}
	if err := approve(r.deferred(agent, "1", waits)); err != nil {
		t.Fatal(err)
	}
	token := r.deferred(agent, "2", waits)
	if err := approve(token); err == nil || !strings.Contains(err.Error(),
		"(limits.grants_per_key); nothing was approved") || r.status(agent, token) != Pending {
		t.Errorf("%v, %s", err, r.status(agent, token))
	}
}

// defersBy is a DEFER of those rules, in the order in which their steps stand. "" is a step that names no rule.
func defersBy(rules ...string) (v sdk.Verdict, quorums []sdk.Quorum) {
	v = waits
	v.RuleID = rules[0]
	for _, rule := range rules {
		quorums = append(quorums, sdk.Quorum{N: 1, Rule: rule})
	}
	return v, quorums
}

// A grant that is bound to a rule lifts that rule's defer, and no other step's, whichever comes first.
func TestGrantLiftsNoOtherRule(t *testing.T) {
	for _, c := range []struct {
		name  string
		grant string // its rule
		rules []string
		want  string
	}{
		{"its own", "a", []string{"a"}, standing},
		{"its own, twice", "a", []string{"a", "a"}, standing},
		{"another", "a", []string{"b"}, "DEFER RULE_DEFER"},
		{"its own first", "a", []string{"a", "b"}, "DEFER RULE_DEFER"},
		{"its own last", "a", []string{"b", "a"}, "DEFER RULE_DEFER"},
		{"its own, then a step without a rule", "a", []string{"a", ""}, "DEFER RULE_DEFER"},
		{"a step without a rule", "a", []string{""}, "DEFER RULE_DEFER"},
		{"bound to none", "", []string{"a", "b", ""}, standing},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, agent, _ := cast(t)
			r.grants(&Grant{AgentID: "agent", ToolPattern: "**", RuleID: c.grant, IssuedBy: "console:ann",
				Issuers: []string{"console:ann"}})
			v, quorums := defersBy(c.rules...)
			r.wants(r.spendsAgainst(agent, v, quorums), c.want)
		})
	}
}

// A grant that comes with an approval stands against all that had deferred that call, and against nothing else. It does
// so after a restart too.
func TestGrantOfAnApprovalKnowsItsRules(t *testing.T) {
	for _, c := range []struct {
		name     string
		approved []string
		then     map[string]string // the rules of a later call: what becomes of it
	}{
		{"two rules", []string{"a", "b"}, map[string]string{"a": standing, "b": standing, "a b": standing, "b a": standing, "a c": "DEFER RULE_DEFER", "c": "DEFER RULE_DEFER", "c b a": "DEFER RULE_DEFER", "a -": "DEFER RULE_DEFER"}},
		{"a step without a rule", []string{""}, map[string]string{"-": standing, "a": "DEFER RULE_DEFER", "- a": "DEFER RULE_DEFER"}},
		{"a rule and a step without one", []string{"", "a"}, map[string]string{"-": standing, "a": standing, "a -": standing, "b": "DEFER RULE_DEFER"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, agent, boss := cast(t)
			v, quorums := defersBy(c.approved...)
			d := r.spendsAgainst(agent, v, quorums)
			r.must(d)
			yes := r.answer(boss, d.Out.Token, true)
			yes.Grant, yes.NewGrant = &GrantAsk{TTL: time.Hour}, r.id("stg_")
			r.must(yes)
			if yes.Out.Granted == "" {
				t.Fatalf("no grant: %s", yes.Out.GrantNote)
			}
			for range 2 {
				for rules, want := range c.then {
					v, quorums := defersBy(strings.Split(strings.ReplaceAll(rules, "-", ""), " ")...)
					r.wants(r.spendsAgainst(agent, v, quorums), want)
				}
				r.reopen()
			}
		})
	}
}
