package main

import (
	"github.com/yett-dev/yett/core/admin"
)

// ends are how operations of a history must have ended, each at least once, for it to show anything.
var ends = []string{"spend PERMIT", "spend DEFER", "spend ?", "approve approved", "deny denied",
	"redeem APPROVAL_CONSUMED", "redeem APPROVAL_MISMATCH", "steal APPROVAL_MISMATCH",
	"kill", "undo", "use KILL_SWITCH_ACTIVE", "use RULE_PERMIT", "use PERMIT", "use key_revoked", "revoke"}

// tour is one client that goes through every end but one in turn, while nobody else works: the crowd comes to them by
// chance.
func (w *crew) tour(c *admin.Client) {
	l, of := w.hands[0], &things{round: -1}
	w.addKey(c, of, 0)
	for _, step := range []func() bool{
		func() bool { return l.addGrant(of, 0) }, // for one use
		func() bool { return l.spend(of, 0) },
		func() bool { return l.spend(of, 0) },
		func() bool { return l.ask(of, 0) },
		func() bool { return l.answer(of, 0, "approve") },
		func() bool { return l.redeem(of, 0, "steal", "thief") },
		func() bool { return l.redeem(of, 0, "redeem", "asker") },
		func() bool { return l.redeem(of, 0, "redeem", "asker") },
		func() bool { return l.ask(of, 1) },
		func() bool { return l.answer(of, 1, "deny") },
		func() bool { return l.stop(of, 0, 0) },
		func() bool { return l.useKilled(of, 0) },
		func() bool { return l.stop(of, 0, 0) },
		func() bool { return l.useKilled(of, 0) },
		func() bool { return l.useKey(of, 0) },
		func() bool { return l.revoke(of, 0) },
		func() bool { return l.useKey(of, 0) },
	} {
		if l.n++; !step() {
			w.t.Fatalf("the server does not answer step %d of the tour", l.n)
		}
	}
}

// inVain spends a grant of a server that is dead, which nobody answers and nobody asks for again.
func (w *crew) inVain(of *things) {
	l := w.hands[0]
	l.n += 1 + l.n%2 // odd: an even one would be asked for again
	if l.spend(of, 0) {
		w.t.Error("a dead server answers")
	}
}
