package store

import (
	"context"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// lateTogether commits in one batch whose disk stalls: all are refused, and land. It returns once what is to be done
// about that is on disk.
func (l *laterRig) lateTogether(cmds ...Command) {
	l.t.Helper()
	l.disk.stop()
	done := make(chan error)
	commit := func(c Command) { go func() { done <- l.s.Commit(context.Background(), c) }() }
	commit(&Note{Type: "tick", By: system})
	<-l.disk.begun
	for i, c := range cmds {
		commit(c)
		for queued := 0; queued != i+1; {
			l.s.seq.mu.Lock()
			queued = l.s.seq.queue.len()
			l.s.seq.mu.Unlock()
		}
	}
	l.disk.oneMore()
	if err := <-done; err != nil {
		l.t.Fatal(err)
	}
	<-l.disk.begun
	l.s.seq.look(l.clock.advance(time.Hour))
	for range cmds {
		if got := codeOf(<-done); got != sdk.CodeAuditUnavailable && got != sdk.CodeNotDurable {
			l.t.Errorf("got %v", got)
		}
	}
	l.disk.goOn()
	healthyAgain(l.t, l.s)
	l.must(&Note{Type: "tick", By: system})
}

// What finds its answer from before, under its Idempotency-Key, gave nothing: when it comes too late, nothing is taken
// back of what was given then.
func TestLateRepeatsTakeNothingBack(t *testing.T) {
	idem := func() *Idempotency { return &Idempotency{Hash: [16]byte{5}} }
	for name, make := range map[string]func(l *laterRig) (send func() Command, check func() bool){
		"FinishAction": func(l *laterRig) (func() Command, func() bool) {
			a := l.action(`{"to":"me"}`, sdk.Permit)
			l.must(l.start(a, l.agent, `{"to":"me"}`, sdk.Verdict{Effect: sdk.Permit}))
			return func() Command {
					return &FinishAction{Key: l.agent, By: system, ID: a.ID, Idem: idem(),
						Result: ActionResult{Success: true, Value: `1`}, Answer: func(*ActionRow) []byte { return []byte("{}") }}
				}, func() bool {
					a := l.read(l.agent, a.ID)
					return a.Status == ActionSucceeded && a.Params == "{}" && a.Result != nil && a.Result.Value == "1"
				}
		},
		"Approve": func(l *laterRig) (func() Command, func() bool) {
			token := l.pending("x")
			return func() Command {
				c := l.longYes(token)
				c.Idem = idem()
				return c
			}, l.is(token, Approved)
		},
		"AddGrant": func(l *laterRig) (func() Command, func() bool) {
			return func() Command {
					g := &Grant{ID: l.id("stg_"), AgentID: "agent", ToolPattern: "**", IssuedBy: "console:ann",
						Issuers: []string{"console:ann"}}
					return &AddGrant{Grant: g, TTL: 24 * time.Hour, By: system, Most: 10, Idem: idem(), Answer: func(g *Grant) []byte {
						return []byte(g.ID)
					}, Told: func(b []byte) string { return string(b) }}
				}, func() bool {
					n := 0
					err := l.s.Grants("", func(g *Grant) bool { n++; return true })
					return err == nil && n == 1 && len(l.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool"})) == 1
				}
		},
		"KillSwitch, an undo": func(l *laterRig) (func() Command, func() bool) {
			l.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system})
			return func() Command {
				return &KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system, Undo: true, Idem: idem(),
					Answer: func(Kill, int) []byte { return []byte("{}") }}
			}, func() bool { return l.s.Killed(l.agent, "agent", "", "tool") == nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			send, check := make(l)
			l.must(send())
			l.lateTogether(send(), &Note{Type: "tick", By: system})
			if !check() {
				t.Error("what was given before the repeat is gone")
			}
			if n := l.voids(); n != 0 {
				t.Errorf("the log tells of %d things void", n)
			}
			l.restart()
			l.agent, l.boss = l.s.Key("agent"), l.s.Key("boss")
			if !check() {
				t.Error("after a restart, what was given before the repeat is gone")
			}
		})
	}
}
