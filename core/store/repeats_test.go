package store

import (
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// repeated is a call with that call_id and args.
func (r *rig) repeated(k *Key, call byte, args string, v sdk.Verdict) *Decide {
	c := r.call(k, args, v)
	c.Names.Hashes = [][16]byte{{call}}
	return c
}

func TestRepeats(t *testing.T) {
	type step struct {
		wait   time.Duration
		args   string
		v      sdk.Verdict
		want   string
		repeat bool
	}
	for _, c := range []struct {
		name  string
		start time.Duration // into the first window
		steps []step
	}{
		{"same call", 0, []step{{0, "x", permit, "PERMIT RULE_PERMIT", false}, {time.Minute, "x", permit, "PERMIT RULE_PERMIT", true}}},
		{"other digest", 0, []step{{0, "x", permit, "PERMIT RULE_PERMIT", false}, {time.Minute, "y", permit, "DENY CALL_ID_CONFLICT", false}, {0, "x", permit, "PERMIT RULE_PERMIT", true}}},
		{"other digest beats a denial's reason", 0, []step{{0, "x", permit, "PERMIT RULE_PERMIT", false}, {0, "y", deny, "DENY CALL_ID_CONFLICT", false}}},
		{"the chain denies today", 0, []step{{0, "x", permit, "PERMIT RULE_PERMIT", false}, {time.Minute, "x", deny, "DENY RULE_DENY", true}, {0, "x", permit, "PERMIT RULE_PERMIT", true}}},
		{"a denial is recalled", 0, []step{{0, "x", deny, "DENY RULE_DENY", false}, {time.Minute, "x", permit, "DENY RULE_DENY", true}}},
		{"a defer is recalled", 0, []step{{0, "x", waits, "DEFER RULE_DEFER", false}, {time.Minute, "x", waits, "DEFER RULE_DEFER", true}, {0, "x", permit, "DEFER RULE_DEFER", true}}},
		{"just before 10 minutes", 0, []step{{0, "x", deny, "DENY RULE_DENY", false}, {10*time.Minute - 1, "x", permit, "DENY RULE_DENY", true}}},
		{"at 10 minutes", 0, []step{{0, "x", deny, "DENY RULE_DENY", false}, {10 * time.Minute, "x", permit, "PERMIT RULE_PERMIT", false}}},
		{"across a window's edge", 9 * time.Minute, []step{{0, "x", deny, "DENY RULE_DENY", false}, {9 * time.Minute, "x", permit, "DENY RULE_DENY", true},
			{time.Minute - 1, "x", permit, "DENY RULE_DENY", true}, {1, "x", permit, "PERMIT RULE_PERMIT", false}}},
		{"forgotten by its own time, not its window's", 9*time.Minute + 59*time.Second, []step{{0, "x", permit, "PERMIT RULE_PERMIT", false}, {10*time.Minute - 1, "y", permit, "DENY CALL_ID_CONFLICT", false},
			{1, "y", permit, "PERMIT RULE_PERMIT", false}}},
		{"long after", 0, []step{{0, "x", deny, "DENY RULE_DENY", false}, {time.Hour, "y", permit, "PERMIT RULE_PERMIT", false}}},
	} {
		for _, restart := range []bool{false, true} {
			r, agent, _ := cast(t)
			r.clock.advance(c.start)
			first := ""
			for i, s := range c.steps {
				r.clock.advance(s.wait)
				if restart {
					r.reopen()
					agent = r.s.Key("agent")
				}
				d := r.repeated(agent, 1, s.args, s.v)
				if got := r.outcome(d); got != s.want || d.Out.Repeat != s.repeat {
					t.Errorf("%s, restart %v, step %d: got %s repeat %v", c.name, restart, i, got, d.Out.Repeat)
				}
				if i == 0 {
					first = d.Out.DecisionID
				}
				if own := d.Out.DecisionID != first; s.repeat && own != (s.want != c.steps[0].want) {
					t.Errorf("%s, step %d: the answer has a decision of its own: %v", c.name, i, own)
				}
			}
		}
	}
}

// A call_id and an Idempotency-Key on one call: each is a repeat of its own, and either one's conflict counts.
func TestTwoRepeatKeys(t *testing.T) {
	r, agent, _ := cast(t)
	both := func(a, b byte, args string) *Decide {
		c := r.call(agent, args, permit)
		c.Names.Hashes = [][16]byte{{a}, {b}}
		return c
	}
	r.wants(both(1, 2, "x"), "PERMIT RULE_PERMIT")
	r.wants(both(3, 4, "y"), "PERMIT RULE_PERMIT")
	for _, c := range []struct {
		a, b   byte
		args   string
		want   string
		repeat bool
	}{{1, 2, "x", "PERMIT RULE_PERMIT", true}, {1, 9, "x", "PERMIT RULE_PERMIT", true},
		{9, 2, "x", "PERMIT RULE_PERMIT", true},
		{1, 4, "x", "DENY CALL_ID_CONFLICT", false}, {3, 2, "x", "DENY CALL_ID_CONFLICT", false}, {8, 2, "z", "DENY CALL_ID_CONFLICT", false}} {
		d := both(c.a, c.b, c.args)
		if got := r.outcome(d); got != c.want || d.Out.Repeat != c.repeat {
			t.Errorf("%+v: got %s repeat %v", c, got, d.Out.Repeat)
		}
	}
}

func TestIdempotency(t *testing.T) {
	r, agent, boss := cast(t)
	asked := r.call(agent, "x", waitsForN(2))
	asked.Defer.TTL = 24 * time.Hour
	r.must(asked)
	token := asked.Out.Token
	signed := func(body byte) *Approve {
		c := r.answer(r.s.Key(boss.ID), token, true)
		c.Idem = &Idempotency{Hash: [16]byte{1}, Body: [32]byte{body}}
		return c
	}
	r.must(signed(1))
	for _, c := range []struct {
		name  string
		after time.Duration
		body  byte
		want  sdk.Code
		again bool
	}{
		{"same body", 0, 1, "", true},
		{"other body", 0, 2, sdk.CodeIdempotencyReused, false},
		{"same body, hours later", 20 * time.Hour, 1, "", true},
		{"just before 24 hours", 4*time.Hour - 1, 1, "", true},
		{"other body, just before 24 hours", 0, 2, sdk.CodeIdempotencyReused, false},
		{"at 24 hours", 1, 2, sdk.CodeDeferExpired, false},
	} {
		r.clock.advance(c.after)
		r.reopen()
		a := signed(c.body)
		err := r.commit(a)
		if codeOf(err) != c.want || (a.Idem.Replay != nil) != c.again || c.again && string(a.Idem.Replay) != Pending+" " {
			t.Errorf("%s: %v, replay %q", c.name, err, a.Idem.Replay)
		}
	}
}
