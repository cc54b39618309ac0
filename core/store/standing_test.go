package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// looks is how a deferred call stands, by every way to read it. They must agree.
func (r *rig) looks(agent, boss *Key, token, action string) string {
	r.t.Helper()
	c := &DeferStatus{Token: token, Key: agent}
	r.must(c)
	d := c.Out
	if d.Status == Pending && d.ResolvedBy+d.EndReason != "" || len(d.Signed) > d.Required {
		r.t.Errorf("pending, and resolved by %q (%q): %d of %d", d.ResolvedBy, d.EndReason, len(d.Signed), d.Required)
	}
	same := func(by string, o *Defer) {
		if o.Status != d.Status || len(o.Signed) != len(d.Signed) || o.Required != d.Required {
			r.t.Errorf("%s it is %s, %d of %d; to the agent %s, %d of %d", by, o.Status, len(o.Signed), o.Required, d.Status,
				len(d.Signed), d.Required)
		}
	}
	asked := &Asked{Decision: d.DecisionID}
	r.must(asked)
	same("to an operator", &asked.Out)
	list := &ListPending{Key: boss, Most: 100}
	r.must(list)
	i := slices.IndexFunc(list.Out.Calls, func(o Defer) bool { return o.Token == token })
	if (i >= 0) != (d.Status == Pending) || list.Out.Total != len(list.Out.Calls) {
		r.t.Errorf("it is %s, and %d in a list of %d", d.Status, i, list.Out.Total)
	} else if i >= 0 {
		same("in the list", &list.Out.Calls[i])
	}
	look := &LookAt{Token: token, Key: boss}
	if err := r.commit(look); (err == nil) != (d.Status == Pending) {
		r.t.Errorf("it is %s, and to look at it is %v", d.Status, err)
	} else if err == nil {
		same("to an approver", &look.Out)
	}
	want := map[string]string{Pending: ActionPending, Approved: ActionApproved}[d.Status]
	if a := r.read(agent, action); a.Status != want {
		r.t.Errorf("it is %s, and its action %s", d.Status, a.Status)
	}
	page, _, err := r.s.Actions(r.t.(*testing.T).Context(),
		&ActionQuery{Status: want, Limit: 100, Sees: func(string) bool { return true }})
	if err != nil || !slices.ContainsFunc(page, func(a *ActionRow) bool { return a.ID == action }) {
		r.t.Errorf("it is %s, and its action is not listed as %s: %v", d.Status, want, err)
	}
	return d.Status
}

// TestApprovalsThatCountNoMore: as soon as a sign-off counts no more, its call waits again for everybody who looks, and
// somebody else may sign it. Where what has stopped the sign-off is undone, the approval is as it was.
func TestApprovalsThatCountNoMore(t *testing.T) {
	for _, c := range []struct {
		name       string
		stop, undo func(r *rig)
		forgets    bool // a restart undoes it
	}{
		{"killed", func(r *rig) { r.must(r.kill(KillKey, "a", false, nil)) }, func(r *rig) { r.must(r.kill(KillKey, "a", true, nil)) }, false},
		{"a kill that is not on disk", func(r *rig) { r.s.Hold(Kill{Scope: KillKey, Target: "a"}) }, nil, true},
		{"revoked", func(r *rig) { r.must(&RevokeKey{ID: "a", By: system}) }, nil, false},
		{"its grace over", func(r *rig) {
			r.must(&RevokeKey{ID: "a", By: system, Grace: time.Minute})
			r.clock.advance(time.Minute)
		}, nil, false},
		{"rolled and revoked", func(r *rig) {
			r.rolls("a", "a2", 0)
			r.must(&RevokeKey{ID: "a2", By: system})
		}, nil, false},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, restart), func(t *testing.T) {
				r, agent, boss := cast(t)
				a := r.key("a", nil, "approve")
				ask := r.submitted(agent, "x", waits)
				r.must(ask)
				token, action := made(ask).Token, made(ask).ID
				r.must(r.answer(a, token, true))
				wants := func(want string, signed, required int) {
					t.Helper()
					d := &DeferStatus{Token: token, Key: agent}
					if got := r.looks(agent, boss, token, action); got != want {
						t.Errorf("it is %s, want %s", got, want)
					}
					if r.must(d); len(d.Out.Signed) != signed || d.Out.Required != required {
						t.Errorf("%s: %d of %d, want %d of %d", want, len(d.Out.Signed), d.Out.Required, signed, required)
					}
				}
				again := func() {
					if restart && !c.forgets {
						r.reopen()
						agent, boss = r.s.Key("agent"), r.s.Key("boss")
					}
				}
				wants(Approved, 1, 1)
				c.stop(r)
				again()
				wants(Pending, 0, 1)
				joins := r.call(agent, "x", waits)
				r.wants(joins, "DEFER RULE_DEFER")
				if joins.Out.Token != token || !joins.Out.joined {
					t.Errorf("asked again, the same call is another one: %+v", joins.Out)
				}
				r.refused(r.start(r.read(agent, action), agent, "x", waits), sdk.CodeConflict)
				if c.undo != nil {
					c.undo(r)
					wants(Approved, 1, 1)
					again()
					wants(Approved, 1, 1)
					c.stop(r)
					wants(Pending, 0, 1)
				}
				shown := r.answer(boss, token, true)
				shown.Digest = "of another call"
				r.refused(shown, sdk.CodeCallChanged)
				sign := r.answer(boss, token, true)
				r.must(sign)
				if sign.Out.Status != Approved || sign.Out.ResolvedBy != boss.ID || len(sign.Out.Signed) != 1 ||
					sign.Out.Required != 1 {
					t.Errorf("signed by another approver: %+v", sign.Out)
				}
				again()
				wants(Approved, 1, 1)
				if err := consistent(r.s); err != nil {
					t.Error(err)
				}
				r.wants(r.start(r.read(agent, action), agent, "x", waits), consumed)
				if err := consistent(r.s); err != nil {
					t.Error(err)
				}
				rows, _, err := logOf(r.s)
				if err != nil {
					t.Fatal(err)
				}
				var story []string
				for _, row := range rows {
					if strings.HasPrefix(row.Type, "defer_") {
						story = append(story, fmt.Sprint(row.Type, " ", row.Status, " ", row.Approvals))
					}
				}
				want := []string{"defer_created pending 0", "defer_signed pending 1", "defer_resolved approved 1",
					"defer_created pending 0", "defer_signed pending 1", "defer_resolved approved 1"}
				if !slices.Equal(story, want) {
					t.Errorf("the log says %q", story)
				}
			})
		}
	}
}

// TestDenialOfAnApprovalThatCountsNoMore: it waits, so any denial ends it, also one that the disk does not take.
func TestDenialOfAnApprovalThatCountsNoMore(t *testing.T) {
	r, agent, boss := cast(t)
	a := r.key("a", nil, "approve")
	token := r.approved(agent, a, "x")
	r.refused(r.answer(boss, token, false), sdk.CodeAlreadyResolved)
	no := r.answer(boss, token, false)
	if _, sure := no.claim(r.s); sure || no.inTime(r.s) {
		t.Error("a denial of an approved call is sure")
	}
	r.must(r.kill(KillKey, "a", false, nil))
	if _, sure := no.claim(r.s); !sure || !no.inTime(r.s) {
		t.Error("a denial of a call that waits is not sure")
	}
	r.must(no)
	if no.Out.Status != Denied || r.status(agent, token) != Denied {
		t.Errorf("%+v", no.Out)
	}
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestSomeSignOffsCountNoMore: of a quorum the rest counts on. One more sign-off makes the call wait for good: an undo
// alone approves it no more, as any call that waits.
func TestSomeSignOffsCountNoMore(t *testing.T) {
	r, agent, boss := cast(t)
	a, b, c := r.key("a", nil, "approve"), r.key("b", nil, "approve"), r.key("c", nil, "approve")
	kill := func(undo bool, ids ...string) {
		for _, id := range ids {
			r.must(r.kill(KillKey, id, undo, nil))
		}
	}
	status := func(token, want string, signed int) {
		t.Helper()
		d := &DeferStatus{Token: token, Key: agent}
		if r.must(d); d.Out.Status != want || len(d.Out.Signed) != signed || d.Out.Required != max(2, signed) {
			t.Errorf("it is %s, %d of %d; want %s, %d of %d", d.Out.Status, len(d.Out.Signed), d.Out.Required, want, signed,
				max(2, signed))
		}
	}
	token := r.deferred(agent, "x", waitsForN(2))
	r.must(r.answer(a, token, true))
	r.must(r.answer(b, token, true))
	kill(false, "a")
	status(token, Pending, 1)
	before := r.s.Seq()
	r.must(r.answer(b, token, true)) // that adds nothing
	if r.s.Seq() != before {
		t.Error("a sign-off that is there already is recorded again")
	}
	kill(true, "a")
	status(token, Approved, 2)
	kill(false, "a", "b")
	status(token, Pending, 0)
	r.must(r.answer(c, token, true))
	status(token, Pending, 1)
	kill(true, "b", "a")
	status(token, Pending, 3)
	r.must(r.answer(c, token, true))
	status(token, Approved, 3)
	r.wants(r.redeem(agent, "x", token, waitsForN(2)), consumed)

	changed := r.approved(agent, a, "y") // an approver of today may put other arguments in place, too
	kill(false, "a")
	yes := r.answer(boss, changed, true)
	yes.Modified, yes.ModifiedHash, yes.View, yes.NewToken = []byte(`{"a":2}`), [32]byte{2}, []byte(`{"args":{"a":2}}`),
		"apr_"
	r.must(yes)
	if yes.Out.Status != Approved || len(yes.Out.Signed) != 1 || yes.Out.Signed[0].Key != "boss" {
		t.Errorf("%+v", yes.Out)
	}
	kill(true, "a")
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// TestRepeatedApprovalsThatCountNoMore: what was answered under an Idempotency-Key is not told again while it is not
// so.
func TestRepeatedApprovalsThatCountNoMore(t *testing.T) {
	r, agent, boss := cast(t)
	a := r.key("a", nil, "approve")
	token := r.deferred(agent, "x", waitsForN(2))
	r.must(r.answer(a, token, true))
	send := func() *Approve {
		c := r.answer(boss, token, true)
		c.Idem = &Idempotency{Hash: [16]byte{7}}
		return c
	}
	r.must(send())
	r.must(r.kill(KillKey, "a", false, nil))
	r.refused(send(), sdk.CodeConflict)
	r.must(r.kill(KillKey, "a", true, nil))
	r.must(send())
}

// TestUndoWakesPollers: who waits for a call whose approval counted no more is told as soon as it counts again.
func TestUndoWakesPollers(t *testing.T) {
	r, agent, _ := cast(t)
	a := r.key("a", nil, "approve")
	token := r.approved(agent, a, "x")
	r.must(r.kill(KillKey, "a", false, nil))
	poll := &DeferStatus{Token: token, Key: agent, Watch: true}
	r.must(poll)
	if poll.Out.Status != Pending || poll.Changed == nil {
		t.Fatalf("%+v", poll.Out)
	}
	r.must(r.kill(KillKey, "a", true, nil))
	<-poll.Changed
	if got := r.status(agent, token); got != Approved {
		t.Errorf("it is %s", got)
	}
	r.must(r.kill(KillKey, "a", false, nil))
	poll = &DeferStatus{Token: token, Key: agent, Watch: true}
	r.must(poll)
	held := r.s.Hold(Kill{Scope: KillGlobal})
	r.s.Release(held)
	stop := &StopWatch{Token: token, Changed: poll.Changed}
	r.must(stop)
	if len(r.s.seq.state.watchers) != 0 {
		t.Error("somebody waits still")
	}
}

// TestLateSignOffOfAnApprovalThatCountsNoMore: a sign-off whose approver was told that it could not be recorded leaves
// the call as it was, the approval that an undo gives back too.
func TestLateSignOffOfAnApprovalThatCountsNoMore(t *testing.T) {
	for name, change := range map[string]bool{"as it is": false, "changed": true} {
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			a := l.key("a", nil, "approve")
			token := l.deferred(l.agent, "x", waits)
			first := l.answer(a, token, true)
			first.ApprovedTTL = 24 * time.Hour // a disk that stalls takes an hour here
			l.must(first)
			kill := func(undo bool) { l.must(l.kill(KillKey, "a", undo, nil)) }
			kill(false)
			yes := l.answer(l.boss, token, true)
			if change {
				yes.Modified, yes.ModifiedHash, yes.View, yes.NewToken = []byte(`{"a":2}`), [32]byte{2}, []byte(`{"args":{"a":2}}`),
					"apr_"
			}
			if got := l.status(l.agent, token); got != Pending {
				t.Fatalf("it is %s", got)
			}
			l.late(yes)
			d := &DeferStatus{Token: token, Key: l.agent}
			if l.must(d); d.Out.Status != Pending || len(d.Out.Signed) != 0 || d.Out.Required != 1 || d.Out.Modified != nil {
				t.Errorf("%+v", d.Out)
			}
			kill(true)
			if l.must(d); d.Out.Status != Approved || d.Out.ResolvedBy != "a" || len(d.Out.Signed) != 1 {
				t.Errorf("%+v", d.Out)
			}
			if err := consistent(l.s); err != nil {
				t.Error(err)
			}
			l.wants(l.redeem(l.agent, "x", token, waits), consumed)
		})
	}
}
