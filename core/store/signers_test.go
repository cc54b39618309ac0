package store

import (
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// TestKilledKeysSignNothing: whatever lets somebody do something is refused; what is stricter is not.
func TestKilledKeysSignNothing(t *testing.T) {
	r, agent, boss := cast(t)
	approver, acts := r.key("approver", nil, "approve", "grants", "kill"),
		r.key("acts", []string{"cat"}, "authorize", "approve", "grants")
	heir := func(old, name string) *Key { // rolled: killed under any id of its line
		r.must(&RollKey{ID: old, New: &Key{ID: name, MAC: []byte(name), CreatedAt: r.clock.Now()}, By: system})
		return r.s.Key(name)
	}
	rolled := heir(r.key("first", nil, "approve", "grants", "kill").ID, "second")
	ann := (&Operator{Name: "ann", Role: RoleAdmin}).Approver()
	grant := func(k *Key) *AddGrant {
		return &AddGrant{Grant: &Grant{ID: r.id("stg_"), AgentID: "agent", ToolPattern: "none", IssuedBy: k.ID,
			Issuers: []string{k.ID}}, TTL: time.Hour, Key: k, By: Who{Principal: k.ID}, Most: 1000}
	}
	for _, c := range []struct {
		scope, target string
		key           *Key
		want          sdk.Code
	}{
		{KillKey, approver.ID, approver, sdk.CodeKeyKilled}, {KillKey, rolled.ID, rolled, sdk.CodeKeyKilled}, {KillKey, "first", rolled, sdk.CodeKeyKilled},
		{KillGlobal, "", approver, sdk.CodeKeyKilled}, {KillAgent, "cat", acts, sdk.CodeKeyKilled}, {KillAgent, "c*", acts, sdk.CodeKeyKilled},
		{KillKey, approver.ID, boss, ""}, {KillKey, boss.ID, approver, ""}, {KillAgent, "cat", approver, ""}, {KillSession, "elsewhere", approver, ""}, {KillTool, "elsewhere", approver, ""},
		{KillKey, approver.ID, ann, ""}, {KillGlobal, "", ann, sdk.CodeUnknownDefer},
	} {
		t.Run(c.scope+" "+c.target+" "+c.key.ID, func(t *testing.T) {
			killed := c.want != ""
			pending := func() string { return r.deferred(agent, r.id("args"), waits) }
			plain, modified, granting, withdrawn, denied := pending(), pending(), pending(), pending(), pending()
			r.must(r.answer(boss, withdrawn, true))
			before := grant(c.key)
			before.Key = nil
			r.must(before)
			r.must(r.kill(c.scope, c.target, false, nil))
			sign := func(cmd Command) {
				t.Helper()
				if got := codeOf(r.commit(cmd)); got != c.want {
					t.Errorf("%T: got %q, want %q", cmd, got, c.want)
				}
			}
			changed := r.answer(c.key, modified, true)
			changed.Modified, changed.View, changed.NewToken = []byte(`{"a":1}`), []byte(`{"args":{"a":1}}`), r.id("apr_")
			if c.scope == KillGlobal { // nothing waits any more
				sign(r.answer(c.key, r.id("none"), true))
				if c.key != ann {
					sign(grant(c.key))
				}
				r.must(r.kill(c.scope, c.target, true, nil))
				return
			}
			sign(r.answer(c.key, plain, true))
			sign(changed)
			if c.key.scope&sdk.ScopeGrants != 0 {
				with := r.answer(c.key, granting, true)
				with.Grant, with.NewGrant = &GrantAsk{TTL: time.Hour}, r.id("stg_")
				sign(with)
				sign(grant(c.key))
			}
			if killed {
				for _, token := range []string{plain, modified, granting} {
					if got := r.status(agent, token); got != Pending {
						t.Errorf("what it was refused to sign is %s", got)
					}
				}
			}
			if c.key == acts {
				r.must(r.kill(c.scope, c.target, true, nil))
				return // it answers no call of another agent
			}
			back := r.answer(c.key, withdrawn, false)
			back.Withdraw = true
			r.must(back)
			r.must(r.answer(c.key, denied, false))
			for _, token := range []string{withdrawn, denied} {
				if got := r.status(agent, token); got != Denied {
					t.Errorf("what it denied is %s", got)
				}
			}
			if c.key != ann {
				r.must(&RevokeGrant{ID: before.Grant.ID, Key: c.key, By: Who{Principal: c.key.ID}})
				r.must(r.kill(KillTool, "another", false, c.key))
				r.must(r.kill(KillTool, "another", true, nil))
			}
			r.must(r.kill(c.scope, c.target, true, nil))
			if again := r.answer(c.key, r.deferred(agent, r.id("args"), waits), true); r.commit(again) != nil {
				t.Error("it signs nothing after the undo")
			}
		})
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestKilledSignersDoNotCount: what a killed key has signed counts for nothing until the kill is undone. Where more has
// happened to the call meanwhile, whoever signed then says so again.
func TestKilledSignersDoNotCount(t *testing.T) {
	r, agent, boss := cast(t)
	a, b := r.key("a", nil, "approve"), r.key("b", nil, "approve")
	kill, undo := func() { r.must(r.kill(KillKey, "a", false, nil)) }, func() { r.must(r.kill(KillKey, "a", true, nil)) }
	status := func(token, want string) {
		t.Helper()
		if got := r.status(agent, token); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	for _, who := range []*Key{a, b} { // who repeats the sign-off
		two := r.deferred(agent, "two "+who.ID, waitsForN(2))
		r.must(r.answer(a, two, true))
		kill()
		second := r.answer(b, two, true)
		r.must(second)
		status(two, Pending)
		if len(second.Out.Signed) != 1 || second.Out.Required != 2 {
			t.Errorf("%d of %d approvals, want 1 of 2", len(second.Out.Signed), second.Out.Required)
		}
		r.must(r.answer(b, two, true))
		status(two, Pending)
		r.reopen()
		agent, boss, a, b = r.s.Key("agent"), r.s.Key("boss"), r.s.Key("a"), r.s.Key("b")
		who = r.s.Key(who.ID)
		undo()
		r.must(r.answer(who, two, true))
		status(two, Approved)
		r.wants(r.redeem(agent, "two "+who.ID, two, waitsForN(2)), consumed)
	}

	held := r.deferred(agent, "held", waitsForN(2)) // a kill that comes to nothing
	r.must(r.answer(a, held, true))
	k := r.s.Hold(Kill{Scope: KillKey, Target: "a"})
	r.refused(r.answer(a, held, true), sdk.CodeKeyKilled)
	r.must(r.answer(b, held, true))
	status(held, Pending)
	r.s.Release(k)
	r.must(r.answer(b, held, true))
	status(held, Approved)

	late := r.approved(agent, a, "late") // it was approved before the kill
	kill()
	r.wants(r.redeem(agent, "late", late, waits), "DEFER RULE_DEFER")
	status(late, Pending)
	r.refused(r.answer(a, late, true), sdk.CodeKeyKilled)
	undo()
	r.must(r.answer(a, late, true))
	r.wants(r.redeem(agent, "late", late, waits), consumed)

	other := r.approved(agent, a, "other") // somebody else takes its place
	kill()
	r.refused(r.answer(a, other, true), sdk.CodeKeyKilled) // nor is it told again what it has approved
	r.wants(r.redeem(agent, "other", other, waits), "DEFER RULE_DEFER")
	r.must(r.answer(boss, other, true))
	r.wants(r.redeem(agent, "other", other, waits), consumed)
	undo()

	keyed := func() *Decide { // a redemption that is sent again
		c := r.redeem(agent, "keyed", late, waits)
		c.Names.Hashes, c.Names.Keyed = [][16]byte{{7}}, true
		return c
	}
	late = r.approved(agent, a, "keyed")
	r.wants(keyed(), consumed)
	kill()
	r.wants(keyed(), mismatch)
	undo()
	r.wants(keyed(), consumed)
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestGrantsOfStoppedIssuers: a grant stands on keys that could sign it now.
func TestGrantsOfStoppedIssuers(t *testing.T) {
	for _, c := range []struct {
		name       string
		stop, undo func(r *rig)
	}{
		{"killed", func(r *rig) { r.must(r.kill(KillKey, "issuer", false, nil)) }, func(r *rig) { r.must(r.kill(KillKey, "issuer", true, nil)) }},
		{"expired", func(r *rig) { r.clock.advance(2 * time.Minute) }, nil},
		{"revoked", func(r *rig) { r.must(&RevokeKey{ID: "issuer", By: system}) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, agent, _ := cast(t)
			r.must(&CreateKey{Key: &Key{ID: "issuer", Name: "issuer", Scopes: []string{"approve", "grants"},
				MAC: []byte("issuer"), CreatedAt: r.clock.Now(), ExpiresAt: r.clock.Now().Add(time.Minute)}, By: system})
			g := r.grants(&Grant{AgentID: "agent", ToolPattern: "**", IssuedBy: "issuer", Issuers: []string{"issuer"}})
			first := r.spends(agent, waits)
			first.Names.Hashes = [][16]byte{{5}}
			repeat := func() *Decide {
				again := *first
				again.ID, again.Defer.Token = r.id("dec_"), r.id("dfr_")
				return &again
			}
			r.wants(first, standing)
			r.wants(repeat(), standing)
			c.stop(r)
			if r.s.Signed(g) {
				t.Error("it is shown as live")
			}
			r.wants(r.spends(agent, waits), "DEFER RULE_DEFER")
			if c.undo == nil {
				r.wants(repeat(), "DEFER RULE_DEFER")
				r.reopen()
				r.wants(r.spends(r.s.Key("agent"), waits), "DEFER RULE_DEFER")
				return
			}
			r.reopen()
			agent = r.s.Key("agent")
			r.wants(r.spends(agent, waits), "DEFER RULE_DEFER")
			c.undo(r)
			r.wants(r.spends(agent, waits), standing)
			first.Key = agent
			r.wants(repeat(), standing)
			c.stop(r)
			r.wants(repeat(), "DEFER RULE_DEFER")
		})
	}
}

// TestSignOffsOutliveTheirKeysTime: an approval was given when the key might give it. That its time is over takes
// nothing back.
func TestSignOffsOutliveTheirKeysTime(t *testing.T) {
	r, agent, boss := cast(t)
	r.must(&CreateKey{Key: &Key{ID: "brief", Name: "brief", Scopes: []string{"approve"}, MAC: []byte("brief"),
		CreatedAt: r.clock.Now(), ExpiresAt: r.clock.Now().Add(time.Minute)}, By: system})
	brief := r.s.Key("brief")
	one, two := r.approved(agent, brief, "one"), r.deferred(agent, "two", waitsForN(2))
	r.must(r.answer(brief, two, true))
	r.clock.advance(2 * time.Minute)
	r.refused(r.answer(brief, two, true), sdk.CodeKeyExpired)
	r.must(r.answer(boss, two, true))
	r.wants(r.redeem(agent, "one", one, waits), consumed)
	r.wants(r.redeem(agent, "two", two, waitsForN(2)), consumed)
}

// TestOneGrantOfACall: what was signed once makes no second grant when it counts again, and no grant that nobody asks
// for now.
func TestOneGrantOfACall(t *testing.T) {
	r, agent, _ := cast(t)
	a, b := r.key("a", nil, "approve", "grants"), r.key("b", nil, "approve", "grants")
	ask := func(k *Key, token string) *Approve {
		c := r.answer(k, token, true)
		c.Grant, c.NewGrant = &GrantAsk{TTL: time.Hour, MaxUses: 1}, r.id("stg_")
		return c
	}
	token := r.deferred(agent, "x", waits)
	first := ask(a, token)
	r.must(first)
	r.wants(r.spends(agent, waits), standing)
	r.must(r.kill(KillKey, "a", false, nil))
	r.wants(r.redeem(agent, "x", token, waits), "DEFER RULE_DEFER")
	r.must(r.kill(KillKey, "a", true, nil))
	again := ask(a, token)
	r.must(again)
	if again.Out.Granted != "" || again.Out.GrantNote == "" || again.Out.Status != Approved ||
		again.Out.GrantID != first.Out.Granted {
		t.Errorf("got %+v, want an approval without another grant", again)
	}
	r.wants(r.spends(agent, waits), "DEFER RULE_DEFER")

	changed := func(full bool) *Approve { // other arguments, sent again with a grant: there must be room for that
		c := ask(b, token)
		c.Modified, c.View, c.NewToken = []byte(`{"a":1}`), []byte(`{"args":{"a":1}}`), r.id("apr_")
		if full {
			c.MostGrants = 0
		}
		return c
	}
	token = r.deferred(agent, "changed", waitsForN(2))
	r.must(changed(false))
	r.refused(changed(true), sdk.CodeTooManyRequests)
	r.must(changed(false))

	r.must(&CreateKey{Key: &Key{ID: "brief", Name: "brief", Scopes: []string{"approve", "grants"}, MAC: []byte("brief"),
		CreatedAt: r.clock.Now(), ExpiresAt: r.clock.Now().Add(time.Minute)}, By: system})
	token = r.deferred(agent, "brief", waitsForN(2))
	r.must(ask(r.s.Key("brief"), token))
	r.clock.advance(2 * time.Minute)
	last := ask(b, token)
	r.must(last)
	if last.Out.Status != Approved || last.Out.Granted != "" || last.Out.GrantNote == "" {
		t.Errorf("with an issuer whose time is over: %s %q %q", last.Out.Status, last.Out.Granted, last.Out.GrantNote)
	}

	for _, asks := range []bool{false, true} {
		token = r.deferred(agent, r.id("two"), waitsForN(2))
		r.must(ask(a, token))
		r.must(r.kill(KillKey, "a", false, nil))
		r.must(ask(b, token))
		r.must(r.kill(KillKey, "a", true, nil))
		again = r.answer(b, token, true)
		if asks {
			again = ask(b, token)
		}
		r.must(again)
		if (again.Out.Granted != "") != asks || (again.Out.GrantNote == "") != asks || again.Out.Status != Approved {
			t.Errorf("asks %v: got %q %q %s", asks, again.Out.Granted, again.Out.GrantNote, again.Out.Status)
		}
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestLateSignOffThatIsSentAgain: an approval by sign-offs that count again is void like any other whose caller was
// refused.
func TestLateSignOffThatIsSentAgain(t *testing.T) {
	l := newLaterRig(t)
	token := l.pending("x")
	l.must(l.longYes(token))
	l.must(l.kill(KillKey, "boss", false, nil))
	c := l.redeem(l.agent, "x", token, waits)
	c.Defer.TTL = 24 * time.Hour
	l.wants(c, "DEFER RULE_DEFER")
	l.must(l.kill(KillKey, "boss", true, nil))
	voids := l.voids()
	l.late(l.longYes(token))
	if n := l.voids() - voids; n != 1 {
		t.Errorf("%d records say that it is void, want 1", n)
	}
	if got := l.status(l.agent, token); got != Pending {
		t.Errorf("after the approval that was refused it is %s", got)
	}
	again := l.longYes(token)
	l.must(again)
	if again.Out.Status != Approved || len(again.Out.Signed) != 1 {
		t.Errorf("sent again it is %s by %d", again.Out.Status, len(again.Out.Signed))
	}
	l.wants(l.redeem(l.agent, "x", token, waits), consumed)
}
