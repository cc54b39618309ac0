package ops_test

import (
	"fmt"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// TestKilledKeysSignNothing sends every request that lets somebody do something, and every one that stops something,
// with a killed key.
func TestKilledKeysSignNothing(t *testing.T) {
	s := newStage(t)
	agent, other, mallory := s.key("agent", "agent"), s.key("other", "operator"), s.key("mallory", "operator")
	n := 0
	body := func() string {
		n++
		return fmt.Sprintf(`{"agent_id":"bot","tool_id":"defer","args":{"n":%d}}`, n)
	}
	must := func(q req) string {
		t.Helper()
		text, err := s.do(q)
		if err != nil {
			t.Fatalf("%s %s: %v", q.op, q.body, err)
		}
		return text
	}
	ask := func() string {
		t.Helper()
		return member(must(req{key: agent, op: "authorize", body: body()}), "defer_token")
	}
	action := s.action(submit(agent, "defer", `{}`))
	yes := func(token, more string) string {
		return fmt.Sprintf(`{"defer_token":%q,"approved":true%s}`, token, more)
	}
	signs := []struct {
		name string
		q    req
	}{
		{"approve", req{op: "approve_defer", body: yes(ask(), "")}},
		{"approve again", req{op: "approve_defer", body: yes(ask(), ""), idem: "once"}},
		{"change", req{op: "approve_defer", body: yes(ask(), `,"modified_args":{"n":0}`)}},
		{"approve with a grant", req{op: "approve_defer", body: yes(ask(), `,"grant":{"ttl_seconds":60}`)}},
		{"grant", req{op: "standing_grant_add", body: `{"agent_id":"bot","tool_pattern":"other","ttl_seconds":60}`}},
		{"approve an action", req{op: "action_approval", id: action.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, action.Token)}},
	}
	grant := member(must(req{key: mallory, op: "standing_grant_add",
		body: `{"agent_id":"bot","tool_pattern":"granted","ttl_seconds":60}`}), "id")
	early := body()
	token := member(must(req{key: agent, op: "authorize", body: early}), "defer_token")
	must(req{key: mallory, op: "approve_defer", body: yes(token, "")})

	kill := func(undo bool) {
		t.Helper()
		must(req{key: other, op: "kill", body: fmt.Sprintf(`{"scope":"key","target":%q,"undo":%v}`, mallory, undo)})
	}
	kill(false)
	for _, c := range signs {
		t.Run(c.name, func(t *testing.T) {
			c.q.key = mallory
			if text, err := s.do(c.q); code(err) != string(sdk.CodeKeyKilled) {
				t.Errorf("got %q %s, want %s", code(err), text, sdk.CodeKeyKilled)
			}
		})
	}
	if got := member(must(req{key: agent, op: "authorize",
		body: early[:len(early)-1] + fmt.Sprintf(`,"defer_token":%q}`, token)}), "effect"); got != "DEFER" {
		t.Errorf("what a killed key has approved is %s", got)
	}
	if got := member(must(req{key: other, op: "standing_grant_list"}), "status"); got != "issuer_revoked" {
		t.Errorf("its grant is shown as %s", got)
	}
	for _, q := range []req{
		{op: "approve_defer", body: fmt.Sprintf(`{"defer_token":%q,"approved":false}`, ask())},
		{op: "approve_defer", body: fmt.Sprintf(`{"defer_token":%q,"withdraw":true}`, ask())},
		{op: "standing_grant_revoke", body: fmt.Sprintf(`{"grant_id":%q}`, grant)},
		{op: "kill", body: `{"scope":"session","target":"s"}`},
	} {
		q.key = mallory
		must(q)
	}
	if _, err := s.svc.AnswerAs(t.Context(), store.Operator{Name: "ann", Role: store.RoleAdmin},
		store.Who{Principal: "console:ann"}, ops.Answer{Decision: "dec_none", Approved: true, Digest: "x"}); code(err) !=
		string(sdk.CodeUnknownDefer) {
		t.Errorf("an operator at the console: %v", err)
	}
	kill(true)
	for _, c := range signs {
		c.q.key = mallory
		must(c.q) // what was refused is done once the kill is undone
	}
	must(req{key: mallory, op: "approve_defer", body: yes(token, "")})
	if got := member(must(req{key: agent, op: "authorize",
		body: early[:len(early)-1] + fmt.Sprintf(`,"defer_token":%q}`, token)}), "effect"); got != "PERMIT" {
		t.Errorf("approved again, it is %s", got)
	}
}
