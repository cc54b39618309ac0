package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// noAnswer is the answer of an operation of which nobody can say whether it happened.
const noAnswer = "?"

// deed is one operation of a history, without its answer.
type deed struct {
	do, arg string
	n       int
}

// history takes down what clients did across all lives of a server, one part for each thing that they did it to.
type history struct {
	tick    atomic.Int64
	mu      sync.Mutex
	parts   map[string][]porcupine.Operation
	ends    map[string]int
	answers int
	enough  int // answers after which reached is closed
	reached chan struct{}
}

func (h *history) until(more int) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enough, h.reached = h.answers+more, make(chan struct{})
	return h.reached
}

// add takes down an operation. One without an answer may still happen any time later, or never: it has no end.
func (h *history) add(client int, part string, call int64, d deed, out string) {
	ret := h.tick.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if out == noAnswer {
		ret = math.MaxInt64
	} else if h.answers++; h.answers == h.enough {
		close(h.reached)
	}
	h.ends[strings.TrimSpace(d.do+" "+out)]++
	h.parts[part] = append(h.parts[part], porcupine.Operation{ClientId: client, Input: d, Call: call, Output: out,
		Return: ret})
}

// crashed takes down, in all parts, that the server died and came back.
func (h *history) crashed(call int64) {
	ret := h.tick.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	for part := range h.parts {
		h.parts[part] = append(h.parts[part], porcupine.Operation{ClientId: -1, Input: deed{do: "crash"}, Call: call,
			Output: "", Return: ret})
	}
}

// check gives the first part that has no order, "" if all have one.
func (h *history) check(specs map[string]porcupine.Model) string {
	for _, part := range slices.Sorted(maps.Keys(h.parts)) {
		kind, _, _ := strings.Cut(part, " ")
		if got := porcupine.CheckOperationsTimeout(specs[kind], h.parts[part], time.Minute); got != porcupine.Ok {
			return fmt.Sprintf("%s: %s\n%s", part, got, h.shown(part))
		}
	}
	return ""
}

// shown is a part as text, in the order of calls.
func (h *history) shown(part string) string {
	var b strings.Builder
	list := slices.Clone(h.parts[part])
	slices.SortFunc(list, func(a, c porcupine.Operation) int { return int(a.Call - c.Call) })
	for _, o := range list {
		d, end := o.Input.(deed), fmt.Sprint(o.Return)
		if o.Return == math.MaxInt64 {
			end = "never"
		}
		fmt.Fprintf(&b, "  client %2d  %6d to %6s  %s %s %d -> %v\n", o.ClientId, o.Call, end, d.do, d.arg, d.n, o.Output)
	}
	return b.String()
}

// lifeModel makes a model from what an operation with that answer may lead to; no next state means that it cannot be.
func lifeModel[S comparable](begin S, next func(S, deed, string) []S) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{begin} },
		Step: func(state, in, out any) []any {
			d := in.(deed)
			var list []any
			for _, s := range next(state.(S), d, out.(string)) {
				list = append(list, s)
			}
			return list
		},
	}
	return m.ToModel()
}

// onlyIf is the one state that follows, if the answer is right. An answer that is not known is.
func onlyIf[S any](right bool, out string, s S) []S {
	if right || out == noAnswer {
		return []S{s}
	}
	return nil
}

// keyLife is a key's state. A revocation that was never answered may have been in effect in memory alone.
type keyLife struct{ made, dead, volatile bool }

func keyNext(s keyLife, d deed, out string) []keyLife {
	switch d.do {
	case "create":
		return onlyIf(!s.made, out, keyLife{made: true})
	case "crash":
		return []keyLife{{made: s.made, dead: s.dead}}
	case "use":
		return onlyIf(s.made && out == map[bool]string{true: "key_revoked", false: "PERMIT"}[s.dead || s.volatile], out, s)
	case "revoke":
		switch {
		case s.dead || s.volatile:
			return onlyIf(out == "conflict", out, s)
		case out == noAnswer:
			return []keyLife{{made: true, dead: true}, {made: true, volatile: true}}
		}
		return onlyIf(out == "", out, keyLife{made: true, dead: true})
	}
	return nil
}

// killLife is a target's state. A kill that was never answered may have been in effect in memory alone.
type killLife struct{ killed, volatile bool }

func killNext(s killLife, d deed, out string) []killLife {
	on := s.killed || s.volatile
	switch d.do {
	case "crash":
		return []killLife{{killed: s.killed}}
	case "use":
		return onlyIf(out == map[bool]string{true: "KILL_SWITCH_ACTIVE", false: "RULE_PERMIT"}[on], out, s)
	case "kill":
		if out == noAnswer {
			return []killLife{{killed: true}, {killed: s.killed, volatile: true}}
		}
		return onlyIf(out == "", out, killLife{killed: true})
	case "undo":
		if on {
			return onlyIf(out == "", out, killLife{})
		}
		return onlyIf(out == "unknown_kill", out, s)
	}
	return nil
}

// grantLife is a grant's state.
type grantLife struct {
	made, revoked bool
	most, uses    int
}

func grantNext(s grantLife, d deed, out string) []grantLife {
	live := s.made && !s.revoked && s.uses < s.most
	switch d.do {
	case "crash":
		return []grantLife{s}
	case "add":
		return onlyIf(!s.made && out == "", out, grantLife{made: true, most: d.n})
	case "revoke":
		s.revoked = true
		return onlyIf(s.made && out == "", out, s)
	case "spend":
		if live {
			s.uses++
			return onlyIf(out == "PERMIT", out, s)
		}
		return onlyIf(out == "DEFER", out, s)
	case "rest":
		if !s.made {
			return onlyIf(out == "none", out, s)
		}
		return onlyIf(out == fmt.Sprint(s.uses, s.revoked), out, s)
	}
	return nil
}

// deferNext is what becomes of the one deferred call of a part.
func deferNext(s string, d deed, out string) []string {
	to := map[string]string{"approve": "approved", "deny": "denied"}[d.do]
	switch d.do {
	case "crash":
		return []string{s}
	case "ask":
		return onlyIf(s == "" && out == "DEFER", out, "pending")
	case "approve", "deny":
		if s == "pending" {
			return onlyIf(out == to, out, to)
		}
		if s == to || s == "consumed" && d.do == "approve" { // there is one approver: it is told how its answer stands
			return onlyIf(out == s, out, s)
		}
		return onlyIf(s != "" && out == "already_resolved by "+s, out, s)
	case "redeem":
		if s == "approved" {
			return onlyIf(out == "APPROVAL_CONSUMED", out, "consumed")
		}
		return onlyIf(out == "APPROVAL_MISMATCH", out, s)
	case "steal":
		return onlyIf(out == "APPROVAL_MISMATCH", out, s)
	case "status":
		return onlyIf(out == s, out, s)
	}
	return nil
}

var lives = map[string]porcupine.Model{"key": lifeModel(keyLife{}, keyNext), "kill": lifeModel(killLife{}, killNext),
	"grant": lifeModel(grantLife{}, grantNext), "defer": lifeModel("", deferNext)}

// The models know what a kill -9 may take along, and what not.
func TestHistoriesAcrossKillsCatch(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		steps      []string // what was done and how it ended, one after the other; an operation with ? has no end
		want       bool
	}{
		{"an answered kill stays", "kill", []string{"kill=", "crash=", "use=KILL_SWITCH_ACTIVE"}, true},
		{"an answered kill is gone", "kill", []string{"kill=", "crash=", "use=RULE_PERMIT"}, false},
		{"an unanswered kill was felt and is gone", "kill", []string{"kill=?", "use=KILL_SWITCH_ACTIVE", "crash=", "use=RULE_PERMIT"}, true},
		{"an unanswered kill comes and goes in one life", "kill", []string{"kill=?", "use=KILL_SWITCH_ACTIVE", "use=RULE_PERMIT"}, false},
		{"nobody killed", "kill", []string{"crash=", "use=KILL_SWITCH_ACTIVE"}, false},
		{"an answered undo is gone", "kill", []string{"kill=", "undo=", "crash=", "use=KILL_SWITCH_ACTIVE"}, false},
		{"a revoked key stays dead", "key", []string{"create=", "revoke=", "crash=", "use=key_revoked"}, true},
		{"a revoked key comes back", "key", []string{"create=", "revoke=", "crash=", "use=PERMIT"}, false},
		{"an unanswered revocation is gone", "key", []string{"create=", "revoke=?", "use=key_revoked", "crash=", "use=PERMIT"}, true},
		{"a key that nobody revoked is dead", "key", []string{"create=", "crash=", "use=key_revoked"}, false},
		{"uses stay", "grant", []string{"add=", "spend=PERMIT", "crash=", "rest=1 false", "spend=PERMIT", "spend=DEFER"}, true},
		{"a use is forgotten", "grant", []string{"add=", "spend=PERMIT", "crash=", "rest=0 false"}, false},
		{"three uses of two", "grant", []string{"add=", "spend=PERMIT", "spend=PERMIT", "crash=", "spend=PERMIT"}, false},
		{"an unanswered use counts or not", "grant", []string{"add=", "spend=?", "spend=PERMIT", "crash=", "spend=PERMIT"}, true},
		{"a use too few", "grant", []string{"add=", "spend=PERMIT", "crash=", "spend=DEFER"}, false},
		{"a grant is gone", "grant", []string{"add=", "crash=", "rest=none"}, false},
		{"a revoked grant is spent", "grant", []string{"add=", "revoke=", "crash=", "spend=PERMIT"}, false},
		{"an approval stays", "defer", []string{"ask=DEFER", "approve=approved", "crash=", "redeem=APPROVAL_CONSUMED"}, true},
		{"two redemptions", "defer", []string{"ask=DEFER", "approve=approved", "redeem=APPROVAL_CONSUMED", "crash=", "redeem=APPROVAL_CONSUMED"}, false},
		{"a stolen approval", "defer", []string{"ask=DEFER", "approve=approved", "crash=", "steal=APPROVAL_CONSUMED"}, false},
		{"two winners", "defer", []string{"ask=DEFER", "approve=approved", "crash=", "deny=denied"}, false},
		{"an unanswered redemption", "defer", []string{"ask=DEFER", "approve=approved", "redeem=?", "crash=", "redeem=APPROVAL_MISMATCH"}, true},
		{"an answered denial is gone", "defer", []string{"ask=DEFER", "deny=denied", "crash=", "status=pending"}, false},
	} {
		h := &history{parts: map[string][]porcupine.Operation{}, ends: map[string]int{}}
		for _, step := range c.steps {
			do, out, _ := strings.Cut(step, "=")
			h.add(0, c.kind+" x", h.tick.Add(1), deed{do: do, n: 2}, out)
		}
		if wrong := h.check(lives); (wrong == "") != c.want {
			t.Errorf("%s: want %v: %s", c.name, c.want, wrong)
		}
	}
}
