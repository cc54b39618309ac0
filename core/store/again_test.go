package store

import (
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// The answer to a repeat is the stricter of what was answered then and what the chain says now.
func TestRepeatIsTheStricterOfThenAndNow(t *testing.T) {
	for _, c := range []struct {
		then, now sdk.Verdict
		want      string
		own       bool // a decision of its own, not the first one
	}{
		{permit, permit, "PERMIT RULE_PERMIT", false},
		{permit, waits, "DEFER RULE_DEFER", true},
		{permit, deny, "DENY RULE_DENY", true},
		{waits, permit, "DEFER RULE_DEFER", false},
		{waits, waits, "DEFER RULE_DEFER", false},
		{waits, deny, "DENY RULE_DENY", true},
		{deny, permit, "DENY RULE_DENY", false},
		{deny, waits, "DENY RULE_DENY", false},
		{deny, deny, "DENY RULE_DENY", true},
	} {
		for _, restart := range []bool{false, true} {
			r, agent, _ := cast(t)
			r.granted("agent", 0) // a repeat spends no grant
			first := r.repeated(agent, 1, "x", c.then)
			r.must(first)
			if restart {
				r.reopen()
				agent = r.s.Key("agent")
			}
			again := r.repeated(agent, 1, "x", c.now)
			again.Grants = r.s.GrantsFor(&GrantCall{AgentID: again.AgentID, ToolID: again.ToolID, SessionID: again.SessionID,
				Policy: again.Policy.Version})
			got := r.outcome(again)
			if got != c.want || !again.Out.Repeat || (again.Out.DecisionID != first.Out.DecisionID) != c.own {
				t.Errorf("%v, then %v: %s, repeat %v, decision %s after %s", c.then.Effect, c.now.Effect, got, again.Out.Repeat,
					again.Out.DecisionID, first.Out.DecisionID)
			}
			if again.Out.Effect == sdk.Defer && r.status(agent, again.Out.Token) != Pending {
				t.Errorf("%v, then %v: the token is %s", c.then.Effect, c.now.Effect, r.status(agent, again.Out.Token))
			}
			if err := consistent(r.s); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a rule defers today is asked once, however often the call that it permitted before is repeated.
func TestRepeatsOfOneCallShareADefer(t *testing.T) {
	r, agent, boss := cast(t)
	r.wants(r.repeated(agent, 1, "x", permit), "PERMIT RULE_PERMIT")
	one, two := r.repeated(agent, 1, "x", waits), r.repeated(agent, 1, "x", permit)
	r.wants(one, "DEFER RULE_DEFER")
	r.wants(two, "DEFER RULE_DEFER") // the stricter answer has taken the first one's place
	if one.Out.Token == "" || one.Out.Token != two.Out.Token {
		t.Errorf("tokens %q and %q", one.Out.Token, two.Out.Token)
	}
	r.must(r.answer(boss, one.Out.Token, false))
	r.wants(r.repeated(agent, 1, "x", permit), "DENY APPROVAL_DENIED")
}

// A grant's permit is repeated while the grant would still permit such a call, its uses apart.
func TestGrantsPermitIsRepeatedWhileItLives(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(r *rig, g *Grant)
		now    sdk.Verdict
		policy string
		want   string
	}{
		{"live", func(*rig, *Grant) {}, waits, "p", standing},
		{"revoked", func(r *rig, g *Grant) { r.must(&RevokeGrant{ID: g.ID, By: system}) }, waits, "p", "DEFER RULE_DEFER"},
		{"revoked, and the rules permit it", func(r *rig, g *Grant) { r.must(&RevokeGrant{ID: g.ID, By: system}) }, permit, "p", "PERMIT RULE_PERMIT"},
		{"expired", func(r *rig, _ *Grant) { r.clock.advance(5 * time.Minute) }, waits, "p", "DEFER RULE_DEFER"},
		{"its issuer's key is revoked", func(r *rig, _ *Grant) { r.must(&RevokeKey{ID: "boss", By: system}) }, waits, "p", "DEFER RULE_DEFER"},
		{"for another version of the rules", func(*rig, *Grant) {}, waits, "q", "DEFER RULE_DEFER"},
		{"the rule asks for more approvals", func(*rig, *Grant) {}, waitsForN(2), "p", "DEFER RULE_DEFER"},
		{"the rules deny it", func(*rig, *Grant) {}, deny, "p", "DENY RULE_DENY"},
		{"a kill", func(r *rig, _ *Grant) {
			r.must(r.kill(KillAgent, "agent", false, nil))
		}, waits, "p", stopped},
	} {
		for _, uses := range []uint64{1, 0} {
			r, agent, _ := cast(t)
			g := &Grant{ID: r.id("stg_"), AgentID: "agent", ToolPattern: "**", MaxUses: uses, Policy: "p", IssuedBy: "boss",
				Issuers: []string{"boss"}}
			r.must(&AddGrant{Grant: g, TTL: 5 * time.Minute, By: system, Most: 1000})
			ask := func(v sdk.Verdict, policy string) *Decide {
				d := r.repeated(agent, 1, "x", v)
				d.Policy.Version = policy
				d.Grants = r.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool", SessionID: "session", Policy: policy})
				return d
			}
			r.wants(ask(waits, "p"), standing)
			c.end(r, g)
			for range 3 {
				d := ask(c.now, c.policy)
				if got := r.outcome(d); got != c.want || !d.Out.Repeat && c.want != stopped {
					t.Errorf("%s, %d uses: got %s, repeat %v", c.name, uses, got, d.Out.Repeat)
				}
			}
			if g.Uses() != 1 {
				t.Errorf("%s: spent %d times", c.name, g.Uses())
			}
		}
	}
}

// Limits on how often a call may run count repeats; a budget does not.
func TestLimitsCountRepeats(t *testing.T) {
	for _, c := range []struct {
		kind sdk.LimitKind
		want []string
	}{
		{sdk.LimitLoop, []string{"PERMIT RULE_PERMIT", "PERMIT RULE_PERMIT", "DENY LOOP_DETECTED", "DENY LOOP_DETECTED"}},
		{sdk.LimitRate, []string{"PERMIT RULE_PERMIT", "PERMIT RULE_PERMIT", "DENY RATE_EXCEEDED", "DENY RATE_EXCEEDED"}},
		{sdk.LimitBudget, []string{"PERMIT RULE_PERMIT", "PERMIT RULE_PERMIT", "PERMIT RULE_PERMIT", "PERMIT RULE_PERMIT"}},
	} {
		for _, how := range []string{"authorize", "an approval redeemed", "an action", "a grant"} {
			r, agent, boss := cast(t)
			limit := charge(c.kind, "agent", "1", "2", time.Hour)
			g := r.granted("agent", 0)
			token := r.approved(agent, boss, "x")
			ask := func() string {
				d := r.repeated(agent, 1, "x", permit)
				switch how {
				case "an approval redeemed":
					d.Redeem.Token, d.Names.Keyed = token, true
				case "an action":
					idem := [16]byte{9}
					d.Names.Hashes = nil
					d.Action = &NewAction{Action: ActionRow{ID: r.id("act_"), Tool: "tool", Params: `{}`, Context: `{}`}, Idem: &idem}
				case "a grant":
					d = r.repeated(agent, 1, "y", waits)
					d.Grants = []*Grant{g}
				}
				d.Limits.Charges = []Charge{limit}
				r.must(d)
				if a, ok := d.Action.(*NewAction); ok {
					return a.Out.Effect + " " + a.Out.Code
				}
				return d.Out.Effect.String() + " " + d.Out.Code
			}
			for i, want := range c.want {
				if want == "PERMIT RULE_PERMIT" && how == "an approval redeemed" {
					want = consumed
				}
				if want == "PERMIT RULE_PERMIT" && how == "a grant" {
					want = standing
				}
				if got := ask(); got != want {
					t.Errorf("%s, limit %d, call %d: got %s, want %s", how, c.kind, i+1, got, want)
				}
			}
		}
	}
}

// The first call_id of a deferred call answers with what has become of it, and never with a token that is spent.
func TestRepeatOfADeferFollowsIt(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig, agent, boss *Key, token string)
		now  sdk.Verdict
		want string
		same bool // the first token
	}{
		{"pending", func(*rig, *Key, *Key, string) {}, waits, "DEFER RULE_DEFER", true},
		{"approved", func(r *rig, _, boss *Key, token string) { r.must(r.answer(boss, token, true)) }, waits, "DEFER RULE_DEFER", true},
		{"approved, and permitted now", func(r *rig, _, boss *Key, token string) { r.must(r.answer(boss, token, true)) }, permit, "DEFER RULE_DEFER", true},
		{"denied", func(r *rig, _, boss *Key, token string) { r.must(r.answer(boss, token, false)) }, waits, "DENY APPROVAL_DENIED", false},
		{"denied, and permitted now", func(r *rig, _, boss *Key, token string) { r.must(r.answer(boss, token, false)) }, permit, "DENY APPROVAL_DENIED", false},
		{"expired", func(r *rig, _, _ *Key, _ string) { r.clock.advance(5 * time.Minute) }, waits, "DENY APPROVAL_TIMEOUT", false},
		{"redeemed", func(r *rig, agent, boss *Key, token string) {
			r.must(r.answer(boss, token, true))
			r.wants(r.redeem(agent, "x", token, waits), consumed)
		}, waits, "DEFER RULE_DEFER", false},
		{"redeemed, and permitted now", func(r *rig, agent, boss *Key, token string) {
			r.must(r.answer(boss, token, true))
			r.wants(r.redeem(agent, "x", token, waits), consumed)
		}, permit, "PERMIT RULE_PERMIT", false},
	} {
		for _, restart := range []bool{false, true} {
			r, agent, boss := cast(t)
			r.granted("agent", 0)
			first := r.repeated(agent, 1, "x", waits)
			r.wants(first, "DEFER RULE_DEFER")
			c.do(r, agent, boss, first.Out.Token)
			if restart {
				r.reopen()
				agent = r.s.Key("agent")
			}
			again := r.repeated(agent, 1, "x", c.now)
			if c.now.Effect == sdk.Defer {
				again.Grants = r.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool", SessionID: "session", Policy: "p"})
			}
			if got := r.outcome(again); got != c.want || !again.Out.Repeat || (again.Out.Token == first.Out.Token) != c.same {
				t.Errorf("%s: got %s (%s), repeat %v, token %q after %q", c.name, got, again.Out.Reason, again.Out.Repeat,
					again.Out.Token, first.Out.Token)
			}
			if again.Out.Effect == sdk.Defer {
				if at := r.status(agent, again.Out.Token); at != Pending && at != Approved {
					t.Errorf("%s: the token is %s", c.name, at)
				}
			}
		}
	}
}

// A redemption under an Idempotency-Key is answered again as it was, by the stricter of then and now, and spends
// nothing.
func TestRedemptionIsRepeatedUnderItsIdempotencyKey(t *testing.T) {
	keyed := func(r *rig, k *Key, idem byte, args, token string, v sdk.Verdict) *Decide {
		c := r.redeem(k, args, token, v)
		c.Names.Hashes, c.Names.Keyed = [][16]byte{{idem}}, true
		return c
	}
	for _, c := range []struct {
		name  string
		after func(r *rig)
		ask   func(r *rig, k *Key, token string) *Decide
		want  string
	}{
		{"the same again", func(*rig) {}, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "x", token, waits) }, consumed},
		{"after a restart", func(r *rig) { r.reopen() }, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "x", token, waits) }, consumed},
		{"the rules permit it now", func(*rig) {}, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "x", token, permit) }, consumed},
		{"the rules deny it now", func(*rig) {}, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "x", token, deny) }, "DENY RULE_DENY"},
		{"the rules ask for more now", func(*rig) {}, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "x", token, waitsForN(2)) }, mismatch},
		{"its approver's key is revoked", func(r *rig) { r.must(&RevokeKey{ID: "boss", By: system}) }, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "x", token, waits) }, mismatch},
		{"another call", func(*rig) {}, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "y", token, waits) }, "DENY CALL_ID_CONFLICT"},
		{"another Idempotency-Key", func(*rig) {}, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 2, "x", token, waits) }, mismatch},
		{"another token", func(*rig) {}, func(r *rig, k *Key, _ string) *Decide { return keyed(r, k, 1, "x", "dfr_other", waits) }, mismatch},
		{"no Idempotency-Key", func(*rig) {}, func(r *rig, k *Key, token string) *Decide { return r.redeem(k, "x", token, waits) }, mismatch},
		{"long after", func(r *rig) { r.clock.advance(RepeatFor) }, func(r *rig, k *Key, token string) *Decide { return keyed(r, k, 1, "x", token, waits) }, mismatch},
	} {
		r, agent, boss := cast(t)
		token := r.deferred(agent, "x", waits)
		r.wants(keyed(r, agent, 1, "x", token, waits), mismatch) // too early: the same request may be sent again
		r.must(r.answer(boss, token, true))
		first := keyed(r, agent, 1, "x", token, waits)
		r.wants(first, consumed)
		if first.Out.Repeat {
			t.Errorf("%s: the redemption itself is called a repeat", c.name)
		}
		c.after(r)
		again := c.ask(r, r.s.Key("agent"), token)
		r.wants(again, c.want)
		if c.want == consumed && (!again.Out.Repeat || again.Out.DecisionID != first.Out.DecisionID) {
			t.Errorf("%s: repeat %v, decision %s after %s", c.name, again.Out.Repeat, again.Out.DecisionID, first.Out.DecisionID)
		}
		if err := consistent(r.s); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A submission or a start that is sent again gets no more than today's rules allow.
func TestActionsAreRepeatedByTheStricter(t *testing.T) {
	idem := [16]byte{7}
	submit := func(r *rig, k *Key, v sdk.Verdict, keyed bool) *Decide {
		c := r.submitted(k, "x", v)
		if keyed {
			c.Action.(*NewAction).Idem = &idem
		}
		return c
	}
	for _, c := range []struct {
		name      string
		then, now sdk.Verdict
		grant     string // "", live or revoked
		same      bool
		status    string
	}{
		{"permitted", permit, permit, "", true, ActionAllowed},
		{"permitted, deferred now", permit, waits, "", false, ActionPending},
		{"permitted, denied now", permit, deny, "", false, ActionDenied},
		{"deferred, permitted now", waits, permit, "", true, ActionPending},
		{"denied, permitted now", deny, permit, "", true, ActionDenied},
		{"granted", waits, waits, "live", true, ActionAllowed},
		{"granted, revoked since", waits, waits, "revoked", false, ActionPending},
	} {
		for _, keyed := range []bool{false, true} {
			r, agent, _ := cast(t)
			first := submit(r, agent, c.then, keyed)
			var g *Grant
			if c.grant != "" {
				g = r.granted("agent", 1)
				first.Grants = []*Grant{g}
			}
			r.must(first)
			if c.grant == "revoked" {
				r.must(&RevokeGrant{ID: g.ID, By: system})
			}
			again := submit(r, agent, c.now, keyed)
			if c.grant != "" {
				again.Grants = []*Grant{r.granted("agent", 1)} // which a repeat does not spend
			}
			r.must(again)
			a := made(again)
			if same := a.ID == made(first).ID; same != c.same || again.Action.(*NewAction).Twin != c.same ||
				a.Status != c.status {
				t.Errorf("%s, keyed %v: the same action %v, %s", c.name, keyed, same, a.Status)
			}
		}
	}
	for _, c := range []struct {
		name string
		now  sdk.Verdict
		ok   bool
	}{{"permitted", permit, true}, {"deferred now", waits, false}, {"denied now", deny, false}} {
		r, agent, _ := cast(t)
		first := submit(r, agent, permit, false)
		r.must(first)
		start := func(v sdk.Verdict) (*StartAction, error) {
			d := r.start(made(first), agent, "x", v)
			n := d.Action.(*StartAction)
			n.Idem = &idem
			return n, r.commit(d)
		}
		if n, err := start(permit); err != nil || n.Again || n.Out.Status != ActionExecuting {
			t.Fatalf("%s: %v %+v", c.name, err, n)
		}
		n, err := start(c.now)
		if (err == nil) != c.ok || c.ok && (!n.Again || n.Out.Status != ActionExecuting) {
			t.Errorf("started again, %s: %v %+v", c.name, err, n)
		}
	}
}
