package store

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// behindCase is a command on the disk that stands still, and one that takes away what it is about: the call of that
// token. again, if not nil, is a redemption that must be refused then.
type behindCase func(l *laterRig) (flying, takes func() Command, token string, again func() *Decide)

func (l *laterRig) changed(token, approval string) *Approve {
	c := l.longYes(token)
	c.Modified, c.ModifiedHash, c.View, c.NewToken = []byte(`{"a":1}`), [32]byte{1}, []byte(`{"args":{"a":1}}`), approval
	return c
}

func (l *laterRig) withGrant(token string) *Approve {
	c := l.longYes(token)
	c.Grant, c.NewGrant = &GrantAsk{TTL: 24 * time.Hour}, "stg_x"
	return c
}

var behindCases = map[string]behindCase{
	"a withdrawal behind a redemption": func(l *laterRig) (func() Command, func() Command, string, func() *Decide) {
		token := l.pending("x")
		l.must(l.withGrant(token))
		again := func() *Decide { return l.redeem(l.agent, "x", token, waits) }
		return func() Command { return again() }, func() Command { return l.withdrawal(token) }, token, again
	},
	"a denial behind an approval": func(l *laterRig) (func() Command, func() Command, string, func() *Decide) {
		token := l.pending("x")
		return func() Command { return l.longYes(token) }, func() Command {
			return l.answer(l.other(), token, false)
		}, token, nil
	},
	"a denial behind an approval with a grant": func(l *laterRig) (func() Command, func() Command, string,
		func() *Decide) {
		token := l.pending("x")
		return func() Command { return l.withGrant(token) }, func() Command {
			return l.answer(l.other(), token, false)
		}, token, nil
	},
	"a denial behind changed arguments": func(l *laterRig) (func() Command, func() Command, string, func() *Decide) {
		token := l.pending("x")
		return func() Command { return l.changed(token, "apr_x") }, func() Command {
			return l.answer(l.other(), token, false)
		}, token, nil
	},
	"an action's withdrawal behind its start": func(l *laterRig) (func() Command, func() Command, string, func() *Decide) {
		a := l.action("x", sdk.Defer)
		l.must(l.longYes(a.Token))
		a = l.read(l.agent, a.ID)
		return func() Command { return l.start(a, l.agent, "x", waits) },
			func() Command { return &ApproveAction{ID: a.ID, Approve: *l.withdrawal(a.Token)} }, a.Token, nil
	},
	"an action's denial behind its approval": func(l *laterRig) (func() Command, func() Command, string, func() *Decide) {
		a := l.action("x", sdk.Defer)
		return func() Command { return &ApproveAction{ID: a.ID, Approve: *l.longYes(a.Token)} },
			func() Command { return &ApproveAction{ID: a.ID, Approve: *l.answer(l.other(), a.Token, false)} }, a.Token, nil
	},
	"an action's denial behind its changed params": func(l *laterRig) (func() Command, func() Command, string,
		func() *Decide) {
		a := l.action("x", sdk.Defer)
		return func() Command { return l.changed(a.Token, "apr_x") },
			func() Command { return &ApproveAction{ID: a.ID, Approve: *l.answer(l.other(), a.Token, false)} }, a.Token, nil
	},
}

// other is another approver.
func (l *laterRig) other() *Key {
	if k := l.s.Key("second"); k != nil {
		return k
	}
	return l.key("second", nil, "approve")
}

// behind commits flying on a disk that stands still, and then takes: queued behind it, or once everything is refused.
func (l *laterRig) behind(flying, takes Command, queued bool) error {
	l.disk.stop()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- l.commit(flying) }()
	<-l.disk.begun
	if queued {
		go func() { second <- l.commit(takes) }()
		l.awaitQueued(1)
	}
	l.s.seq.look(l.clock.advance(time.Hour))
	if got := codeOf(<-first); got != sdk.CodeAuditUnavailable {
		l.t.Errorf("in flight: got %q", got)
	}
	if !queued {
		second <- l.commit(takes)
	}
	return <-second
}

func (l *laterRig) awaitQueued(n int) {
	for queued := 0; queued < n; {
		l.s.seq.mu.Lock()
		queued = l.s.seq.queue.len()
		l.s.seq.mu.Unlock()
	}
}

func (l *laterRig) grantsLeft() int {
	return len(l.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool"}))
}

// What is in flight in a stall is void, so nothing of it is in the way of a denial or a withdrawal.
func TestTakersHoldBehindWhatIsVoid(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(behindCases)) {
		for path, queued := range map[string]bool{"queued": true, "later": false} {
			t.Run(name+" "+path, func(t *testing.T) {
				l := newLaterRig(t)
				l.other()
				flying, takes, token, again := behindCases[name](l)
				err := l.behind(flying(), takes(), queued)
				repeat := l.commit(takes())
				l.goOn()
				if codeOf(err) != sdk.CodeNotDurable || codeOf(repeat) != sdk.CodeNotDurable {
					t.Errorf("got %v, then %v", err, repeat)
				}
				for range 2 {
					if !l.is(token, Denied)() || l.grantsLeft() != 0 {
						t.Errorf("the call is %s, %d grants are left", l.status(l.agent, token), l.grantsLeft())
					}
					if again != nil {
						l.wants(again(), mismatch)
					}
					if err := consistent(l.s); err != nil {
						t.Error(err)
					}
					l.restart()
					l.agent, l.boss = l.s.Key("agent"), l.s.Key("boss")
				}
			})
		}
	}
}

// Where what was in flight is on disk after all, and its caller knows, a later stall does not say that what would have
// been too late is in effect. It is refused, and says that it may be sent again.
func TestTakersBehindWhatLanded(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(behindCases)) {
		if strings.Contains(name, "changed") {
			continue // the call still waits: its denial holds
		}
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			l.other()
			flying, takes, token, _ := behindCases[name](l)
			l.disk.stop()
			first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			go func() { first <- l.commit(flying()) }()
			<-l.disk.begun
			go func() { second <- l.commit(takes()) }()
			go func() { third <- l.commit(&Note{Type: "tick", By: system}) }() // something that the disk must take
			l.awaitQueued(2)
			l.disk.oneMore()
			<-l.disk.begun
			l.s.seq.look(l.clock.advance(time.Hour))
			err := <-second
			<-third
			if e := <-first; e != nil {
				t.Errorf("in flight: %v", e)
			}
			l.goOn()
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.CodeAuditUnavailable || !strings.Contains(e.Msg, "send it again") {
				t.Errorf("got %v", err)
			}
			if l.is(token, Denied)() {
				t.Error("it was denied")
			}
			if err := consistent(l.s); err != nil {
				t.Error(err)
			}
		})
	}
}

// A denial or withdrawal that was told to be in effect takes away what there still is, whatever was on disk before it.
func TestSettlingIsStrict(t *testing.T) {
	for name, c := range map[string]struct {
		before func(l *laterRig, token string)
		want   string
	}{
		"the call is approved": {func(l *laterRig, token string) { l.must(l.withGrant(token)) }, Denied},
		"the call is redeemed": {func(l *laterRig, token string) {
			l.must(l.withGrant(token))
			l.must(l.redeem(l.agent, "x", token, waits))
		}, Consumed},
		"the approval has expired": {func(l *laterRig, token string) {
			c := l.withGrant(token)
			c.ApprovedTTL = time.Minute
			l.must(c)
			l.clock.advance(time.Hour)
			l.must(&Note{Type: "tick", By: system})
		}, Expired},
		"the call was changed": {func(l *laterRig, token string) { l.must(l.changed(token, "apr_x")) }, Denied},
	} {
		for _, surface := range []string{"call", "action"} {
			if surface == "action" && c.want == Consumed {
				continue
			}
			t.Run(name+", "+surface, func(t *testing.T) {
				l := newLaterRig(t)
				a := l.action("x", sdk.Defer)
				no := l.answer(l.other(), a.Token, false)
				var cmd taker = no
				if surface == "action" {
					cmd = &ApproveAction{ID: a.ID, Approve: *no}
				}
				if _, sure := cmd.claim(l.s); !sure {
					t.Fatal("it is not sure")
				}
				c.before(l, a.Token)
				l.s.seq.mu.Lock()
				l.s.seq.owed.list = append(l.s.seq.owed.list, cmd)
				l.s.seq.mu.Unlock()
				l.must(&Note{Type: "tick", By: system})
				if got := l.status(l.agent, a.Token); got != c.want || l.grantsLeft() != 0 {
					t.Errorf("it is %s, %d grants are left", got, l.grantsLeft())
				}
				if err := consistent(l.s); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
