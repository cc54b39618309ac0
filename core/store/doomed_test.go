package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// A kill that is in effect and not on disk, on a full disk: who lists then.
func TestListsBesideAKillThatTheDiskHasNotTaken(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	for r.s.room.ballast.drop() {
	}
	boss := r.key("key_boss", nil, "approve")
	c := r.submitted(r.k, "x", sdk.Verdict{Effect: sdk.Defer})
	r.must(c)
	r.leave(0)
	r.refused(r.kill("agent", false), sdk.CodeNotDurable)
	r.refused(r.kill("agent", false), sdk.CodeNotDurable) // sent again
	if r.s.Killed(r.k, "agent", "", "") == nil {
		t.Fatal("not in effect")
	}
	if got := r.status(r.k, c.Out.Token); got != Denied {
		t.Errorf("status after the kill's answer: %s", got)
	}
	a := &ReadAction{Key: r.k, ID: made(c).ID}
	if r.must(a); a.Out.Status != ActionDenied || a.Out.Reason != "killed" {
		t.Errorf("its action is %s: %q", a.Out.Status, a.Out.Reason)
	}
	r.refused(&LookAt{Token: c.Out.Token, Key: boss}, sdk.CodeAlreadyResolved)
	l := &ListPending{Key: boss, Most: 10}
	r.s.FindPending(l)
	r.must(l)
	if l.Out.Total != 0 || len(l.Out.Calls) != 0 {
		t.Errorf("list after the kill's answer: %d of %d", len(l.Out.Calls), l.Out.Total)
	}
	r.leave(80 * mib)
	r.must(&Note{Type: "tick", By: system})
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system, Undo: true})
	c = r.call(r.k, "y", sdk.Verdict{Effect: sdk.Defer})
	r.must(c)
	r.s.FindPending(l)
	if got := r.status(r.k, c.Out.Token); got != Pending || l.Out.Total != 1 || r.s.open.left.Load() != nil {
		t.Errorf("what was asked for behind the undo is %s, one of %d", got, l.Out.Total)
	}
}

// A kill that a stall makes owed; a list made once it is answered, and committed with the first batch behind the stall.
func TestListBehindAStall(t *testing.T) {
	l := newLaterRig(t)
	d := l.call(l.agent, "x", sdk.Verdict{Effect: sdk.Defer})
	d.Defer.TTL = 24 * time.Hour
	l.must(d)
	l.disk.stop()
	note := l.flying()
	l.s.seq.look(l.clock.advance(time.Second * 3599))
	l.s.seq.look(l.clock.advance(time.Second))
	<-note
	k := Kill{Scope: KillAgent, Target: "agent", By: "ward"}
	l.refused(&KillSwitch{Kill: k, By: system, Held: l.s.Hold(k)}, sdk.CodeNotDurable)
	c := &ListPending{Key: l.boss, Most: 10}
	l.s.FindPending(c)
	l.disk.goOn()
	healthyAgain(t, l.s)
	l.must(c)
	if len(c.Out.Calls) != 0 || c.Out.Total != 0 {
		t.Errorf("%d of %d", len(c.Out.Calls), c.Out.Total)
	}
}

// TestRestoreOfAKillThatWasUndone: what a kill has denied stays so in a restored store, also where its undo came before
// all of the denials were written.
func TestRestoreOfAKillThatWasUndone(t *testing.T) {
	r := newRig(t)
	agent := r.key("agent", nil, "authorize")
	r.must(inBatch(func(tx *tx) { tx.s.set.share, tx.s.set.shareEvery = 1, time.Hour }))
	var tokens []string
	for i := range 3 {
		tokens = append(tokens, r.deferred(agent, fmt.Sprint("x", i), sdk.Verdict{}))
	}
	m := r.backedUp(t, "backup")
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system})
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system, Undo: true})
	n := NewSince(m)
	if err := r.s.Records(1, n.Record); err != nil {
		t.Fatal(err)
	}
	x := restoreOf(r.fs, r.clock, "backup", "applied", "sto_applied")
	x.Since, x.Apply = n, true
	_, to := restored(t, x)
	for _, token := range tokens {
		if d, err := (&tx{s: to.s, q: to.s.seq, st: to.s.seq.state}).find(token); err != nil || d.Status != Denied {
			t.Errorf("call %s is %s: %v", token, d.Status, err)
		}
	}
	if err := to.s.Close(); err != nil {
		t.Fatal(err)
	}
}
