package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// TestARepeatSpendsNoApproval: nobody runs the call of a permit that says repeat, so no approval may go with one. The
// caller is told of the approval, and its next request is the first to be permitted.
func TestARepeatSpendsNoApproval(t *testing.T) {
	for name, before := range map[string]func(r *rig, agent, boss *Key){
		"its own approval was spent": func(r *rig, agent, boss *Key) {
			c := r.found(agent, "job", "x", waits)
			r.must(c)
			r.must(r.answer(boss, c.Out.Token, true))
			r.wants(r.found(agent, "other", "x", waits), consumed)
		},
		"the rules permitted it": func(r *rig, agent, _ *Key) {
			r.wants(r.found(agent, "job", "x", permit), "PERMIT RULE_PERMIT")
		},
		"a grant permitted it": func(r *rig, agent, _ *Key) {
			g := r.granted("agent", 0)
			c := r.found(agent, "job", "x", waits)
			c.Grants = []*Grant{g}
			r.wants(c, "PERMIT STANDING_APPROVAL_CONSUMED")
			r.must(&RevokeGrant{ID: g.ID, By: system})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, agent, boss := cast(t)
			before(r, agent, boss)
			third := r.found(agent, "third", "x", waits)
			r.wants(third, "DEFER RULE_DEFER")
			r.must(r.answer(boss, third.Out.Token, true))
			again := r.found(agent, "job", "x", waits)
			r.wants(again, "DEFER RULE_DEFER")
			if !again.Out.Approved || again.Out.Token != third.Out.Token || r.status(agent, third.Out.Token) != Approved {
				t.Errorf("%+v", again.Out)
			}
			runs := r.found(agent, "job", "x", waits)
			if r.wants(runs, consumed); runs.Out.Repeat || runs.Out.Token != third.Out.Token {
				t.Errorf("%+v", runs.Out)
			}
			if err := consistent(r.s); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnActionsApprovalIsNotFound: only an action spends the approval that it waits for. Who has joined its call is not
// told that the approval can be used, and an action is told of no other approval.
func TestAnActionsApprovalIsNotFound(t *testing.T) {
	r, agent, boss := cast(t)
	ids, token := r.joins(agent, "x", 1)
	joined := func() *Decide {
		c := r.found(agent, "job", "x", waits)
		c.Digest = r.call(agent, "x", waits).Digest
		return c
	}
	first := joined()
	if r.wants(first, "DEFER RULE_DEFER"); first.Out.Token != token {
		t.Fatal("it has not joined the action's call")
	}
	r.must(r.answer(boss, token, true))
	told := joined()
	if r.wants(told, "DEFER RULE_DEFER"); told.Out.Approved {
		t.Errorf("%+v", told.Out)
	}
	plain := r.found(agent, "", "x", waits)
	if r.wants(plain, "DEFER RULE_DEFER"); plain.Out.Approved || plain.Out.Token == token {
		t.Errorf("%+v", plain.Out)
	}
	r.wants(r.start(r.read(agent, ids[0]), agent, "x", waits), consumed)

	free := r.approved(agent, boss, "y")
	c := r.submitted(agent, "y", waits)
	c.Redeem.Auto = true
	if r.wants(c, "DEFER RULE_DEFER"); c.Out.Approved || c.Out.Token == free {
		t.Errorf("an action: %+v", c.Out)
	}
	r.wants(r.found(agent, "", "y", waits), consumed)
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestRandomRedemptions: whatever was asked with or without a token, under which names, and repeated: each approval is
// spent by one permit, the first one that anybody gets for it, and the rules of today are never overridden.
func TestRandomRedemptions(t *testing.T) {
	for seed := range uint64(60) {
		r := newRig(t)
		agent, boss := r.key("agent", nil, "authorize"), r.key("boss", nil, "approve")
		rng := rand.New(rand.NewPCG(seed, 7))
		var tokens []string
		permits, approved := map[string]int{}, map[string]bool{}
		for range 60 {
			switch n := rng.IntN(8); {
			case n < 2 && len(tokens) > 0:
				c := r.answer(boss, tokens[len(tokens)-1-rng.IntN(min(len(tokens), 2))], rng.IntN(5) > 0)
				if r.commit(c) == nil && c.Yes {
					approved[c.Token] = true
				}
			case n == 2 && rng.IntN(4) == 0:
				r.reopen()
				agent, boss = r.s.Key("agent"), r.s.Key("boss")
			case n == 2:
				r.clock.advance(time.Duration(rng.IntN(2)) * time.Minute)
			default:
				c := r.randomAsk(rng, agent, tokens)
				was := map[string]string{}
				for _, token := range tokens {
					was[token] = r.status(agent, token)
				}
				r.must(c)
				if _, known := was[c.Out.Token]; !known && c.Out.Token != "" {
					tokens = append(tokens, c.Out.Token)
				}
				first := c.Out.Code == sdk.ReasonApprovalConsumed && !c.Out.Repeat
				if first {
					permits[c.Out.Token]++
				}
				for token, was := range was {
					if was == Approved && r.status(agent, token) == Consumed && !(first && c.Out.Token == token) {
						t.Errorf("seed %d: %s is spent by %+v", seed, token, c.Out)
					}
				}
				switch v := c.Policy.Verdict.Effect; {
				case v == sdk.Deny && c.Out.Effect != sdk.Deny, first && (permits[c.Out.Token] > 1 || !approved[c.Out.Token]),
					c.Out.Effect == sdk.Permit && v == sdk.Defer && c.Out.Code != sdk.ReasonApprovalConsumed && !c.Out.Repeat:
					t.Errorf("seed %d: %+v", seed, c.Out)
				}
			}
		}
		if err := consistent(r.s); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		r.close()
	}
}

// randomAsk is one request for the call x, with or without a call_id, an Idempotency-Key and a token.
func (r *rig) randomAsk(rng *rand.Rand, agent *Key, tokens []string) *Decide {
	v := waits
	if rng.IntN(8) == 0 {
		v = []sdk.Verdict{permit, deny}[rng.IntN(2)]
	}
	id, args := []string{"", "a", "b", "a-resume"}[rng.IntN(4)], "x"
	if id == "" {
		args = "agentx" // its digest is that of the named ones
	}
	c := r.found(agent, id, args, v)
	c.Redeem.Auto = rng.IntN(3) > 0
	if id == "a-resume" {
		c.Redeem.CallID, c.Redeem.CallHash = "a", hashed(agent, "agent", "a")
	}
	if rng.IntN(4) == 0 && len(tokens) > 0 {
		c.Redeem.Token = tokens[rng.IntN(len(tokens))]
	}
	if rng.IntN(3) == 0 {
		c.Names.Hashes, c.Names.Keyed = append(c.Names.Hashes, [16]byte{9, byte(rng.IntN(2))}), true
	}
	return c
}
