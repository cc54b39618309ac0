package store

import (
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

func charge(kind sdk.LimitKind, per, amount, most string, window time.Duration) Charge {
	c := Charge{Step: "rules", Limit: sdk.Limit{Kind: kind, Rule: "r", Per: per, Window: window, Amount: amount,
		Max: most}}
	copy(c.Counter[:], per+window.String())
	c.Counter[15] = byte(kind)
	return c
}

// limited is a call that is charged.
func (r *rig) limited(k *Key, v sdk.Verdict, charges ...Charge) *Decide {
	c := r.call(k, r.id("args"), v)
	c.Limits.Charges = charges
	return c
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		charge Charge
		permit int
		code   string
	}{
		{"rate", charge(sdk.LimitRate, "agent", "1", "3", time.Minute), 3, "DENY RATE_EXCEEDED"},
		{"budget per session", charge(sdk.LimitBudget, "session", "0.1", "0.3", time.Minute), 3, "DENY BUDGET_SESSION_EXCEEDED"},
		{"budget per agent", charge(sdk.LimitBudget, "agent", "1000000.01", "2000000.02", time.Minute), 2, "DENY BUDGET_DAILY_EXCEEDED"},
		{"budget of what is beyond float64", charge(sdk.LimitBudget, "key", "9007199254740993", "9007199254740993", time.Minute), 1, "DENY BUDGET_DAILY_EXCEEDED"},
		{"loop", charge(sdk.LimitLoop, "", "1", "2", time.Minute), 2, "DENY LOOP_DETECTED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, agent, _ := cast(t)
			for range c.permit {
				r.wants(r.limited(agent, permit, c.charge), "PERMIT RULE_PERMIT")
			}
			r.wants(r.limited(agent, permit, c.charge), c.code)
			r.reopen()
			agent = r.s.Key("agent")
			over := r.limited(agent, permit, c.charge)
			r.wants(over, c.code) // a restart forgets nothing
			if over.Out.RetryAfter <= 0 || over.Out.RetryAfter > time.Minute {
				t.Errorf("the window ends in %v", over.Out.RetryAfter)
			}
			r.wants(r.limited(agent, deny, c.charge), "DENY RULE_DENY")
			r.wants(r.limited(agent, waits, c.charge), c.code) // nobody is asked about what could not be permitted
			r.clock.advance(time.Minute)
			r.wants(r.limited(agent, permit, c.charge), "PERMIT RULE_PERMIT") // the next window is empty
		})
	}
}

// TestChargesAreAllOrNothing: a call that one limit stops is charged to none.
func TestChargesAreAllOrNothing(t *testing.T) {
	r, agent, _ := cast(t)
	wide, narrow := charge(sdk.LimitRate, "agent", "1", "3", time.Minute),
		charge(sdk.LimitRate, "session", "1", "1", time.Minute)
	r.wants(r.limited(agent, permit, wide, narrow), "PERMIT RULE_PERMIT")
	for range 5 {
		r.wants(r.limited(agent, permit, wide, narrow), "DENY RATE_EXCEEDED")
	}
	r.wants(r.limited(agent, permit, wide), "PERMIT RULE_PERMIT")
	r.wants(r.limited(agent, permit, wide), "PERMIT RULE_PERMIT")
	r.wants(r.limited(agent, permit, wide), "DENY RATE_EXCEEDED")
}

// TestTwoLimitsOnOneCounter: what a call adds twice is counted twice.
func TestTwoLimitsOnOneCounter(t *testing.T) {
	r, agent, _ := cast(t)
	c := charge(sdk.LimitBudget, "agent", "1", "3", time.Minute)
	r.wants(r.limited(agent, permit, c, c), "PERMIT RULE_PERMIT")
	r.wants(r.limited(agent, permit, c, c), "DENY BUDGET_DAILY_EXCEEDED")
	r.wants(r.limited(agent, permit, c), "PERMIT RULE_PERMIT")
}

// TestRepeatsAreChargedForRateAlone holds "nothing spent twice, rate still counted".
func TestRepeatsAreChargedForRateAlone(t *testing.T) {
	r, agent, _ := cast(t)
	rate, budget := charge(sdk.LimitRate, "agent", "1", "3", time.Minute),
		charge(sdk.LimitBudget, "agent", "1", "1", time.Minute)
	again := func() *Decide {
		c := r.call(agent, "same", permit)
		c.Names.Hashes, c.Limits.Charges = [][16]byte{{1}}, []Charge{rate, budget}
		return c
	}
	for range 3 {
		r.wants(again(), "PERMIT RULE_PERMIT")
	}
	r.wants(again(), "DENY RATE_EXCEEDED")
}

// TestApprovalsAndGrantsAreCharged: however a call comes to be permitted, its limits hold; what they stop spends no
// approval.
func TestApprovalsAndGrantsAreCharged(t *testing.T) {
	r, agent, boss := cast(t)
	c := charge(sdk.LimitRate, "agent", "1", "1", time.Minute)
	token := r.approved(agent, boss, "a")
	r.wants(r.limited(agent, permit, c), "PERMIT RULE_PERMIT")
	redeem := func() *Decide {
		d := r.redeem(agent, "a", token, waits)
		d.Limits.Charges = []Charge{c}
		return d
	}
	r.wants(redeem(), "DENY RATE_EXCEEDED")
	r.clock.advance(time.Minute)
	r.wants(redeem(), consumed)
	g := r.granted("agent", 0)
	spend := r.limited(agent, waits, c)
	spend.Grants = []*Grant{g}
	r.wants(spend, "DENY RATE_EXCEEDED")
	if g.Uses() != 0 {
		t.Error("a use was spent on a denial")
	}
}

// TestCountersUnderConcurrency: N permits and no more, whoever asks at once.
func TestCountersUnderConcurrency(t *testing.T) {
	r, agent, _ := cast(t)
	c := charge(sdk.LimitRate, "agent", "1", "100", time.Hour)
	calls := make([]*Decide, 400)
	for i := range calls {
		calls[i] = r.limited(agent, permit, c)
	}
	var wg sync.WaitGroup
	for _, d := range calls {
		wg.Go(func() {
			if err := r.commit(d); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, d := range calls {
		if d.Out.Effect == sdk.Permit {
			n++
		}
	}
	if n != 100 {
		t.Errorf("%d permits, the limit is 100", n)
	}
}

// TestOldCountersGo: a window that is over leaves no row.
func TestOldCountersGo(t *testing.T) {
	r, agent, _ := cast(t)
	for range 50 {
		r.must(r.limited(agent, permit, charge(sdk.LimitRate, "agent", "1", "3", time.Minute)))
		r.clock.advance(time.Minute)
	}
	rows := 0
	if err := r.s.scan(prefixCounter, func(_, _ []byte) error { rows++; return nil }); err != nil || rows > 2 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
