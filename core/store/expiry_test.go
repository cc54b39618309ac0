package store

import (
	"testing"
	"time"
)

// What is due is as much as there is that can end, however often it comes and goes.
func TestDuesAreBounded(t *testing.T) {
	r, agent, boss := cast(t)
	a := r.key("a", nil, "approve")
	again := r.approved(agent, a, "again")
	check := func(when string) {
		t.Helper()
		r.must(Barrier{boss})
		if st := r.s.seq.state; len(st.dues) != len(st.live) || len(st.dueOf) != len(st.live) {
			t.Fatalf("%s: %d are due, %d by token, %d live", when, len(st.dues), len(st.dueOf), len(st.live))
		}
	}
	for range 20 {
		waiting := r.deferred(agent, r.id("args"), waits)
		r.must(r.kill(KillKey, "a", false, nil))
		r.wants(r.redeem(agent, "again", again, waits), "DEFER RULE_DEFER")
		r.must(r.kill(KillKey, "a", true, nil))
		r.must(r.answer(a, again, true))
		r.must(r.answer(boss, waiting, false))
		check("it goes on")
	}
	if st := r.s.seq.state; len(st.dues) != 1 {
		t.Errorf("%d are due", len(st.dues))
	}
	other := r.key("other", nil, "authorize")
	theirs := r.deferred(other, "theirs", waits)
	r.must(&RevokeKey{ID: "other", Grace: time.Minute, By: system}) // sooner than its own time
	check("the key that asked will end")
	r.clock.advance(time.Minute)
	r.must(Barrier{boss})
	if r.s.seq.state.live[theirs] != nil {
		t.Error("it outlived the key that asked")
	}
	check("that key has ended")
	r.reopen()
	boss = r.s.Key("boss")
	check("after a restart")
	r.clock.advance(time.Hour)
	r.must(Barrier{boss})
	check("all is over")
	if n := len(r.s.seq.state.dues); n != 0 {
		t.Errorf("%d are due of nothing", n)
	}
}

// A time that is put off or brought forward is the one that counts.
func TestDuesFollowTheirCalls(t *testing.T) {
	st, at := newState(), time.Unix(1000, 0)
	d := []*Defer{{Token: "a"}, {Token: "b"}, {Token: "c"}}
	for i, c := range []struct{ d, at, next int }{{0, 5, 5}, {1, 3, 3}, {2, 4, 3}, {1, 9, 4}, {0, 1, 1}, {0, 9, 4},
		{2, 9, 9}} {
		st.remind(d[c.d], at.Add(time.Duration(c.at)))
		if want := at.Add(time.Duration(c.next)); !st.next().Equal(want) || len(st.dues) > len(d) {
			t.Errorf("step %d: %v, want %v; %d are due", i, st.next(), want, len(st.dues))
		}
	}
	st.unremind("a")
	st.unremind("a")
	st.unremind("none")
	if len(st.dues) != 2 || len(st.dueOf) != 2 || st.dues[0].d.Token != "b" {
		t.Errorf("left: %v", st.dues)
	}
}
