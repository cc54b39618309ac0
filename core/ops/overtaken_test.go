package ops_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// keyed is a request under an Idempotency-Key.
func (b *bench) keyed(value, op, body, idem string) (string, error) {
	b.t.Helper()
	key, err := b.svc.KeyOf(value)
	if err != nil {
		b.t.Fatal(err)
	}
	var doc exact.Doc
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		b.t.Fatal(err)
	}
	for i := range ops.Table {
		if ops.Table[i].Name == op {
			resp, err := b.svc.Run(&ops.Table[i], &ops.Request{Ctx: context.Background(), Key: key,
				Who: store.Who{Principal: key.ID, Method: "api_key", Surface: "http"}, Start: b.now(), Body: doc.Root(), Raw: body,
				Idempotency: idem})
			var before *ops.Replay
			switch {
			case errors.As(err, &before):
				return string(before.Answer), nil
			case err != nil:
				return "", err
			}
			return string(resp.AppendJSON(nil)), nil
		}
	}
	b.t.Fatalf("no operation %s", op)
	return "", nil
}

// Answers to approvals and grants are answered again word for word, until they are no longer true.
func TestRepeatsTellNoOldNews(t *testing.T) {
	b := newBench(t, nil)
	agent, boss := b.newKey("agent", "agent"), b.newKey("boss", "operator")
	grant := `{"agent_id":"someone","tool_pattern":"**","ttl_seconds":60}`
	first, err := b.keyed(boss.Value, "standing_grant_add", grant, "g")
	again, err2 := b.keyed(boss.Value, "standing_grant_add", grant, "g")
	if err != nil || err2 != nil || again != first {
		t.Fatalf("%s %v, %s %v", first, err, again, err2)
	}
	b.must(boss.Value, "standing_grant_revoke", fmt.Sprintf(`{"grant_id":%q}`, member(first, "id")))
	if again, err = b.keyed(boss.Value, "standing_grant_add", grant, "g"); code(err) != string(sdk.CodeConflict) {
		t.Errorf("a grant that was revoked: %s %v", again, err)
	}
	for i, c := range []struct{ body, then, op string }{
		{`,"grant":{"ttl_seconds":60}`, `{"grant_id":%q}`, "standing_grant_revoke"},
		{``, `{"defer_token":%q,"withdraw":true}`, "approve_defer"},
	} {
		asked := b.must(agent.Value, "authorize", fmt.Sprintf(`{"agent_id":"agent","tool_id":"defer","args":{"n":%d}}`, i))
		token := member(asked, "defer_token")
		body := fmt.Sprintf(`{"defer_token":%q,"approved":true%s}`, token, c.body)
		first, err := b.keyed(boss.Value, "approve_defer", body, "a"+c.op)
		again, err2 := b.keyed(boss.Value, "approve_defer", body, "a"+c.op)
		if err != nil || err2 != nil || again != first {
			t.Fatalf("%s %v, %s %v", first, err, again, err2)
		}
		what := token
		if c.op == "standing_grant_revoke" {
			what = member(first, "grant_id")
		}
		b.must(boss.Value, c.op, fmt.Sprintf(c.then, what))
		if again, err = b.keyed(boss.Value, "approve_defer", body, "a"+c.op); code(err) != string(sdk.CodeConflict) {
			t.Errorf("after %s: %s %v", c.op, again, err)
		}
	}
}
