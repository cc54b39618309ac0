package store

import (
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
	c := r.call(r.k, "x", sdk.Verdict{Effect: sdk.Defer})
	r.must(c)
	r.leave(0)
	r.refused(r.kill("agent", false), sdk.CodeNotDurable)
	if r.s.Killed(r.k, "agent", "", "") == nil {
		t.Fatal("not in effect")
	}
	if got := r.status(r.k, c.Out.Token); got != Denied {
		t.Errorf("status after the kill's answer: %s", got)
	}
	l := &ListPending{Key: boss, Most: 10}
	r.s.FindPending(l)
	r.must(l)
	if l.Out.Total != 0 || len(l.Out.Calls) != 0 {
		t.Errorf("list after the kill's answer: %d of %d", len(l.Out.Calls), l.Out.Total)
	}
	r.leave(80 * mib)
	r.must(&Note{Type: "tick", By: system})
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
	for l.s.Healthy() != nil {
	}
	l.must(c)
	if len(c.Out.Calls) != 0 || c.Out.Total != 0 {
		t.Errorf("%d of %d", len(c.Out.Calls), c.Out.Total)
	}
}
