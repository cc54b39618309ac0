package ops_test

import (
	"fmt"
	mrand "math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
)

// killState is one target: killed or not, by which kill last, whether that one may still be on its way to the disk, and
// whether a kill has returned.
type killState struct {
	killed, coming, returned bool
	by                       string
}

// killStep is the specification of one target. A PERMIT is two things: the decision, and that it goes out. It may not
// go out once the kill has returned.
func killStep(s killState, d deed, out string) (killState, bool) {
	switch d.do {
	case "kill":
		// a retry that comes behind an undo says so
		return killState{true, true, s.killed && s.returned, d.arg}, out == "" || out == "conflict"
	case "killed":
		if s.killed && s.by == d.arg {
			s.coming, s.returned = false, true
		}
		return s, true
	case "undo":
		if s.killed && out == "conflict" {
			return s, s.coming
		}
		if s.killed {
			return killState{}, out == ""
		}
		return s, out == "unknown_kill"
	case "use":
		return s, out == "DENY KILL_SWITCH_ACTIVE" && s.killed || out == "PERMIT TEST" && !s.killed
	case "sent":
		return s, !s.killed || !s.returned
	}
	return s, false
}

var killSpec = specification(killState{}, killStep)

// killTarget is what a part of a round kills, and calls that are of it.
type killTarget struct{ part, scope, name, key, agent, session, tool string }

// killTargets has one of every scope but global, which would be every part's.
func killTargets(w *world, agent, other *ops.NewKey, parts []string) []killTarget {
	var out []killTarget
	for i, part := range parts {
		t := killTarget{part: part, key: agent.Value, agent: part, session: "s", tool: "permit/x"}
		switch i % 4 {
		case 0:
			t.scope, t.name = store.KillAgent, part
		case 1:
			t.scope, t.name, t.session = store.KillSession, part, part
		case 2:
			t.scope, t.name, t.tool = store.KillTool, "permit/"+part, "permit/"+part
		case 3:
			t.scope, t.name, t.key = store.KillKey, other.Key.ID, other.Value
		}
		out = append(out, t)
	}
	return out
}

// killRound has four targets, eight clients each: one kills and lets go on again, the others act.
func killRound(p *people) func(w *world) {
	return func(w *world) {
		parts := partsOf(w, 4, "kill")
		other := w.newKey(fmt.Sprint("killed ", w.rounds), "agent")
		targets := killTargets(w, p.agent, other, parts)
		for _, part := range parts {
			w.held.begin(part, 2)
		}
		w.everybody(func(c int, rng *mrand.Rand) {
			t, in := &targets[c%4], c/4
			if in == 0 || in == 2 {
				defer w.held.end(t.part)
			}
			for i := range 14 {
				switch {
				case in == 0 && (i%4 == 1 || i == 6):
					w.stop(c, p, t, rng, i)
				case in == 0 && i%4 == 3:
					w.undo(c, p, t)
				case in == 1 && i%4 == 3:
					w.undo(c, p, t)
				case in == 2 && i == 8:
					w.stop(c, p, t, rng, i)
				default:
					w.try(c, t, in != 0 && in != 2)
				}
			}
		})
	}
}

// stop kills; a lost answer is asked for again under the same Idempotency-Key.
func (w *world) stop(c int, p *people, t *killTarget, rng *mrand.Rand, n int) {
	id := fmt.Sprintf("%s %d-%d", t.part, c, n)
	w.h.do(c, t.part, deed{do: "kill", arg: id}, func() string {
		for {
			_, err := w.run(request{key: p.killer.Value, op: "kill", idem: id,
				body: fmt.Sprintf(`{"scope":%q,"target":%q}`, t.scope, t.name)})
			if lost := !w.noLoss && rng.IntN(4) == 0; !lost {
				return code(err)
			}
		}
	})
	call := w.h.tick.now()
	w.h.add(c, call, deed{do: "killed", arg: id}, "", t.part)
	w.held.returned(t.part)
}

// kills are those of a round that have returned, for permits that are held until one more has.
type kills struct {
	mu   sync.Mutex
	more sync.Cond
	n    map[string]int // by part
	to   map[string]int // clients that may still kill
}

func newKills() *kills {
	k := &kills{n: map[string]int{}, to: map[string]int{}}
	k.more.L = &k.mu
	return k
}

// begin says that so many clients kill a part.
func (k *kills) begin(part string, killers int) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.to[part] = killers
}

// end says that one client kills a part no more.
func (k *kills) end(part string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.to[part]--
	k.more.Broadcast()
}

func (k *kills) returned(part string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n[part]++
	k.more.Broadcast()
}

// hold waits until one more kill of a part has returned, or none will.
func (k *kills) hold(part string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := k.n[part]; k.n[part] == n && k.to[part] > 0; {
		k.more.Wait()
	}
}

// undo is an operator's.
func (w *world) undo(c int, p *people, t *killTarget) {
	w.h.do(c, t.part, deed{do: "undo"}, func() string {
		_, err := w.run(request{key: p.killer.Value, op: "kill",
			body: fmt.Sprintf(`{"scope":%q,"target":%q,"undo":true}`, t.scope, t.name)})
		return code(err)
	})
}

// try is one authorize of the target. That a PERMIT goes out is taken down before the request counts as answered. Who
// kills the target holds no permit: it would wait for itself.
func (w *world) try(c int, t *killTarget, holds bool) {
	call := w.h.tick.now()
	id := fmt.Sprint(t.part, " ", call)
	if w.commits != nil && holds {
		w.commits.Store(id, t.part)
	}
	var out string
	_, got := w.send(request{key: t.key, op: "authorize",
		body: fmt.Sprintf(`{"agent_id":%q,"session_id":%q,"tool_id":%q,"call_id":%q}`, t.agent, t.session, t.tool, id),
		sent: func(answer string) {
			out = member(answer, "effect") + " " + member(answer, "reason_code")
			if member(answer, "effect") == "PERMIT" && w.commits == nil {
				if holds {
					w.held.hold(t.part)
				}
				w.h.add(c, w.h.tick.now(), deed{do: "sent"}, "", t.part)
			}
		}})
	if w.commits != nil {
		if began, ok := w.commits.LoadAndDelete(id); ok {
			if at, ok := began.(int64); ok && strings.HasPrefix(out, "PERMIT") {
				call = at // a denial is also right by a kill that was undone before the commit
			}
		}
	}
	if got != "audit_unavailable" {
		w.h.add(c, call, deed{do: "use"}, out+got, t.part)
	}
}

func TestKillHistories(t *testing.T) {
	w := newWorld(t, newUnsure)
	requireOrder(t, w, full(4, 60), killSpec, killRound(newPeople(w)),
		"kill", "undo", "use PERMIT TEST", "use DENY KILL_SWITCH_ACTIVE")
}
