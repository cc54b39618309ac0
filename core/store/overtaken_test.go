package store

import (
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// An approval that is sent again, under its Idempotency-Key or without one, is not told of a state that is no more.
func TestApprovalsThatWereOvertaken(t *testing.T) {
	type scene struct {
		*rig
		agent, boss, other *Key
		token              string
	}
	withdraw := func(s *scene) {
		c := s.answer(s.other, s.token, false)
		c.Withdraw = true
		s.must(c)
	}
	revoke := func(s *scene) {
		if s.s.grants.byID["stg_x"] != nil { // approvals of actions make none
			s.must(&RevokeGrant{ID: "stg_x", By: system})
		}
	}
	kill := func(scope, target string) func(s *scene) {
		return func(s *scene) {
			s.must(s.kill(scope, target, false, nil))
			s.must(s.kill(scope, target, true, nil))
		}
	}
	reopen := func(s *scene) { // it waits again, because who signed was killed for a while
		s.must(s.kill(KillKey, "boss", false, nil))
		s.wants(s.redeem(s.agent, "x", s.token, waits), "DEFER RULE_DEFER")
		s.must(s.kill(KillKey, "boss", true, nil))
	}
	change := func(s *scene) {
		c := s.answer(s.other, s.token, true)
		c.Modified, c.ModifiedHash, c.View, c.NewToken = []byte(`{"a":1}`), [32]byte{1}, []byte(`{"args":{"a":1}}`), "apr_x"
		s.must(c)
	}
	for _, c := range []struct {
		name         string
		quorum       int
		grant        bool
		then         func(s *scene)
		keyed, plain sdk.Code
		action       sdk.Code // of an action's approval under its Idempotency-Key
	}{
		{"nothing", 1, true, func(*scene) {}, "", "", ""},
		{"one of two", 2, true, func(*scene) {}, "", "", ""},
		{"one of two, then both", 2, false, func(s *scene) { s.must(s.answer(s.other, s.token, true)) }, "", "", ""},
		{"redeemed", 1, true, func(s *scene) { s.wants(s.redeem(s.agent, "x", s.token, waits), consumed) }, "", "", ""},
		{"withdrawn", 1, false, withdraw, sdk.CodeConflict, sdk.CodeAlreadyResolved, sdk.CodeConflict},
		{"withdrawn, with a grant", 1, true, withdraw, sdk.CodeConflict, sdk.CodeAlreadyResolved, sdk.CodeConflict},
		{"one of two, denied", 2, false, func(s *scene) { s.must(s.answer(s.other, s.token, false)) }, sdk.CodeConflict, sdk.CodeAlreadyResolved, sdk.CodeConflict},
		{"its grant is revoked", 1, true, revoke, sdk.CodeConflict, sdk.CodeConflict, ""},
		{"redeemed, its grant is revoked", 1, true, func(s *scene) { s.wants(s.redeem(s.agent, "x", s.token, waits), consumed); revoke(s) }, sdk.CodeConflict, sdk.CodeConflict, ""},
		{"killed", 1, false, kill(KillAgent, "agent"), sdk.CodeConflict, sdk.CodeAlreadyResolved, sdk.CodeConflict},
		{"one of two, killed", 2, false, kill(KillTool, "tool"), sdk.CodeConflict, sdk.CodeAlreadyResolved, sdk.CodeConflict},
		{"the approver is killed", 1, true, func(s *scene) { s.must(s.kill(KillKey, "boss", false, nil)) }, sdk.CodeKeyKilled, sdk.CodeKeyKilled, sdk.CodeKeyKilled},
		{"the asking key is revoked", 1, false, func(s *scene) { s.must(&RevokeKey{ID: "agent", By: system}) }, sdk.CodeConflict, sdk.CodeAlreadyResolved, sdk.CodeConflict},
		{"it waits again", 1, false, reopen, sdk.CodeConflict, "", sdk.CodeConflict},
		{"it waited again and was denied", 1, true, func(s *scene) { reopen(s); s.must(s.answer(s.other, s.token, false)) }, sdk.CodeConflict, sdk.CodeAlreadyResolved, sdk.CodeConflict},
		{"one of two, then of another call", 2, false, change, sdk.CodeConflict, sdk.CodeCallChanged, sdk.CodeConflict},
		{"too late", 1, false, func(s *scene) { s.clock.advance(time.Hour) }, sdk.CodeConflict, sdk.CodeDeferExpired, sdk.CodeConflict},
	} {
		for _, way := range []string{"keyed", "plain", "action"} {
			t.Run(c.name+" "+way, func(t *testing.T) {
				r := newRig(t)
				s := &scene{rig: r, agent: r.key("agent", nil, "authorize"), boss: r.key("boss", nil, "approve", "grants"),
					other: r.key("other", nil, "approve")}
				d := r.submitted(s.agent, "x", waitsForN(c.quorum))
				r.must(d)
				a := made(d)
				s.token = a.Token
				ask := func() *Approve {
					yes := r.answer(s.boss, s.token, true)
					if c.grant && way != "action" {
						yes.Grant, yes.NewGrant = &GrantAsk{TTL: 24 * time.Hour}, "stg_x"
					}
					if way == "keyed" {
						yes.Idem = &Idempotency{Hash: [16]byte{1}}
					}
					return yes
				}
				send := func() (Command, *Idempotency) {
					yes := ask()
					if way != "action" {
						return yes, yes.Idem
					}
					act := &ApproveAction{ID: a.ID, Approve: *yes, Idem: &Idempotency{Hash: [16]byte{1}},
						Answer: func(a *ActionRow) []byte { return []byte(a.Status) }}
					return act, act.Idem
				}
				first, _ := send()
				r.must(first)
				if c.then(s); r.t.(*testing.T).Failed() {
					return
				}
				want := map[string]sdk.Code{"keyed": c.keyed, "plain": c.plain, "action": c.action}[way]
				again, idem := send()
				if got := codeOf(r.commit(again)); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if want == "" && idem != nil && idem.Replay == nil {
					t.Error("it was not answered as before")
				}
				if err := consistent(r.s); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A grant that is asked for again under its Idempotency-Key, but was ended since, is not told of as live.
func TestGrantsThatWereOvertaken(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(r *rig, id string)
		want sdk.Code
	}{
		{"nothing", func(*rig, string) {}, ""},
		{"revoked", func(r *rig, id string) { r.must(&RevokeGrant{ID: id, By: system}) }, sdk.CodeConflict},
		{"revoked, after a restart", func(r *rig, id string) { r.must(&RevokeGrant{ID: id, By: system}); r.reopen() }, sdk.CodeConflict},
		{"its issuer is killed", func(r *rig, _ string) { r.must(r.kill(KillKey, "issuer", false, nil)) }, sdk.CodeKeyKilled},
		{"its issuer was killed for a while", func(r *rig, _ string) {
			r.must(r.kill(KillKey, "issuer", false, nil))
			r.must(r.kill(KillKey, "issuer", true, nil))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.key("issuer", nil, "grants")
			add := func() *AddGrant {
				return &AddGrant{Grant: &Grant{ID: r.id("stg_"), AgentID: "agent", ToolPattern: "**", IssuedBy: "issuer",
					Issuers: []string{"issuer"}}, TTL: time.Hour, Key: r.s.Key("issuer"),
					By: Who{Principal: "issuer"}, Most: 10, Idem: &Idempotency{Hash: [16]byte{1}}, Answer: func(g *Grant) []byte {
						return []byte(g.ID)
					}, Told: func(b []byte) string { return string(b) }}
			}
			first := add()
			r.must(first)
			c.then(r, first.Grant.ID)
			again := add()
			if got := codeOf(r.commit(again)); got != c.want || c.want == "" && string(again.Idem.Replay) != first.Grant.ID {
				t.Errorf("got %q, %q", got, again.Idem.Replay)
			}
			n := 0
			if err := r.s.Grants("", func(*Grant) bool { n++; return true }); err != nil || n != 1 {
				t.Errorf("%d grants, %v", n, err)
			}
		})
	}
}
