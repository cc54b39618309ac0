package store

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// owedCase takes something away: cmd makes the command, gone reports whether it has. typ is the record that says so.
type owedCase struct {
	typ  string
	make func(l *laterRig) (cmd func() Command, gone func() bool)
}

// brief is an approver whose key ends while the disk stands still.
func (l *laterRig) brief() *Key {
	l.must(&CreateKey{Key: &Key{ID: "brief", Name: "brief", Scopes: []string{"approve"}, MAC: []byte("brief"),
		CreatedAt: l.clock.Now(), ExpiresAt: l.clock.Now().Add(time.Minute)}, By: system})
	return l.s.Key("brief")
}

func (l *laterRig) withdrawal(token string) *Approve {
	c := l.answer(l.boss, token, false)
	c.Withdraw = true
	return c
}

var owedCases = map[string]owedCase{
	"a denial": {"defer_resolved", func(l *laterRig) (func() Command, func() bool) {
		token := l.pending("x")
		return func() Command { return l.answer(l.boss, token, false) }, l.is(token, Denied)
	}},
	"a denial by a key that ends meanwhile": {"defer_resolved", func(l *laterRig) (func() Command, func() bool) {
		token, brief := l.pending("x"), l.brief()
		return func() Command { return l.answer(brief, token, false) }, l.is(token, Denied)
	}},
	"a denial under an Idempotency-Key": {"defer_resolved", func(l *laterRig) (func() Command, func() bool) {
		token := l.pending("x")
		cmd := func() Command {
			c := l.answer(l.boss, token, false)
			c.Idem = &Idempotency{Hash: [16]byte{5}}
			return c
		}
		return cmd, func() bool {
			again := cmd().(*Approve)
			l.must(again)
			return string(again.Idem.Replay) == Denied+" " && l.is(token, Denied)()
		}
	}},
	"a withdrawal": {"grant_revoked", func(l *laterRig) (func() Command, func() bool) {
		token := l.pending("x")
		yes := l.longYes(token)
		yes.Grant, yes.NewGrant = &GrantAsk{TTL: 24 * time.Hour}, "stg_x"
		l.must(yes)
		return func() Command { return l.withdrawal(token) }, func() bool {
			l.wants(l.redeem(l.agent, "x", token, waits), mismatch)
			return l.is(token, Denied)() && len(l.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool"})) == 0
		}
	}},
	"an action's denial": {"defer_resolved", func(l *laterRig) (func() Command, func() bool) {
		a := l.action("x", sdk.Defer)
		return func() Command { return &ApproveAction{ID: a.ID, Approve: *l.answer(l.boss, a.Token, false)} }, func() bool {
			return l.read(l.agent, a.ID).Status == ActionDenied
		}
	}},
	"the denial of a changed action that was joined": {"defer_resolved", func(l *laterRig) (func() Command, func() bool) {
		first, a := l.action("x", sdk.Defer), l.action("x", sdk.Defer)
		change := l.longYes(first.Token)
		change.Quorums = []sdk.Quorum{{N: 2}}
		change.Modified, change.ModifiedHash, change.View, change.NewToken = []byte(`{"a":1}`), [32]byte{1},
			[]byte(`{"args":{"a":1}}`), "apr_x"
		l.must(change)
		return func() Command { return &ApproveAction{ID: a.ID, Approve: *l.answer(l.boss, "apr_x", false)} }, func() bool {
			return l.read(l.agent, a.ID).Status == ActionDenied
		}
	}},
	"an action's withdrawal": {"defer_resolved", func(l *laterRig) (func() Command, func() bool) {
		a := l.action("x", sdk.Defer)
		l.must(l.longYes(a.Token))
		return func() Command { return &ApproveAction{ID: a.ID, Approve: *l.withdrawal(a.Token)} }, func() bool {
			return l.read(l.agent, a.ID).Status == ActionDenied
		}
	}},
	"a grant's revocation": {"grant_revoked", func(l *laterRig) (func() Command, func() bool) {
		g := &Grant{ID: "stg_x", AgentID: "agent", ToolPattern: "**", IssuedBy: "console:ann",
			Issuers: []string{"console:ann"}}
		l.must(&AddGrant{Grant: g, TTL: 24 * time.Hour, By: system, Most: 10})
		return func() Command { return &RevokeGrant{ID: g.ID, Key: l.boss, By: Who{Principal: "boss"}} }, func() bool {
			return len(l.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool"})) == 0
		}
	}},
	"a key's revocation": {"key_revoked", func(l *laterRig) (func() Command, func() bool) {
		ward := l.key("their", nil, "authorize")
		token := l.deferred(ward, "x", waits)
		return func() Command { return &RevokeKey{ID: "their", By: Who{Principal: "admin:0"}} }, func() bool {
			k := l.s.Key("their")
			l.refused(l.call(k, "y", permit), sdk.CodeKeyRevoked)
			return k.Revoked(l.clock.Now()) != nil && k.Revocation().By == "admin:0" && l.s.open.by[token] == nil
		}
	}},
	"the end of a session": {"console_sign_out", func(l *laterRig) (func() Command, func() bool) {
		l.add("ann", RoleAdmin)
		l.must(&PutSession{In: l.o, Session: Session{IDHash: sid(1), Operator: "ann", Created: l.clock.Now(),
			Seen: l.clock.Now()}, By: system})
		return func() Command { return &EndSession{In: l.o, ID: sid(1), By: system} }, func() bool {
			_, is := l.o.Session(sid(1))
			return !is
		}
	}},
	"a kill": {"kill", func(l *laterRig) (func() Command, func() bool) {
		return func() Command {
				k := Kill{Scope: KillAgent, Target: "agent"}
				return &KillSwitch{Kill: k, By: system, Held: l.s.Hold(k), Idem: &Idempotency{Hash: [16]byte{5}},
					Answer: func(Kill, int) []byte { return nil }}
			}, func() bool {
				return l.s.Killed(l.agent, "agent", "", "tool") != nil
			}
	}},
}

// owedPaths are the ways of a command into a stall.
var owedPaths = map[string]func(l *laterRig, cmd Command) error{
	"in the batch that stalls": func(l *laterRig, cmd Command) error {
		done := make(chan error, 1)
		go func() { done <- l.commit(cmd) }()
		<-l.disk.begun
		l.s.seq.look(l.clock.advance(time.Hour))
		return <-done
	},
	"behind it": func(l *laterRig, cmd Command) error {
		note := l.flying()
		done := make(chan error, 1)
		go func() { done <- l.commit(cmd) }()
		for queued := 0; queued == 0; {
			l.s.seq.mu.Lock()
			queued = l.s.seq.queue.len()
			l.s.seq.mu.Unlock()
		}
		l.s.seq.look(l.clock.advance(time.Hour))
		<-note
		return <-done
	},
	"while the disk stands still": func(l *laterRig, cmd Command) error {
		note := l.flying()
		l.s.seq.look(l.clock.advance(time.Second * 3599)) // a moment before the limit
		l.s.seq.look(l.clock.advance(time.Second))
		<-note
		return l.commit(cmd)
	},
}

// flying has something written on the disk that stands still.
func (l *laterRig) flying() chan error {
	done := make(chan error, 1)
	go func() { done <- l.s.Commit(context.Background(), &Note{Type: "tick", By: system}) }()
	<-l.disk.begun
	return done
}

func (l *laterRig) goOn() {
	l.disk.goOn()
	healthyAgain(l.t, l.s)
	l.must(&Note{Type: "tick", By: system})
}

func (l *laterRig) records(typ string) (n int) {
	l.t.Helper()
	rows, _, err := logOf(l.s)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Type == typ {
			n++
		}
	}
	return n
}

// What only takes something away holds when the disk does not take it in time: it is in effect, and is written once
// when the disk goes on.
func TestTakersHoldThroughAStall(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(owedCases)) {
		for _, path := range slices.Sorted(maps.Keys(owedPaths)) {
			if name == "a denial by a key that ends meanwhile" && path == "while the disk stands still" {
				continue // it has ended
			}
			t.Run(name+" "+path, func(t *testing.T) {
				l, c := newLaterRig(t), owedCases[name]
				cmd, gone := c.make(l)
				before := l.records(c.typ)
				l.disk.stop()
				first := owedPaths[path](l, cmd())
				again := first
				if path != "in the batch that stalls" && name != "a denial by a key that ends meanwhile" {
					again = l.commit(cmd())
				}
				if (name == "a key's revocation") != (l.s.Key("their") != nil && l.s.Key("their").Revoked(l.clock.Now()) != nil) {
					t.Error("the key lives on")
				}
				if _, is := l.o.Session(sid(1)); is {
					t.Error("the session goes on")
				}
				l.goOn()
				if codeOf(first) != sdk.CodeNotDurable || codeOf(again) != sdk.CodeNotDurable {
					t.Errorf("got %v, then %v", first, again)
				}
				if !gone() {
					t.Error("it came to nothing")
				}
				if n := l.records(c.typ) - before; n != 1 {
					t.Errorf("%d records of it", n)
				}
				if err := consistent(l.s); err != nil {
					t.Error(err)
				}
				l.restart()
				l.agent, l.boss = l.s.Key("agent"), l.s.Key("boss")
				if !gone() {
					t.Error("it did not outlive a restart")
				}
			})
		}
	}
}

// What something else than the disk may be in the way of, or gives something, is refused and comes to nothing.
func TestWhatDoesNotHoldInAStall(t *testing.T) {
	l := newLaterRig(t)
	token, own := l.pending("x"), l.key("own", []string{"agent"}, "authorize", "approve")
	other := l.key("other", []string{"cat"}, "approve", "grants")
	a := l.action("y", sdk.Defer)
	g := l.granted("agent", 0)
	approved := l.pending("z")
	l.must(l.longYes(approved))
	l.must(&RevokeKey{ID: "other", Grace: 24 * time.Hour, By: system})
	l.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "dog"}, By: system})
	gone := l.key("gone", nil, "approve")
	l.must(&RevokeKey{ID: "gone", By: system})
	l.disk.stop()
	note := l.flying()
	l.s.seq.look(l.clock.advance(time.Hour))
	<-note
	for name, c := range map[string]Command{
		"an approval":                            l.answer(l.boss, token, true),
		"a denial of nothing":                    l.answer(l.boss, "dfr_none", false),
		"a denial by who asked":                  l.answer(own, token, false),
		"a denial by who does not see the agent": l.answer(other, token, false),
		"a denial by a key that is revoked":      l.answer(gone, token, false),
		"a denial of what is approved":           l.answer(l.boss, approved, false),
		"an action's denial by another token":    &ApproveAction{ID: a.ID, Approve: *l.answer(l.boss, token, false)},
		"a denial of no action":                  &ApproveAction{ID: "act_none", Approve: *l.answer(l.boss, a.Token, false)},
		"a revocation by who does not see it":    &RevokeGrant{ID: g.ID, Key: other, By: system},
		"a revocation of no grant":               &RevokeGrant{ID: "stg_none", By: system},
		"a revocation of no key":                 &RevokeKey{ID: "none", By: system},
		"one of a key that is revoked":           &RevokeKey{ID: "gone", By: system},
		"one that comes later":                   &RevokeKey{ID: "agent", Grace: time.Hour, By: system},
		"the end of no session":                  &EndSession{In: l.o, ID: sid(9), By: system},
		"an undo": &KillSwitch{Kill: Kill{Scope: KillAgent, Target: "dog"}, By: system,
			Undo: true},
	} {
		if got := codeOf(l.commit(c)); got != sdk.CodeAuditUnavailable {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if n := len(l.s.seq.owed.list); n != 0 {
		t.Errorf("%d commands are owed", n)
	}
	l.goOn()
	if !l.is(token, Pending)() || !l.is(approved, Approved)() || l.read(l.agent, a.ID).Status != ActionPending ||
		g.Revocation() != nil || l.agent.Revocation() != nil {
		t.Error("something has come of it")
	}
}

// A denial that another answer was ahead of, in the batch that stalled: that answer is void, and the denial is not.
func TestDenialBehindAVoidApproval(t *testing.T) {
	l := newLaterRig(t)
	token := l.pending("x")
	l.lateTogether(l.longYes(token), l.answer(l.boss, token, false))
	if got := l.status(l.agent, token); got != Denied {
		t.Errorf("it is %s", got)
	}
	if err := consistent(l.s); err != nil {
		t.Error(err)
	}
}

// However often somebody says so, what is owed is bounded by what there is to be taken away.
func TestOwedIsBounded(t *testing.T) {
	l := newLaterRig(t)
	token := l.pending("x")
	l.disk.stop()
	note := l.flying()
	l.s.seq.look(l.clock.advance(time.Hour))
	<-note
	for range 100 {
		l.refused(l.answer(l.boss, token, false), sdk.CodeNotDurable)
	}
	if n := len(l.s.seq.owed.list); n != 1 {
		t.Errorf("%d commands are owed", n)
	}
	l.goOn()
	if n := len(l.s.open.by); n != 0 {
		t.Errorf("%d names of open calls are left", n)
	}
}
