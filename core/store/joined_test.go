package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// joins submits one deferred call n times under new Idempotency-Keys, and gives the actions.
func (r *rig) joins(k *Key, args string, n int) (ids []string, token string) {
	return r.joinsFor(5*time.Minute, k, args, n)
}

func (r *rig) joinsFor(ttl time.Duration, k *Key, args string, n int) (ids []string, token string) {
	r.t.Helper()
	for i := range n {
		c := r.submitted(k, args, sdk.Verdict{Effect: sdk.Defer})
		c.Defer.TTL = ttl
		c.Action.(*NewAction).Idem = &[16]byte{byte(i), byte(i >> 8), args[0], 'j'}
		c.Limits.MaxJoined = n
		r.must(c)
		if c.Out.Effect != sdk.Defer || i > 0 && (c.Out.Token != token || !c.Out.joined) {
			r.t.Fatalf("number %d: %+v", i, c.Out)
		}
		token, ids = c.Out.Token, append(ids, c.Action.id())
	}
	return ids, token
}

// However many actions wait for one deferred call, its row stays as it is, one more is one small row, and what approves
// the call writes nothing for each of them.
func TestJoiningIsCheap(t *testing.T) {
	r, agent, boss := cast(t)
	row := func(token string) int {
		v, found, err := r.s.get(keyStr(prefixDefer, token))
		if err != nil || !found {
			t.Fatal(err)
		}
		return len(v)
	}
	_, token := r.joins(agent, "x", 1)
	alone := row(token)
	_, token = r.joins(agent, "y", 300)
	if crowded := row(token); crowded > alone+10 {
		t.Errorf("the row has %d bytes with one action and %d with 300", alone, crowded)
	}
	written := r.s.db.Metrics().WAL.BytesIn
	r.must(r.answer(boss, token, true))
	if got := r.s.db.Metrics().WAL.BytesIn - written; got > 40_000 { // the record names the actions
		t.Errorf("an approval of a call with 300 actions wrote %d bytes", got)
	}
}

// Every action follows the call that it joined, however that ends, also over a restart and in lists.
func TestJoinedActionsFollow(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(r *rig, boss *Key, token string)
		status string
	}{
		{"pending", func(*rig, *Key, string) {}, ActionPending},
		{"approved", func(r *rig, boss *Key, token string) { r.must(r.answer(boss, token, true)) }, ActionApproved},
		{"denied", func(r *rig, boss *Key, token string) { r.must(r.answer(boss, token, false)) }, ActionDenied},
		{"expired", func(r *rig, _ *Key, _ string) { r.clock.advance(5 * time.Minute) }, ActionDenied},
		{"killed", func(r *rig, _ *Key, _ string) {
			r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system})
		}, ActionDenied},
		{"its key revoked", func(r *rig, _ *Key, _ string) { r.must(&RevokeKey{ID: "agent", By: system}) }, ActionDenied},
	} {
		for _, restart := range []string{"", "before", "after"} {
			t.Run(c.name+" "+restart, func(t *testing.T) {
				r := newRig(t)
				agent, boss := r.key("agent", nil, "authorize"), r.key("boss", nil, "approve")
				ids, token := r.joins(agent, "x", 7)
				if restart == "before" {
					r.reopen()
					boss = r.s.Key("boss")
				}
				c.do(r, boss, token)
				r.must(&Note{Type: "tick", By: system})
				if restart == "after" {
					r.reopen()
					boss = r.s.Key("boss")
				}
				for _, id := range ids {
					if a := r.read(boss, id); a.Status != c.status || c.status != ActionPending && len(a.Events) != 3 {
						t.Errorf("%s is %s with %d events", id, a.Status, len(a.Events))
					}
				}
				page, _, err := r.s.Actions(t.Context(),
					&ActionQuery{Status: c.status, Limit: 100, Sees: func(string) bool { return true }})
				if err != nil || len(page) != len(ids) {
					t.Errorf("%d of %d are listed as %s: %v", len(page), len(ids), c.status, err)
				}
				if err := consistent(r.s); err != nil {
					t.Error(err)
				}
				last := ""
				if err := r.s.Records(1, func(_ uint64, rec []byte) error {
					if strings.Contains(string(rec), `"action_ids"`) {
						last = string(rec)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					if c.status != ActionPending && !strings.Contains(last, id) {
						t.Errorf("the record does not name %s: %s", id, last)
					}
				}
			})
		}
	}
}

// An approval that was spent, and whose permit is void, has its actions wait again.
func TestJoinedActionsOfAVoidPermit(t *testing.T) {
	l := newLaterRig(t)
	ids, token := l.joinsFor(24*time.Hour, l.agent, "x", 3)
	l.must(l.longYes(token))
	l.late(l.start(l.read(l.agent, ids[0]), l.agent, "x", sdk.Verdict{Effect: sdk.Defer}))
	for range 2 {
		if err := consistent(l.s); err != nil {
			t.Error(err)
		}
		if got := l.status(l.agent, token); got != Approved {
			t.Errorf("the call is %s", got)
		}
		l.restart()
		l.agent = l.s.Key("agent")
	}
}

// An approval with other arguments reaches all that wait; the one that is started keeps them.
func TestJoinedActionsTakeModifiedParams(t *testing.T) {
	r, agent, boss := cast(t)
	ids, token := r.joins(agent, "x", 3)
	yes := r.answer(boss, token, true)
	yes.Modified, yes.ModifiedHash, yes.View = []byte(`{"a":2}`), [32]byte{2}, []byte(`{"args":{"a":2}}`)
	r.must(yes)
	for _, id := range ids {
		if a := r.read(agent, id); a.Params != `{"a":2}` || !a.Modified || a.Status != ActionApproved {
			t.Errorf("%+v", a)
		}
	}
	start := r.start(r.read(agent, ids[1]), agent, "x", sdk.Verdict{Effect: sdk.Defer})
	start.ArgsHash = [32]byte{2}
	r.must(start)
	if start.Out.Effect != sdk.Permit {
		t.Fatalf("%+v", start.Out)
	}
	r.reopen()
	agent = r.s.Key(agent.ID)
	if a := r.read(agent, ids[1]); a.Status != ActionExecuting || a.Params != `{"a":2}` {
		t.Errorf("the started one: %+v", a)
	}
	if a := r.read(agent, ids[2]); a.Status != ActionDenied || a.Reason != ActionSpent || a.Params != `{"a":2}` {
		t.Errorf("another one: %+v", a)
	}
}

func TestJoinsAreCapped(t *testing.T) {
	r, agent, _ := cast(t)
	_, token := r.joins(agent, "x", 5)
	again := func(n byte) *Decide {
		c := r.submitted(agent, "x", sdk.Verdict{Effect: sdk.Defer})
		c.Action.(*NewAction).Idem = &[16]byte{n, 'k'}
		c.Limits.MaxJoined = 5
		r.must(c)
		return c
	}
	c := again(1)
	if c.Out.Effect != sdk.Deny || c.Out.Code != sdk.ReasonRateExceeded ||
		!strings.Contains(c.Out.Reason, "limits.actions_per_approval") || c.Out.Token != "" {
		t.Errorf("%+v", c.Out)
	}
	if a := made(c); a.Status != ActionDenied {
		t.Errorf("%+v", a)
	}
	r.reopen() // the count is of what is on disk
	agent = r.s.Key(agent.ID)
	if c := again(2); c.Out.Effect != sdk.Deny {
		t.Errorf("after a restart: %+v", c.Out)
	}
	plain := r.call(agent, "x", sdk.Verdict{Effect: sdk.Defer}) // asking again leaves nothing behind, so it is not counted
	plain.Limits.MaxJoined = 5
	r.must(plain)
	if plain.Out.Effect != sdk.Defer || plain.Out.Token != token {
		t.Errorf("%+v", plain.Out)
	}
}

// Many deferred calls that end at one moment are ended in shares: the calls of others are answered in between. Whoever
// looks at one sees that it has ended, whether its turn has come or not, and what a crash interrupts goes on after it.
func TestExpiriesComeInShares(t *testing.T) {
	base := newCuttable()
	now := newClock()
	s, err := Open(settings(base, now, func(error) {}))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: now, s: s}
	agent := r.key("agent", nil, "authorize")
	var tokens []string
	const calls = 2*atOnce + 200
	for i := range calls {
		c := r.call(agent, fmt.Sprint("call ", i), sdk.Verdict{Effect: sdk.Defer})
		c.Limits.MaxPending = calls
		r.must(c)
		tokens = append(tokens, c.Out.Token)
	}
	before := s.Seq()
	now.advance(5 * time.Minute)
	r.must(&Note{Type: "tick", By: system})
	var at, expired uint64
	if err := s.Records(before+1, func(seq uint64, rec []byte) error {
		switch {
		case strings.Contains(string(rec), `"type":"tick"`):
			at = seq
		case at == 0:
			expired++
		}
		return nil
	}); err != nil || expired > 2*atOnce { // the watcher may have begun with a share
		t.Errorf("%d calls were expired before the note: %v", expired, err)
	}
	if got := r.status(agent, tokens[calls-1]); got != Expired {
		t.Errorf("the last one is %s", got)
	}
	clone := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 2))})
	for ended := 0; ended < calls; { // nobody asks for anything any more: the sequencer goes on by itself
		s.seq.mu.Lock()
		busy := s.seq.busy
		s.seq.mu.Unlock()
		if !busy {
			ended = int(s.Seq() - before - 1)
		}
	}
	if err := consistent(s); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, err = Open(settings(clone, now, func(error) {})); err != nil {
		t.Fatal(err)
	}
	r.s = s
	for range 4 {
		r.must(&Note{Type: "tick", By: system})
	}
	for _, token := range tokens {
		if got := r.status(s.Key("agent"), token); got != Expired {
			t.Fatalf("after a crash: %s", got)
		}
	}
	if err := consistent(s); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
