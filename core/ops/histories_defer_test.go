package ops_test

import (
	"fmt"
	mrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// deferRow is one deferred call of deferState.
type deferRow struct {
	token, is string
	until     int64
	by        int64 // who answered it
}

// deferState is all deferred calls that one call has had, and the time.
type deferState struct {
	rows [8]deferRow
	now  int64
}

func (s *deferState) find(token string) *deferRow {
	for i := range s.rows {
		if s.rows[i].token == token {
			return &s.rows[i]
		}
	}
	return nil
}

// open is the call's deferred call that an ask is answered with: one that is approved, else one that can be joined.
func (s *deferState) open() *deferRow {
	for _, is := range []string{"approved", "pending"} {
		for i := range s.rows {
			if s.rows[i].is == is {
				return &s.rows[i]
			}
		}
	}
	return nil
}

// fresh is an unused row.
func (s *deferState) fresh() *deferRow { return s.find("") }

// deferStep is the specification of what one call's deferred calls go through. Time alone ends them.
func deferStep(s deferState, d deed, out string) (deferState, bool) {
	if d.do == "later" {
		s.now += d.n
		for i := range s.rows {
			if r := &s.rows[i]; (r.is == "pending" || r.is == "approved") && s.now >= r.until {
				r.is = "expired"
			}
		}
		return s, true
	}
	if d.do == "ask" {
		token, ok := strings.CutPrefix(out, "DEFER ")
		if r := s.open(); r != nil {
			return s, ok && r.token == token
		}
		r := s.fresh()
		if !ok || r == nil || s.find(token) != nil {
			return s, false
		}
		*r = deferRow{token: token, is: "pending", until: s.now + int64(pendingFor)}
		return s, true
	}
	if d.do == "told" { // a repeat, of what has become of its call: a DENY in any state
		return s, strings.HasPrefix(out, "DENY ")
	}
	r := s.find(d.arg)
	if r == nil {
		return s, false
	}
	return s, deferMoves(r, s.now, d, out)
}

// deferMoves is an operation on one deferred call: whether the answer is right, and what becomes of it.
func deferMoves(r *deferRow, now int64, d deed, out string) bool {
	was := r.is
	switch d.do {
	case "approve", "deny":
		switch was {
		case "pending":
			r.is = map[string]string{"approve": "approved", "deny": "denied"}[d.do]
			r.until, r.by = now+int64(approvedFor), d.n
			return out == r.is || out == unknown
		case "expired":
			return out == "defer_expired" || out == unknown
		}
		if r.by == d.n && (was == "denied") == (d.do == "deny") { // the same answer of the same approver
			return out == was || out == unknown
		}
		return out == "already_resolved by "+was || out == unknown
	case "redeem":
		if was == "approved" {
			r.is = "consumed"
			return out == "PERMIT APPROVAL_CONSUMED" || out == unknown
		}
		return out == "DENY APPROVAL_MISMATCH" || out == unknown
	case "steal":
		return out == "DENY APPROVAL_MISMATCH"
	case "status":
		return out == was
	}
	return false
}

var deferSpec = specification(deferState{}, deferStep)

// tokens are those that the clients of one call have seen.
type tokens struct {
	first chan struct{} // closed when there is one
	mu    sync.Mutex
	all   []string
}

func (t *tokens) saw(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all = append(t.all, token); len(t.all) == 1 {
		close(t.first)
	}
}

// one is mostly the newest.
func (t *tokens) one(rng *mrand.Rand) string {
	<-t.first
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.all); rng.IntN(4) == 0 {
		return t.all[rng.IntN(n)]
	}
	return t.all[len(t.all)-1]
}

// deferRound has four calls, eight clients each: they ask, answer, redeem, steal and look, and the clock moves.
func deferRound(p *people) func(w *world) {
	return func(w *world) {
		const groups = 4
		var seen [groups]tokens
		for i := range seen {
			seen[i].first = make(chan struct{})
		}
		parts := partsOf(w, groups, "defer")
		w.everybody(func(c int, rng *mrand.Rand) {
			l := &asker{world: w, people: p, c: c, part: parts[c%groups], rng: rng, seen: &seen[c%groups]}
			for i := range 12 {
				switch {
				case c == clients-1 && i == 4 && w.rounds%2 == 0:
					w.advance(c, pendingFor+time.Second, parts)
				case c == clients-2 && i == 9 && w.rounds%3 == 0:
					w.advance(c, approvedFor+time.Second, parts)
				case i == 0 && c < groups, i%4 == 3 && c/groups == 5, i == 6 && c/groups == 6:
					// at most so many that the specification has rows for
					l.ask(i)
				default:
					l.act(i)
				}
			}
		})
	}
}

// asker is one client at one call.
type asker struct {
	*world
	*people
	c    int
	part string
	rng  *mrand.Rand
	seen *tokens
}

// body is the call with what is added, such as a token.
func (l *asker) body(agent, session, more string) string {
	return fmt.Sprintf(`{"agent_id":%q,"session_id":%q,"tool_id":"defer/x","args":{"part":%q}%s}`, agent, session, l.part,
		more)
}

// ask asks for the call under a call_id of its own; a lost answer is asked for until it arrives. By then the deferred
// call that the first request began or joined may have ended: it is an operation of its own, whose token the log tells.
func (l *asker) ask(n int) {
	name, began := fmt.Sprintf("%s %d-%d", l.part, l.c, n), l.h.tick.now()
	for {
		answer, got := l.patient(l.rng, request{key: l.agent.Value, op: "authorize",
			body: l.body("a", "s", fmt.Sprintf(`,"call_id":%q`, name))})
		if got == unknown {
			continue
		}
		token := member(answer, "defer_token")
		if strings.Contains(answer, `"repeat":true`) {
			if first := l.firstToken(name); first != token {
				l.seen.saw(first)
				l.h.add(l.c, began, deed{do: "ask"}, "DEFER "+first, l.part)
			}
		}
		if code := member(answer, "reason_code"); code == sdk.ReasonApprovalDenied || code == sdk.ReasonApprovalTimeout {
			l.h.add(l.c, l.h.tick.now(), deed{do: "told"}, member(answer, "effect")+" "+code, l.part)
			return
		}
		l.seen.saw(token)
		l.h.add(l.c, began, deed{do: "ask"}, strings.TrimSpace(member(answer, "effect")+got+" "+token), l.part)
		return
	}
}

// firstToken is the token that a call_id was answered with first.
func (l *asker) firstToken(call string) (token string) {
	err := l.store.Records(1, func(_ uint64, rec []byte) error {
		if r := string(rec); token == "" && member(r, "type") == "decision" && member(r, "call_id") == call {
			token = member(r, "defer_token")
		}
		return nil
	})
	if err != nil {
		l.t.Error(err)
	}
	return token
}

// act does something to a token that somebody has seen.
func (l *asker) act(n int) {
	token := l.seen.one(l.rng)
	switch l.rng.IntN(8) {
	case 0, 1, 2:
		l.answer(token, n)
	case 3, 4:
		l.redeem(token)
	case 5:
		l.steal(token)
	default:
		l.status(token)
	}
}

// answer approves or denies, under an Idempotency-Key.
func (l *asker) answer(token string, n int) {
	do, boss, by := "approve", l.boss, int64(1)
	if l.rng.IntN(4) == 0 {
		do = "deny"
	}
	if l.rng.IntN(2) == 0 {
		boss, by = l.second, 2
	}
	l.h.do(l.c, l.part, deed{do: do, arg: token, n: by}, func() string {
		done := false
		for tries := 0; ; tries++ {
			answer, err := l.run(request{key: boss.Value, op: "approve_defer", idem: fmt.Sprintf("%s %d-%d", l.part, l.c, n),
				body: fmt.Sprintf(`{"defer_token":%q,"approved":%v}`, token, do == "approve")})
			before := done
			done = done || err == nil
			switch refused := err != nil && code(err) != string(sdk.CodeAuditUnavailable); {
			case refused && (before || tries > 0 && code(err) == string(sdk.CodeConflict)):
				// an answer, lost or not, is over since
				return unknown
			case refused: // it is not kept under the Idempotency-Key: the next try could be refused for another reason
				return ended(answer, err)
			case err == nil && l.rng.IntN(6) > 0:
				return ended(answer, err)
			case l.rng.IntN(4) == 0:
				return unknown
			}
		}
	})
}

// redeem spends an approval. It is no repeat, so that a lost answer is an operation without an end.
func (l *asker) redeem(token string) {
	l.h.do(l.c, l.part, deed{do: "redeem", arg: token}, func() string {
		answer, got := l.send(request{key: l.agent.Value, op: "authorize",
			body: l.body("a", "s", fmt.Sprintf(`,"defer_token":%q`, token))})
		if got == "audit_unavailable" || l.rng.IntN(10) == 0 {
			return unknown
		}
		return member(answer, "effect") + " " + member(answer, "reason_code") + got
	})
}

// steal tries to spend an approval for another agent, session, key or args. One that could not be recorded says
// nothing.
func (l *asker) steal(token string) {
	key, with := l.agent.Value, fmt.Sprintf(`,"defer_token":%q`, token)
	var body string
	switch l.rng.IntN(4) {
	case 0:
		body = l.body("b", "s", with)
	case 1:
		body = l.body("a", "t", with)
	case 2:
		body = strings.Replace(l.body("a", "s", with), `{"part"`, `{"more":1,"part"`, 1)
	case 3:
		key, body = l.other.Value, l.body("a", "s", with)
	}
	call := l.h.tick.now()
	answer, got := l.send(request{key: key, op: "authorize", body: body})
	if got != "audit_unavailable" {
		l.h.add(l.c, call, deed{do: "steal", arg: token}, member(answer, "effect")+" "+member(answer, "reason_code")+got,
			l.part)
	}
}

func (l *asker) status(token string) {
	l.h.do(l.c, l.part, deed{do: "status", arg: token}, func() string {
		answer, got := l.send(request{key: l.agent.Value, op: "poll_defer", body: fmt.Sprintf(`{"defer_token":%q}`, token)})
		return member(answer, "status") + got
	})
}

func TestDeferHistories(t *testing.T) {
	w := newWorld(t, newUnsure)
	requireOrder(t, w, full(4, 60), deferSpec, deferRound(newPeople(w)),
		"ask DEFER", "told DENY APPROVAL_DENIED", "approve approved", "approve ?", "deny denied",
		"approve already_resolved by approved", "approve already_resolved by denied", "approve already_resolved by consumed",
		"approve defer_expired", "redeem PERMIT APPROVAL_CONSUMED", "redeem DENY APPROVAL_MISMATCH", "redeem ?",
		"steal DENY APPROVAL_MISMATCH", "status pending", "status approved", "status consumed", "status expired", "later")
}
