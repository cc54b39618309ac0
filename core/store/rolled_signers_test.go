package store

import (
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// rolls gives a key a new value. The old one ends at once, or after grace.
func (r *rig) rolls(old, id string, grace time.Duration) *Key {
	r.t.Helper()
	r.must(&RollKey{ID: old, New: &Key{ID: id, MAC: []byte(id), CreatedAt: r.clock.Now()}, Grace: grace, By: system})
	return r.s.Key(id)
}

// TestRolledSignersCount: a new value changes nothing of what a key has signed, whenever the old value ends, and it
// makes no second approver of one. What is shown as signed is what counts.
func TestRolledSignersCount(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *rig) *Key // of the first approver's old value
	}{
		{"at once", func(r *rig) *Key { return r.rolls("a", "a2", 0) }},
		{"by hand, within the grace time", func(r *rig) *Key {
			k := r.rolls("a", "a2", time.Hour)
			r.must(&RevokeKey{ID: "a", By: system})
			return k
		}},
		{"when the grace time ends", func(r *rig) *Key {
			k := r.rolls("a", "a2", time.Minute)
			r.clock.advance(2 * time.Minute)
			return k
		}},
		{"twice", func(r *rig) *Key { r.rolls("a", "a1", 0); return r.rolls("a1", "a2", 0) }},
	} {
		for n := range 4 {
			restart, signs := n&1 != 0, n&2 != 0
			t.Run(c.name, func(t *testing.T) {
				r, agent, boss := cast(t)
				a := r.key("a", nil, "approve")
				one, two := r.approved(agent, a, "one"), r.deferred(agent, "two", waitsForN(2))
				r.must(r.answer(a, two, true))
				heir := c.end(r)
				if restart {
					r.reopen()
					agent, boss, heir = r.s.Key("agent"), r.s.Key("boss"), r.s.Key("a2")
				}
				shown := &LookAt{Token: two, Key: boss}
				r.must(shown)
				if len(shown.Out.Signed) != 1 || shown.Out.Required != 2 {
					t.Errorf("%d of %d before", len(shown.Out.Signed), shown.Out.Required)
				}
				same := &Approve{Out: Approval{Defer: shown.Out}}
				if signs { // that adds nothing
					same = r.answer(heir, two, true)
					r.must(same)
				}
				if same.Out.Status != Pending || len(same.Out.Signed) != 1 || same.Out.Required != 2 {
					t.Errorf("by the same owner it is %s: %d of %d", same.Out.Status, len(same.Out.Signed), same.Out.Required)
				}
				second := r.answer(boss, two, true)
				r.must(second)
				if second.Out.Status != Approved || len(second.Out.Signed) != 2 {
					t.Errorf("it is %s: %d of %d", second.Out.Status, len(second.Out.Signed), second.Out.Required)
				}
				r.wants(r.redeem(agent, "two", two, waitsForN(2)), consumed)
				r.wants(r.redeem(agent, "one", one, waits), consumed)
				if err := consistent(r.s); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestNoHeirNoSignOff: once the whole line is revoked, none of its sign-offs counts, nor is it shown, and a new key of
// the same name is another approver.
func TestNoHeirNoSignOff(t *testing.T) {
	r, agent, boss := cast(t)
	one, two := r.approved(agent, r.key("a", nil, "approve"), "one"), r.deferred(agent, "two", waitsForN(2))
	r.must(r.answer(r.s.Key("a"), two, true))
	r.rolls("a", "a2", 0)
	r.must(&RevokeKey{ID: "a2", By: system})
	r.must(&CreateKey{Key: &Key{ID: "namesake", Name: "name of a", Scopes: []string{"approve"}, MAC: []byte("n"),
		CreatedAt: r.clock.Now()}, By: system})
	second := r.answer(boss, two, true)
	r.must(second)
	if second.Out.Status != Pending || len(second.Out.Signed) != 1 || second.Out.Required != 2 {
		t.Errorf("it is %s: %d of %d", second.Out.Status, len(second.Out.Signed), second.Out.Required)
	}
	r.wants(r.redeem(agent, "one", one, waits), "DEFER RULE_DEFER")
	third := r.answer(r.s.Key("namesake"), two, true)
	r.must(third)
	if third.Out.Status != Approved {
		t.Errorf("it is %s", third.Out.Status)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestRefusedRedemptionForgetsNothing: a redemption that spends nothing leaves the approval in memory as it is on disk.
func TestRefusedRedemptionForgetsNothing(t *testing.T) {
	r, agent, boss := cast(t)
	a := r.key("a", nil, "approve")
	token := r.approved(agent, a, "x")
	r.must(r.kill(KillKey, "a", false, nil))
	r.wants(r.redeem(agent, "x", token, waits), "DEFER RULE_DEFER")
	r.must(r.answer(boss, token, true))
	r.must(r.kill(KillKey, "a", true, nil))
	r.must(&RevokeKey{ID: "a", By: system})
	limit := []Charge{charge(sdk.LimitRate, "agent", "1", "1", 24*time.Hour)}
	spent := r.call(agent, "y", permit)
	spent.Limits.Charges = limit
	r.wants(spent, "PERMIT RULE_PERMIT")
	over := r.redeem(agent, "x", token, waits)
	over.Limits.Charges, over.Policy.Quorums = limit, []sdk.Quorum{{N: 1, Rule: "of today"}}
	r.wants(over, "DENY "+sdk.ReasonRateExceeded)
	is, err := (&tx{s: r.s, q: r.s.seq, st: r.s.seq.state}).find(token)
	if err != nil {
		t.Fatal(err)
	}
	row, err := r.s.deferRow(token)
	if err != nil || len(row.Signed) != len(is.Signed) || len(row.Quorums) != len(is.Quorums) {
		t.Errorf("%v: %d sign-offs and %d quorums in memory, %d and %d on disk", err, len(is.Signed), len(is.Quorums),
			len(row.Signed), len(row.Quorums))
	}
}
