package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/testkit"
)

// things is what the clients of one round work on, three of each kind; those of the next round work on it too.
type things struct {
	round  int
	keys   [3]admin.NewKey
	grants [3]atomic.Pointer[string]
	tokens [3]atomic.Pointer[string]
}

func (s *things) part(kind string, i int) string { return fmt.Sprintf("%s %d-%d", kind, s.round, i) }

// hand is one client, through all lives of the server.
type hand struct {
	*history
	s     *server
	admin *admin.Client
	keys  map[string]string // values, by name
	c, n  int
	rng   *rand.Rand
	again []func() bool // what had no answer and is asked for again, with the same identity
	kills [2]bool       // what this client has killed, by age of the things
}

// post is a request's answer; false if there was none.
func (l *hand) post(key, path, body, idem string) (answer, bool) {
	var headers []string
	if idem != "" {
		headers = []string{"Idempotency-Key", idem}
	}
	a, err := l.s.send("POST", path, key, body, headers...)
	return a, err == nil && a.status != 503
}

// do is one operation; it is false when the server is gone. What has an identity is asked for again after the restart.
func (l *hand) do(part string, d deed, identity bool, run func() (string, bool)) bool {
	call := l.tick.Add(1)
	return l.try(part, call, d, identity, run)
}

func (l *hand) try(part string, call int64, d deed, identity bool, run func() (string, bool)) bool {
	out, ok := run()
	switch {
	case ok:
		l.add(l.c, part, call, d, out)
	case identity:
		l.again = append(l.again, func() bool { return l.try(part, call, d, identity, run) })
	default:
		l.add(l.c, part, call, d, noAnswer)
	}
	return ok
}

// repeated asks again for what had no answer in the life before.
func (l *hand) repeated() bool {
	list := l.again
	l.again = nil
	for i, run := range list {
		if !run() {
			l.again = append(l.again, list[i+1:]...)
			return false
		}
	}
	return true
}

// turn is one operation on something, with the duties of this client first.
func (l *hand) turn(now, before *things) bool {
	l.n++
	i, of, age := l.rng.IntN(3), now, 0
	if before != nil && l.rng.IntN(3) == 0 {
		of, age = before, 1
	}
	duty, own := l.c/3, l.c%3
	switch {
	case duty == 0 && now.grants[own].Load() == nil:
		return l.addGrant(now, own)
	case duty == 1 && now.tokens[own].Load() == nil:
		return l.ask(now, own)
	case duty == 0 && l.rng.IntN(40) == 0 && of.grants[own].Load() != nil:
		return l.do(of.part("grant", own), deed{do: "revoke"}, false, func() (string, bool) {
			a, ok := l.post(l.keys["operator"], "/v1/grants/revoke", fmt.Sprintf(`{"grant_id":%q}`, *of.grants[own].Load()), "")
			return a.str("code"), ok
		})
	case duty == 2 && l.rng.IntN(4) == 0:
		return l.stop(of, own, age)
	case duty == 3 && l.rng.IntN(25) == 0:
		return l.revoke(of, own)
	}
	switch l.rng.IntN(4) {
	case 0:
		return l.spend(of, i)
	case 1:
		return l.useKilled(of, i)
	case 2:
		return l.useKey(of, i)
	}
	return l.deferred(of, i)
}

func (l *hand) addGrant(of *things, i int) bool {
	part, most := of.part("grant", i), []int{1, 2, 100}[i]
	return l.do(part, deed{do: "add", n: most}, true, func() (string, bool) {
		a, ok := l.post(l.keys["operator"], "/v1/grants",
			fmt.Sprintf(`{"agent_id":%q,"tool_pattern":"payments/*","ttl_seconds":3600,"max_uses":%d}`, part, most), "add "+part)
		if g, made := a.json["grant"].(map[string]any); made {
			id := fmt.Sprint(g["id"])
			of.grants[i].Store(&id)
		}
		return a.str("code"), ok
	})
}

func (l *hand) spend(of *things, i int) bool {
	part, id := of.part("grant", i), fmt.Sprintf("spend %d-%d", l.c, l.n)
	return l.do(part, deed{do: "spend", arg: id}, l.n%2 == 0, func() (string, bool) {
		a, ok := l.post(l.keys["agent"], "/v1/authorize",
			fmt.Sprintf(`{"agent_id":%q,"tool_id":"payments/refund","args":{"n":%q},"call_id":%q}`, part, id, id), "")
		return a.str("effect") + a.str("code"), ok
	})
}

// useKilled and useKey are authorizes; one without an answer says nothing.
func (l *hand) useKilled(of *things, i int) bool {
	call := l.tick.Add(1)
	part := of.part("kill", i)
	a, ok := l.post(l.keys["agent"], "/v1/authorize", fmt.Sprintf(`{"agent_id":%q,"tool_id":"files/read"}`, part), "")
	if ok {
		l.add(l.c, part, call, deed{do: "use"}, a.str("reason_code")+a.str("code"))
	}
	return ok
}

func (l *hand) useKey(of *things, i int) bool {
	call := l.tick.Add(1)
	a, ok := l.post(of.keys[i].Key, "/v1/authorize", `{"agent_id":"a","tool_id":"files/read"}`, "")
	if ok {
		l.add(l.c, of.part("key", i), call, deed{do: "use"}, a.str("effect")+a.str("code"))
	}
	return ok
}

// stop kills, or lets go on again what this client killed before.
func (l *hand) stop(of *things, i, age int) bool {
	part, undo := of.part("kill", i), l.kills[age]
	d := deed{do: map[bool]string{false: "kill", true: "undo"}[undo]}
	ok := l.do(part, d, false, func() (string, bool) {
		a, ok := l.post(l.keys["operator"], "/v1/kill", fmt.Sprintf(`{"agent_id":%q,"undo":%v}`, part, undo),
			fmt.Sprintf("stop %d-%d", l.c, l.n))
		return a.str("code"), ok
	})
	l.kills[age] = !undo
	return ok
}

func (l *hand) revoke(of *things, i int) bool {
	return l.do(of.part("key", i), deed{do: "revoke"}, false, func() (string, bool) {
		var gone any
		err := l.admin.Do(context.Background(), "POST", "/keys/"+of.keys[i].ID+"/revoke", nil, &gone)
		switch {
		case err == nil:
			return "", true
		case strings.Contains(err.Error(), "was revoked at"):
			return "conflict", true
		}
		return err.Error(), false
	})
}

// asked is the call that a token of these things is for.
func (s *things) asked(i int, agent, more string) string {
	return fmt.Sprintf(`{"agent_id":%q,"tool_id":"payments/refund","args":{"of":%q}%s}`, agent, s.part("defer", i), more)
}

func (l *hand) ask(of *things, i int) bool {
	part := of.part("defer", i)
	return l.do(part, deed{do: "ask"}, true, func() (string, bool) {
		a, ok := l.post(l.keys["agent"], "/v1/authorize", of.asked(i, "asker", fmt.Sprintf(`,"call_id":"ask %s"`, part)), "")
		if token := a.str("defer_token"); token != "" {
			of.tokens[i].Store(&token)
		}
		return a.str("effect") + a.str("code"), ok
	})
}

// deferred is one operation on a deferred call; before there is one, it is a look at a key.
func (l *hand) deferred(of *things, i int) bool {
	token := of.tokens[i].Load()
	if token == nil {
		return l.useKey(of, i)
	}
	switch l.rng.IntN(12) {
	case 0, 1:
		return l.answer(of, i, []string{"approve", "deny"}[l.rng.IntN(2)])
	case 2:
		return l.redeem(of, i, "redeem", "asker")
	case 3:
		return l.redeem(of, i, "steal", "thief")
	}
	return l.status(of, i, *token)
}

func (l *hand) answer(of *things, i int, do string) bool {
	token, id := *of.tokens[i].Load(), fmt.Sprintf("answer %d-%d", l.c, l.n)
	return l.do(of.part("defer", i), deed{do: do}, l.n%2 == 0, func() (string, bool) {
		a, ok := l.post(l.keys["approver"], "/v1/approve",
			fmt.Sprintf(`{"defer_token":%q,"approved":%v}`, token, do == "approve"), id)
		if a.status != 200 {
			return a.str("code") + " by " + a.str("resolution"), ok
		}
		return a.str("status"), ok
	})
}

// redeem asks for a deferred call with its token: as the agent that asked before, or as a thief.
func (l *hand) redeem(of *things, i int, do, agent string) bool {
	with := fmt.Sprintf(`,"defer_token":%q`, *of.tokens[i].Load())
	return l.do(of.part("defer", i), deed{do: do}, false, func() (string, bool) {
		a, ok := l.post(l.keys["agent"], "/v1/authorize", of.asked(i, agent, with), "")
		return a.str("reason_code") + a.str("code"), ok
	})
}

func (l *hand) status(of *things, i int, token string) bool {
	return l.do(of.part("defer", i), deed{do: "status"}, false, func() (string, bool) {
		a, ok := l.post(l.keys["agent"], "/v1/defer/status?token="+token, "", "")
		return a.str("status") + a.str("code"), ok
	})
}

// rest looks at everything while nothing else runs.
func (l *hand) rest(of *things) {
	for i := range 3 {
		l.useKilled(of, i)
		l.useKey(of, i)
		if token := of.tokens[i].Load(); token != nil {
			l.status(of, i, *token)
		}
		part := of.part("grant", i)
		l.do(part, deed{do: "rest"}, false, func() (string, bool) {
			a, err := l.s.send("GET", "/v1/grants?include_expired=true&agent_id="+strings.ReplaceAll(part, " ", "%20"),
				l.keys["operator"], "")
			list, _ := a.json["grants"].([]any)
			if err != nil || a.status != 200 || len(list) > 1 {
				return a.body, true
			}
			if len(list) == 0 {
				return "none", true
			}
			g := list[0].(map[string]any)
			return fmt.Sprint(g["uses"], g["status"] == "revoked"), true
		})
	}
}

// crew is all clients of a test and what they hold on to.
type crew struct {
	t     *testing.T
	h     *history
	hands [32]*hand
	made  []*things
}

func newCrew(t *testing.T) *crew {
	w := &crew{t: t, h: &history{parts: map[string][]porcupine.Operation{}, ends: map[string]int{}}}
	keys := map[string]string{}
	for c := range w.hands {
		w.hands[c] = &hand{history: w.h, c: c, keys: keys, rng: rand.New(rand.NewPCG(11, uint64(c)))}
	}
	return w
}

// create makes a key over the admin socket.
func (w *crew) create(c *admin.Client, name, preset string) admin.NewKey {
	var k admin.NewKey
	if err := c.Do(w.t.Context(), "POST", "/keys", admin.CreateRequest{Name: name, Preset: preset}, &k); err != nil {
		w.t.Fatal(err)
	}
	return k
}

// life is one life of the server: keys for this round, what had no answer again, a look at everything, and work until
// that many answers have come and the server is killed.
func (w *crew) life(s *server, round, answers int) {
	c, err := admin.Dial(s.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if round == 0 {
		for name, preset := range map[string]string{"agent": "agent", "approver": "approver", "operator": "operator"} {
			w.hands[0].keys[name] = w.create(c, "history "+name, preset).Key
		}
	}
	for _, l := range w.hands {
		l.s, l.admin, l.kills[1], l.kills[0] = s, c, l.kills[0], false
		if !l.repeated() {
			w.t.Fatalf("client %d has no answer from a server just started", l.c)
		}
	}
	for _, of := range w.made[max(0, len(w.made)-2):] {
		w.hands[0].rest(of)
	}
	if answers == 0 {
		return
	}
	now := &things{round: round}
	for i := range now.keys {
		w.addKey(c, now, i)
	}
	if round == 0 {
		w.tour(c)
	}
	var before *things
	if len(w.made) > 0 {
		before = w.made[len(w.made)-1]
	}
	w.made = append(w.made, now)
	w.load(s, now, before, answers)
	if round == 0 {
		w.inVain(now)
	}
}

func (w *crew) addKey(c *admin.Client, of *things, i int) {
	call := w.h.tick.Add(1)
	of.keys[i] = w.create(c, of.part("key", i), "agent")
	w.h.add(0, of.part("key", i), call, deed{do: "create"}, "")
}

// load lets everybody work until the server is dead.
func (w *crew) load(s *server, now, before *things, answers int) {
	reached := w.h.until(answers)
	var wg sync.WaitGroup
	for _, l := range w.hands {
		wg.Go(func() {
			for l.turn(now, before) {
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	select {
	case <-reached:
	case <-ended:
		w.t.Error("all clients gave up although the server was alive")
	}
	s.kill()
	<-ended
}

// TestHistoriesAcrossKills lets 32 clients work on keys, grants, deferred calls and kills of a server that is killed
// with -9 again and again. What they saw in all of its lives must have one order.
func TestHistoriesAcrossKills(t *testing.T) {
	testkit.Slow(t, "kills gateways")
	data, w := t.TempDir(), newCrew(t)
	sizes := rand.New(rand.NewPCG(5, 5))
	total := rounds(t, 4, 60)
	began := time.Now()
	call := int64(0)
	for round := range total + 1 {
		s := startDev(t, []string{"YETT__LIMITS__PENDING_PER_KEY=1000000"}, "--data", data)
		if round > 0 {
			w.h.crashed(call)
		}
		answers := 300 + sizes.IntN(1500)
		if round == total {
			answers = 0
		}
		w.life(s, round, answers)
		call = w.h.tick.Add(1) // everybody has ended; what was not answered may still come before
	}
	ran := time.Since(began)
	began = time.Now()
	wrong := w.h.check(lives)
	t.Logf("32 clients, %d kills, %d answers in %v, checked in %v", total, w.h.answers, ran.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	if wrong != "" {
		t.Errorf("no order: %s", wrong)
	}
	for _, end := range ends {
		if w.h.ends[end] == 0 {
			t.Errorf("no operation ended as %q: %v", end, w.h.ends)
		}
	}
}
