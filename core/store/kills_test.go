package store

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

func (r *rig) kill(scope, target string, undo bool, k *Key) *KillSwitch {
	return &KillSwitch{Kill: Kill{Scope: scope, Target: target, By: "boss"}, Key: k, By: Who{Principal: "boss"},
		Undo: undo, Answer: func(Kill, int) []byte { return nil }}
}

const stopped = "DENY KILL_SWITCH_ACTIVE"

// A kill of tools covers what is below each tool that its pattern matches, so that "*" is every tool.
func TestKillOfToolsCoversWhatIsBelow(t *testing.T) {
	for pattern, tools := range map[string]map[string]bool{
		"*":     {"a": true, "a/b": true, "a/b/c": true, "/a": true, "//a/b": true},
		"ok*":   {"ok": true, "okay/x": true, "ok/x/y": true, "no/ok": false},
		"a/*":   {"a": false, "a/b": true, "a/b/c": true, "b/a/c": false},
		"**/rm": {"sh/rm": true, "sh/rm/all": true, "sh/ls": false, "rm": false, "/rm/x": true},
	} {
		set := &killSet{}
		set.sort(&Kill{Scope: KillTool, Target: pattern})
		for tool, want := range tools {
			if got := set.covering("key", "agent", "session", tool) != nil; got != want {
				t.Errorf("a kill of %s covers %s: %v, want %v", pattern, tool, got, want)
			}
		}
	}
}

func TestKillCovers(t *testing.T) {
	for _, c := range []struct {
		scope, target string
		covers        bool
	}{
		{KillGlobal, "", true}, {KillAgent, "agent", true}, {KillAgent, "ag*", true}, {KillAgent, "*", true}, {KillAgent, "another", false}, {KillSession, "session", true},
		{KillSession, "other", false}, {KillTool, "tool", true}, {KillTool, "to**", true}, {KillTool, "tool/*", false}, {KillKey, "agent", true}, {KillKey, "boss", false},
	} {
		t.Run(c.scope+" "+c.target, func(t *testing.T) {
			r, agent, boss := cast(t)
			token := r.approved(agent, boss, "a")
			pending := r.deferred(agent, "b", waits)
			k := r.kill(c.scope, c.target, false, nil)
			r.must(k)
			ways := func() []*Decide {
				dry := r.call(agent, "d", permit)
				dry.DryRun = true
				gate := r.call(agent, "e", permit)
				gate.NoDefer = true
				repeated := r.call(agent, "f", permit)
				repeated.Names.Hashes = [][16]byte{{9}}
				return []*Decide{r.call(agent, "c", permit), r.redeem(agent, "a", token, waits), dry, gate, repeated,
					r.spends(agent, waits)}
			}
			if !c.covers {
				r.wants(ways()[0], "PERMIT RULE_PERMIT")
				return
			}
			if k.Denied != 2 {
				t.Errorf("%d deferred calls were denied, want 2", k.Denied)
			}
			r.granted("agent", 0)
			for range 2 {
				for _, w := range ways() {
					r.wants(w, stopped)
				}
				r.reopen() // it survives
				agent = r.s.Key("agent")
			}
			status := &DeferStatus{Token: pending, Key: agent}
			r.must(status)
			if status.Out.Status != Denied {
				t.Errorf("what was pending is %s", status.Out.Status)
			}
			r.must(r.kill(c.scope, c.target, true, nil))
			r.wants(ways()[0], "PERMIT RULE_PERMIT")
			r.reopen()
			agent = r.s.Key("agent")
			r.wants(r.call(agent, "g", permit), "PERMIT RULE_PERMIT")
			r.wants(r.redeem(agent, "a", token, waits), mismatch) // what was denied stays so
		})
	}
}

func TestWhoUndoesAKill(t *testing.T) {
	r := newRig(t)
	plain, killed := r.key("plain", nil, "kill"), r.key("killed", nil, "kill")
	acts, elsewhere := r.key("acts", []string{"ag*"}, "kill", "authorize"),
		r.key("elsewhere", []string{"cat"}, "kill", "authorize")
	r.must(r.kill(KillAgent, "agent", false, nil))
	r.must(r.kill(KillKey, "killed", false, nil))
	r.refused(r.kill(KillAgent, "agent", true, acts), sdk.CodeUndoRefused)
	r.refused(r.kill(KillAgent, "agent", true, killed), sdk.CodeUndoRefused)
	r.refused(r.kill(KillKey, "killed", true, killed), sdk.CodeUndoRefused)
	r.refused(r.kill(KillAgent, "nobody", true, plain), sdk.CodeUnknownKill)
	r.must(r.kill(KillKey, "killed", true, plain))
	r.must(r.kill(KillAgent, "agent", true, elsewhere))
	for _, scope := range []string{KillSession, KillTool} { // who asks for calls itself may be what it stops
		r.must(r.kill(scope, "t", false, nil))
		r.refused(r.kill(scope, "t", true, elsewhere), sdk.CodeUndoRefused)
		r.must(r.kill(scope, "t", true, plain))
	}
	r.must(r.kill(KillGlobal, "", false, plain))
	r.refused(r.kill(KillGlobal, "", true, plain), sdk.CodeUndoRefused)
	r.must(r.kill(KillGlobal, "", true, nil))
}

// TestKillHoldsBeforeItIsWritten: what is held in memory denies what is committed after it, before its own record is
// there. Letting go of it takes nothing else along, and it is nothing that could be undone.
func TestKillHoldsBeforeItIsWritten(t *testing.T) {
	r, agent, _ := cast(t)
	k := Kill{Scope: KillAgent, Target: "agent"}
	held := r.s.Hold(k)
	r.wants(r.call(agent, "a", permit), stopped)
	r.refused(r.kill(KillAgent, "agent", true, nil), sdk.CodeConflict)
	r.s.Release(held)
	r.wants(r.call(agent, "b", permit), "PERMIT RULE_PERMIT")

	replayed := r.s.Hold(k) // a second one at the same time, which comes to nothing
	r.must(r.kill(KillAgent, "agent", false, nil))
	r.s.Release(replayed)
	r.wants(r.call(agent, "c", permit), stopped)

	early, late := r.s.Hold(k), r.s.Hold(k)
	r.refused(r.kill(KillAgent, "agent", true, nil), sdk.CodeConflict) // it would not let go on: those are on their way
	r.wants(r.call(agent, "d", permit), stopped)
	r.s.Release(late)
	r.refused(r.kill(KillAgent, "agent", true, nil), sdk.CodeConflict)
	r.s.Release(early)
	r.must(r.kill(KillAgent, "agent", true, nil))
	r.wants(r.call(agent, "e", permit), "PERMIT RULE_PERMIT") // and nothing brings the undone one back
}

// A kill ends what began before it, also if it is undone before that is decided.
func TestKillUndoneMeanwhileStopsEarlierCalls(t *testing.T) {
	for _, c := range []struct {
		scope, target string
		covers        bool
	}{{KillGlobal, "", true}, {KillAgent, "ag*", true}, {KillAgent, "another", false}, {KillKey, "agent", true},
		{KillTool, "tool", true}, {KillSession, "other", false}} {
		t.Run(c.scope+" "+c.target, func(t *testing.T) {
			r, agent, _ := cast(t)
			early := func(hash string) *Decide { d := r.call(agent, hash, permit); return d }
			first, dry, again := early("a"), early("b"), early("c")
			dry.DryRun = true
			r.must(r.kill(c.scope, c.target, false, nil))
			r.must(r.kill(c.scope, c.target, true, nil))
			want := stopped
			if !c.covers {
				want = "PERMIT RULE_PERMIT"
			}
			for _, d := range []*Decide{first, dry, again} {
				r.wants(d, want)
			}
			r.wants(r.call(agent, "d", permit), "PERMIT RULE_PERMIT") // a call that begins now
		})
	}
}

// More undone kills than are remembered stop every call that began before them, whatever they were of.
func TestPastKillsAreBounded(t *testing.T) {
	r, agent, _ := cast(t)
	early := r.call(agent, "a", permit)
	for range pastMost + 1 {
		r.must(r.kill(KillAgent, "another", false, nil))
		r.must(r.kill(KillAgent, "another", true, nil))
	}
	if n := len(r.s.kills.past.Load().list); n != pastMost {
		t.Errorf("%d are remembered, want %d", n, pastMost)
	}
	r.wants(early, stopped)
	if strings.Contains(early.Out.Reason, KillAgent) || !strings.Contains(early.Out.Reason, "ask again") {
		t.Errorf("a kill of another agent is named: %q", early.Out.Reason)
	}
	r.wants(r.call(agent, "b", permit), "PERMIT RULE_PERMIT")
}
