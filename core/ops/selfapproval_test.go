package ops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
)

// keyWith makes a key with scopes and agents.
func (b *bench) keyWith(name string, agents []string, scopes ...string) *ops.NewKey {
	b.t.Helper()
	k, err := b.svc.CreateKey(context.Background(), ops.KeySpec{Name: name, Scopes: scopes, Agents: agents}, admin)
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

func (b *bench) must(value, op, body string) string {
	b.t.Helper()
	answer, err := b.run(value, op, body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", op, body, err)
	}
	return answer
}

func (b *bench) fails(value, op, body, want string) {
	b.t.Helper()
	if answer, err := b.run(value, op, body); code(err) != want {
		b.t.Errorf("%s %s: %q %s, want %q", op, body, code(err), answer, want)
	}
}

// deferred asks for a call that the chain defers, and gives its token.
func (b *bench) deferred(value, rest string) string {
	b.t.Helper()
	token := member(b.must(value, "authorize", `{"agent_id":"bot","tool_id":"defer"`+rest+`}`), "defer_token")
	if token == "" {
		b.t.Fatal("not deferred")
	}
	return token
}

func (b *bench) decides(value, rest, want string) string {
	b.t.Helper()
	answer := b.must(value, "authorize", `{"agent_id":"bot","tool_id":"defer"`+rest+`}`)
	if got := member(answer, "effect") + " " + member(answer, "reason_code"); got != want {
		b.t.Errorf("%s: got %s, want %s (%s)", rest, got, want, member(answer, "reason"))
	}
	return answer
}

// TestNobodyApprovesTheirOwnCall tries every route by which an agent could let its own call through.
func TestNobodyApprovesTheirOwnCall(t *testing.T) {
	approve := func(token string) string { return fmt.Sprintf(`{"defer_token":%q,"approved":true}`, token) }
	all := []string{"authorize", "approve", "grants", "kill"}
	t.Run("the same key", func(t *testing.T) {
		b := newBench(t, nil)
		k := b.keyWith("both", nil, all...)
		b.fails(k.Value, "approve_defer", approve(b.deferred(k.Value, "")), "self_approval")
	})
	t.Run("the same key, rolled", func(t *testing.T) {
		b := newBench(t, nil)
		k := b.keyWith("both", []string{"bot"}, all...)
		token := b.deferred(k.Value, "")
		n, err := b.svc.RollKey(context.Background(), k.Key.ID, time.Hour, admin)
		if err != nil {
			t.Fatal(err)
		}
		b.fails(n.Value, "approve_defer", approve(token), "self_approval")
	})
	t.Run("another key that may act as the agent", func(t *testing.T) {
		b := newBench(t, nil)
		k, other := b.keyWith("asks", nil, "authorize"), b.keyWith("other", []string{"b*"}, all...)
		b.fails(other.Value, "approve_defer", approve(b.deferred(k.Value, "")), "self_approval")
	})
	t.Run("a key that sees other agents only", func(t *testing.T) {
		b := newBench(t, nil)
		k, other := b.keyWith("asks", nil, "authorize"), b.keyWith("other", []string{"cat"}, "approve")
		b.fails(other.Value, "approve_defer", approve(b.deferred(k.Value, "")), "unknown_defer")
	})
	t.Run("a standing grant for oneself", func(t *testing.T) {
		b := newBench(t, nil)
		k := b.keyWith("both", []string{"bot"}, all...)
		for _, agent := range []string{"bot", "b*", "bo*"} {
			want := "self_approval"
			if agent != "bot" {
				want = "agent_not_allowed"
			}
			b.fails(k.Value, "standing_grant_add", fmt.Sprintf(`{"agent_id":%q,"tool_pattern":"**","ttl_seconds":60}`, agent),
				want)
		}
		everybody := b.keyWith("everybody", nil, all...)
		b.fails(everybody.Value, "standing_grant_add", `{"agent_id":"**","tool_pattern":"**","ttl_seconds":60}`,
			"self_approval")
	})
	t.Run("a grant beside an approval, without scope grants", func(t *testing.T) {
		b := newBench(t, nil)
		k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve")
		token := b.deferred(k.Value, "")
		b.fails(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"grant":{"ttl_seconds":60,"max_uses":1}}`, token), "missing_scope")
		b.decides(k.Value, fmt.Sprintf(`,"defer_token":%q`, token), "DENY APPROVAL_MISMATCH")
	})
	t.Run("modified_args redeemed with other arguments", func(t *testing.T) {
		b := newBench(t, nil)
		k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve")
		token := b.deferred(k.Value, `,"args":{"amount":1000}`)
		b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"amount":10}}`,
			token))
		if status := b.must(k.Value, "poll_defer", fmt.Sprintf(`{"defer_token":%q}`, token)); !strings.Contains(status,
			`"modified_args":{"amount":10}`) {
			t.Errorf("the asking key is not told what to redeem: %s", status)
		}
		b.decides(k.Value, fmt.Sprintf(`,"args":{"amount":1000},"defer_token":%q`, token), "DENY APPROVAL_MISMATCH")
		b.decides(k.Value, fmt.Sprintf(`,"args":{"amount":11},"defer_token":%q`, token), "DENY APPROVAL_MISMATCH")
		b.decides(k.Value, fmt.Sprintf(`,"args":{"amount":10},"context":{"x":1},"defer_token":%q`, token),
			"DENY APPROVAL_MISMATCH")
		b.decides(k.Value, fmt.Sprintf(`,"args":{"amount":10.0},"defer_token":%q`, token), "PERMIT APPROVAL_CONSUMED")
		b.decides(k.Value, fmt.Sprintf(`,"args":{"amount":10},"defer_token":%q`, token), "DENY APPROVAL_MISMATCH")
	})
	t.Run("another operation of the same tool", func(t *testing.T) {
		b := newBench(t, nil)
		k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve")
		ask := func(operation, rest string) string {
			return b.must(k.Value, "authorize", fmt.Sprintf(`{"agent_id":"bot","tool_id":"defer/x","operation":%q%s}`, operation,
				rest))
		}
		token := member(ask("read", ""), "defer_token")
		if other := member(ask("delete", ""), "defer_token"); token == "" || other == token {
			t.Fatalf("two operations wait for one approval: %q %q", token, other)
		}
		b.must(boss.Value, "approve_defer", approve(token))
		redeem := fmt.Sprintf(`,"defer_token":%q`, token)
		if got := member(ask("delete", redeem), "reason_code"); got != "APPROVAL_MISMATCH" {
			t.Errorf("another operation: %s", got)
		}
		if got := member(ask("read", redeem), "reason_code"); got != "APPROVAL_CONSUMED" {
			t.Errorf("the approved one: %s", got)
		}
	})
	t.Run("a replayed token, and that of another key, agent or session", func(t *testing.T) {
		b := newBench(t, nil)
		k, twin, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("twin", nil, "authorize"),
			b.keyWith("boss", nil, "approve")
		token := b.deferred(k.Value, `,"session_id":"s1"`)
		b.must(boss.Value, "approve_defer", approve(token))
		redeem := fmt.Sprintf(`,"defer_token":%q`, token)
		b.decides(twin.Value, `,"session_id":"s1"`+redeem, "DENY APPROVAL_MISMATCH")
		b.decides(k.Value, `,"session_id":"s2"`+redeem, "DENY APPROVAL_MISMATCH")
		b.decides(k.Value, `,"session_id":"s1","agent_id2":1`+redeem, "PERMIT APPROVAL_CONSUMED")
		b.decides(k.Value, `,"session_id":"s1"`+redeem, "DENY APPROVAL_MISMATCH")
	})
}

// TestModifiedArgs holds what an approval with other arguments means for those who signed before and for the rules.
func TestModifiedArgs(t *testing.T) {
	b := newBench(t, nil)
	k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve")
	token := b.deferred(k.Value, `,"args":{"to":"a"}`)
	b.fails(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":false,"modified_args":{}}`, token),
		"invalid_field")
	b.fails(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":[]}`, token),
		"invalid_field")
	b.fails(k.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{}}`, token),
		"missing_scope")
	b.fails(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"k":%q}}`, token,
		k.Value), "invalid_field")
	both := b.keyWith("both", nil, "authorize", "approve")
	b.fails(both.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"to":"b"}}`,
		token), "self_approval")
	list := b.must(boss.Value, "approvals_list", `{}`)
	if !strings.Contains(list, `"args":{"to":"a"}`) || !strings.Contains(list, token) {
		t.Errorf("the list of approvals lacks the call: %s", list)
	}
	b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"to":"b"}}`,
		token))
	b.fails(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"to":"c"}}`,
		token), "already_resolved")
}

// TestStandingGrantsOverTheTable is the story of a grant as operators and agents see it.
func TestStandingGrantsOverTheTable(t *testing.T) {
	b := newBench(t, nil)
	k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve", "grants")
	for _, c := range []struct{ body, code string }{
		{`{"agent_id":"bot","tool_pattern":"defer"}`, "missing_field"},
		{`{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":0}`, "invalid_field"},
		{`{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":2592001}`, "invalid_field"},
		{`{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":60,"max_uses":-1}`, "invalid_field"},
		{`{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":60,"args_match":"fail"}`, "invalid_field"},
		{`{"agent_id":"","tool_pattern":"defer","ttl_seconds":60}`, "invalid_field"},
	} {
		b.fails(boss.Value, "standing_grant_add", c.body, c.code)
	}
	add := func(rest string) string {
		return member(b.must(boss.Value, "standing_grant_add",
			`{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":60`+rest+`}`), "id")
	}
	wide, exact := add(`,"max_uses":1`), add(`,"max_uses":1,"args_match":"{\"n\":1}"`)
	used := func(rest, id string) {
		t.Helper()
		if got := member(b.decides(k.Value, rest, "PERMIT STANDING_APPROVAL_CONSUMED"), "grant_id"); got != id {
			t.Errorf("%s spent %s, want %s", rest, got, id)
		}
	}
	used(`,"args":{"n":1}`, exact)
	used(`,"args":{"n":1}`, wide)
	b.decides(k.Value, `,"args":{"n":1}`, "DEFER TEST")
	session := add(`,"session_id":"s"`)
	b.decides(k.Value, `,"args":{"n":2}`, "DEFER TEST")
	used(`,"session_id":"s"`, session)
	used(`,"session_id":"s","call_id":"once"`, session)
	if again := b.must(k.Value, "authorize", `{"agent_id":"bot","tool_id":"defer","session_id":"s","call_id":"once"}`); !strings.Contains(again, `"repeat":true`) || member(again, "grant_id") != session {
		t.Errorf("a repeat: %s", again)
	}
	if list := b.must(boss.Value, "standing_grant_list", `{}`); !strings.Contains(list, `"uses":2`) ||
		strings.Contains(list, wide) {
		t.Errorf("the list: %s", list)
	}
	first := b.must(boss.Value, "standing_grant_list", `{"include_expired":true,"limit":2}`)
	next := fmt.Sprintf(`{"include_expired":true,"limit":2,"cursor":%q}`, member(first, "next_cursor"))
	if second := b.must(boss.Value, "standing_grant_list", next); !strings.Contains(second, wide) ||
		strings.Contains(second, session) {
		t.Errorf("the second page of all: %s\nbehind %s", second, first)
	}
	for _, cursor := range []string{"zzz", session} {
		b.fails(boss.Value, "standing_grant_list", fmt.Sprintf(`{"cursor":%q}`, cursor), "invalid_field")
	}
	for _, empty := range []string{"session_id", "policy_version", "rule_id", "step", "args_match"} {
		b.fails(boss.Value, "standing_grant_add",
			fmt.Sprintf(`{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":60,%q:""}`, empty), "invalid_field")
	}
	b.must(boss.Value, "standing_grant_revoke", fmt.Sprintf(`{"grant_id":%q}`, session))
	b.decides(k.Value, `,"session_id":"s"`, "DEFER TEST")
	b.fails(boss.Value, "standing_grant_revoke", `{"grant_id":"stg_none"}`, "unknown_grant")
	deny := b.must(k.Value, "authorize", `{"agent_id":"bot","tool_id":"deny"}`)
	if member(deny, "effect") != "DENY" {
		t.Errorf("a deny: %s", deny)
	}
}

// TestApproveAndStand holds that an approval's grant covers exactly the call's agent and tool.
func TestApproveAndStand(t *testing.T) {
	b := newBench(t, nil)
	k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "approve", "grants")
	token := b.deferred(k.Value, `,"args":{"n":1}`)
	b.fails(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"grant":{"max_uses":1}}`, token),
		"missing_field")
	b.fails(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"grant":{"ttl_seconds":9999999}}`,
		token), "invalid_field")
	answer := b.must(boss.Value, "approve_defer",
		fmt.Sprintf(`{"defer_token":%q,"approved":true,"grant":{"ttl_seconds":60,"max_uses":2}}`, token))
	id := member(answer, "grant_id")
	if id == "" {
		t.Fatalf("no grant: %s", answer)
	}
	b.decides(k.Value, fmt.Sprintf(`,"args":{"n":1},"defer_token":%q`, token), "PERMIT APPROVAL_CONSUMED")
	b.decides(k.Value, `,"args":{"n":2}`, "PERMIT STANDING_APPROVAL_CONSUMED")
	b.decides(k.Value, `,"args":{"n":3}`, "PERMIT STANDING_APPROVAL_CONSUMED")
	b.decides(k.Value, `,"args":{"n":4}`, "DEFER TEST")
}

// TestKillOverTheTable is the story of kills as operators and agents see it.
func TestKillOverTheTable(t *testing.T) {
	b := newBench(t, nil)
	k, boss := b.keyWith("asks", nil, "authorize"), b.keyWith("boss", nil, "kill")
	permit := func(agent, session, want string) {
		t.Helper()
		answer := b.must(k.Value, "authorize", fmt.Sprintf(`{"agent_id":%q,"tool_id":"permit","session_id":%q}`, agent,
			session))
		if got := member(answer, "reason_code"); got != want {
			t.Errorf("%s in %s: %s, want %s", agent, session, got, want)
		}
	}
	const killed = "KILL_SWITCH_ACTIVE"
	token := b.deferred(k.Value, "")
	if answer := b.must(boss.Value, "kill", `{"agent_id":"bot","reason":"loops"}`); !strings.Contains(answer,
		`"pending_denied":1`) {
		t.Errorf("the kill: %s", answer)
	}
	if status := b.must(k.Value, "poll_defer", fmt.Sprintf(`{"defer_token":%q}`, token)); !strings.Contains(status,
		`"status":"denied"`) {
		t.Errorf("what was pending: %s", status)
	}
	permit("bot", "s", killed)
	permit("cat", "s", "TEST")
	for _, body := range []string{`{}`, `{"scope":"agent"}`, `{"scope":"global","target":"x"}`,
		`{"scope":"planet","target":"x"}`, `{"scope":"tool","target":"x","agent_id":"y"}`,
		`{"scope":"key","target":"nobody"}`} {
		if _, err := b.run(boss.Value, "kill", body); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
	both := b.keyWith("both", []string{"bot", "cat"}, "kill", "authorize")
	b.fails(both.Value, "kill", `{"agent_id":"bot","undo":true}`, "undo_refused")
	b.fails(both.Value, "kill", `{"scope":"session","target":"s"}`, "agent_not_allowed")
	b.must(boss.Value, "kill", `{"scope":"session","target":"s"}`)
	permit("cat", "s", killed)
	permit("cat", "t", "TEST")
	b.must(boss.Value, "kill", `{"scope":"tool","target":"per*"}`)
	permit("cat", "t", killed)
	b.must(boss.Value, "kill", `{"scope":"tool","target":"per*","undo":true}`)
	permit("cat", "t", "TEST")
	b.fails(boss.Value, "kill", `{"scope":"tool","target":"per*","undo":true}`, "unknown_kill")
	b.must(boss.Value, "kill", fmt.Sprintf(`{"scope":"key","target":%q}`, k.Key.ID))
	n, err := b.svc.RollKey(context.Background(), k.Key.ID, time.Hour, admin)
	if err != nil {
		t.Fatal(err)
	}
	if answer := b.must(n.Value, "authorize", `{"agent_id":"cat","tool_id":"permit"}`); member(answer, "reason_code") !=
		killed {
		t.Errorf("rolling a killed key is a way out: %s", answer)
	}
	b.must(boss.Value, "kill", `{"scope":"global","reason":"stop"}`)
	b.fails(boss.Value, "kill", `{"scope":"global","undo":true}`, "undo_refused")
	b.fails(boss.Value, "kill", `{"agent_id":"bot","undo":true}`, "undo_refused")
}
