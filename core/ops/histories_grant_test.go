package ops_test

import (
	"fmt"
	mrand "math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/core/ops"
)

// grantState is one grant: made with max uses, so many spent, revoked or not.
type grantState struct {
	made, revoked bool
	max, uses     int64
}

func (s grantState) live() bool { return s.made && !s.revoked && (s.max == 0 || s.uses < s.max) }

func (s grantState) status() string {
	switch {
	case !s.made:
		return "none"
	case s.revoked:
		return fmt.Sprintf("revoked %d", s.uses)
	case !s.live():
		return fmt.Sprintf("used_up %d", s.uses)
	}
	return fmt.Sprintf("live %d", s.uses)
}

// grantStep is the specification of one grant. A call that it does not permit is deferred.
func grantStep(s grantState, d deed, out string) (grantState, bool) {
	switch d.do {
	case "add":
		return grantState{made: true, max: d.n}, !s.made && (out == "" || out == unknown)
	case "revoke":
		s.revoked = true
		return s, s.made && (out == "" || out == unknown)
	case "spend":
		switch {
		case s.live(): // what was permitted, and asked again once the grant had ended, is a DEFER that has spent a use
			s.uses++
			return s, out == "PERMIT" || out == unknown || out == deferAgain
		default:
			return s, out == "DEFER" || out == unknown || out == deferAgain
		}
	case "list":
		return s, out == s.status()
	case "rest":
		return s, out == s.status()
	}
	return s, false
}

var grantSpec = specification(grantState{}, grantStep)

// people are the keys of a world's agents, approvers and operators.
type people struct{ agent, other, boss, second, granter, killer *ops.NewKey }

func newPeople(w *world) *people {
	return &people{w.newKey("agent", "agent"), w.newKey("other agent", "agent"), w.newKey("boss", "approver"),
		w.newKey("second boss", "approver"), w.newKey("granter", "operator"), w.newKey("killer", "operator")}
}

// grantRound has four agents, eight clients each: one makes the grant, one revokes it late, the others spend and look.
func grantRound(p *people) func(w *world) {
	return func(w *world) {
		const groups = 4
		var ids [groups]atomic.Pointer[string]
		parts := partsOf(w, groups, "grant")
		w.everybody(func(c int, rng *mrand.Rand) {
			id, part, in := &ids[c%groups], parts[c%groups], c/groups
			most := []int64{1, 2, 20, 0}[c%groups]
			for i := range 12 {
				switch {
				case in == 0 && i == 1:
					w.addGrant(c, p, part, most, rng, id)
				case in == 1 && i == 9 && w.rounds%2 == 0 && id.Load() != nil:
					w.h.do(c, part, deed{do: "revoke"}, func() string {
						_, got := w.patient(rng, request{key: p.granter.Value, op: "standing_grant_revoke",
							body: fmt.Sprintf(`{"grant_id":%q}`, *id.Load())})
						return got
					})
				case in == 2 && !w.noReads:
					w.h.do(c, part, deed{do: "list"}, func() string { return w.listGrant(p, part) })
				default:
					w.spend(c, p, part, rng, i)
				}
			}
		})
		for _, part := range parts {
			if !w.noReads {
				w.h.do(0, part, deed{do: "rest"}, func() string { return w.listGrant(p, part) })
			}
		}
	}
}

// addGrant makes a grant for the agent that is called like the part.
func (w *world) addGrant(c int, p *people, part string, most int64, rng *mrand.Rand, id *atomic.Pointer[string]) {
	w.h.do(c, part, deed{do: "add", n: most}, func() string {
		answer, got := w.patient(rng, request{key: p.granter.Value, op: "standing_grant_add", idem: "add " + part,
			body: fmt.Sprintf(`{"agent_id":%q,"tool_pattern":"defer/*","ttl_seconds":3600,"max_uses":%d}`, part, most)})
		if made := member(answer, "id"); got == "" && made != "" {
			id.Store(&made)
		}
		return got
	})
}

// deferAgain is a DEFER for a call that was asked for before, whose answer was lost.
const deferAgain = "DEFER again"

// spend asks for a call that the rules defer, under a call_id of its own.
func (w *world) spend(c int, p *people, part string, rng *mrand.Rand, n int) string {
	return w.h.do(c, part, deed{do: "spend"}, func() string {
		answer, got, again := w.again(rng, request{key: p.agent.Value, op: "authorize",
			body: fmt.Sprintf(`{"agent_id":%q,"tool_id":"defer/x","args":{"n":%d},"call_id":"%s %d-%d"}`, part, c*1000+n, part,
				c, n)})
		if out := member(answer, "effect") + got; out != "DEFER" || !again {
			return out
		}
		return deferAgain
	})
}

// listGrant is the status and the uses of the one grant of an agent.
func (w *world) listGrant(p *people, agent string) string {
	answer, got := w.send(request{key: p.granter.Value, op: "standing_grant_list",
		body: fmt.Sprintf(`{"agent_id":%q,"include_expired":true}`, agent)})
	if got != "" {
		return got
	}
	if !strings.Contains(answer, `"status"`) {
		return "none"
	}
	_, uses, _ := strings.Cut(answer, `"uses":`)
	uses, _, _ = strings.Cut(uses, ",")
	return member(answer, "status") + " " + uses
}

func TestGrantHistories(t *testing.T) {
	w := newWorld(t, newUnsure)
	requireOrder(t, w, full(4, 60), grantSpec, grantRound(newPeople(w)),
		"add", "spend PERMIT", "spend DEFER", "spend ?", "revoke", "list none", "rest used_up 1", "rest used_up 2")
}
