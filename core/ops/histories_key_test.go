package ops_test

import (
	"context"
	"fmt"
	mrand "math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
)

// keyState is one key: "" before it is made, live, grace until a time, dead.
type keyState struct {
	is         string
	until, now int64
}

// keyStep is the specification of one key.
func keyStep(s keyState, d deed, out string) (keyState, bool) {
	if d.do == "later" {
		s.now += d.n
		if s.is == "grace" && s.now >= s.until {
			s.is = "dead"
		}
		return s, true
	}
	dead := s
	dead.is = "dead"
	switch d.do {
	case "create":
		was := s.is
		s.is = "live"
		return s, was == ""
	case "use":
		if s.is == "dead" {
			return s, out == "key_revoked"
		}
		return s, s.is != "" && out == "PERMIT"
	case "revoke":
		switch {
		case out == unknown:
			return dead, true
		case s.is == "dead":
			return s, out == "conflict"
		}
		return dead, s.is != "" && out == ""
	case "roll":
		if s.is != "live" {
			return s, out == "conflict"
		}
		if d.n == 0 {
			return dead, out == ""
		}
		s.is, s.until = "grace", s.now+d.n
		return s, out == ""
	}
	return s, false
}

var keySpec = specification(keyState{}, keyStep)

// keyGroup is some clients around one key and what it is rolled to.
type keyGroup struct {
	made   chan struct{}
	keys   [2]atomic.Pointer[ops.NewKey]
	rolled atomic.Bool
}

// parts are the parts of all groups of a round.
func partsOf(w *world, groups int, names ...string) []string {
	var out []string
	for g := range groups {
		for _, n := range names {
			out = append(out, fmt.Sprintf("%s %d-%d", n, w.rounds, g))
		}
	}
	return out
}

// keyRound has four keys, eight clients each: some use it, two revoke it, one rolls it, one moves the clock.
func keyRound(w *world) {
	const groups = 4
	var all [groups]keyGroup
	for i := range all {
		all[i].made = make(chan struct{})
	}
	parts := partsOf(w, groups, "key", "rolled")
	w.everybody(func(c int, rng *mrand.Rand) {
		g, in := &all[c%groups], c/groups
		name := [2]string{parts[c%groups*2], parts[c%groups*2+1]}
		if in == 0 {
			w.h.do(c, name[0], deed{do: "create"}, func() string {
				g.keys[0].Store(w.newKey(name[0], "agent"))
				close(g.made)
				return ""
			})
		}
		<-g.made
		for i := range 12 {
			which := rng.IntN(2)
			if g.keys[which].Load() == nil {
				which = 0
			}
			k := g.keys[which].Load()
			switch {
			case in == 1 && i == 4 && g.rolled.CompareAndSwap(false, true):
				w.roll(c, g, name, time.Duration(rng.IntN(2))*10*time.Minute)
			case (in == 2 || in == 3) && i > 5 && rng.IntN(4) == 0:
				w.h.do(c, name[which], deed{do: "revoke"}, func() string {
					return unsureCode(w.svc.RevokeKey(context.Background(), k.Key.ID, admin))
				})
			case c == clients-1 && i == 8:
				w.advance(c, 11*time.Minute, parts)
			default:
				w.use(c, name[which], k)
			}
		}
	})
}

// unsureCode is the code of an error, unknown for what may have been written.
func unsureCode(err error) string {
	if got := code(err); got != "audit_unavailable" {
		return got
	}
	return unknown
}

// roll rolls a group's key. The new one begins its life in the same moment.
func (w *world) roll(c int, g *keyGroup, name [2]string, grace time.Duration) {
	call := w.h.tick.now()
	k, err := w.svc.RollKey(context.Background(), g.keys[0].Load().Key.ID, grace, admin)
	w.h.add(c, call, deed{do: "roll", n: int64(grace)}, code(err), name[0])
	if err == nil {
		w.h.add(c, call, deed{do: "create"}, "", name[1])
		g.keys[1].Store(k)
	}
}

// use is one authorize with a key. One that could not be recorded says nothing about the key and is left out.
func (w *world) use(c int, part string, k *ops.NewKey) {
	call := w.h.tick.now()
	answer, got := w.send(request{key: k.Value, op: "authorize", body: `{"agent_id":"a","tool_id":"permit"}`})
	if got != "audit_unavailable" {
		w.h.add(c, call, deed{do: "use"}, member(answer, "effect")+got, part)
	}
}

func TestKeyHistories(t *testing.T) {
	requireOrder(t, newWorld(t, newUnsure), full(4, 60), keySpec, keyRound,
		"create", "use PERMIT", "use key_revoked", "revoke", "revoke conflict", "roll", "later")
}
