package ops_test

import (
	"fmt"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// Two agents of one key may use the same call_id for different calls, and neither resumes what the other was deferred
// with.
func TestCallIDsBelongToKeyAndAgent(t *testing.T) {
	s := newStage(t)
	key, boss := s.key("agents", "agent"), s.key("boss", "approver")
	ask := func(agent, tool, id string, n int) string {
		t.Helper()
		answer, err := s.do(req{key: key, op: "authorize",
			body: fmt.Sprintf(`{"agent_id":%q,"tool_id":%q,"call_id":%q,"args":{"n":%d}}`, agent, tool, id, n)})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	is := func(what, answer, effect, code string) {
		t.Helper()
		if member(answer, "effect") != effect || code != "" && member(answer, "reason_code") != code {
			t.Errorf("%s: %s, want %s %s", what, answer, effect, code)
		}
	}
	is("the first", ask("a", "permit", "step-1", 1), "PERMIT", "TEST")
	is("another agent's", ask("b", "permit", "step-1", 2), "PERMIT", "TEST")
	is("the same agent's, another call", ask("a", "permit", "step-1", 3), "DENY", sdk.ReasonCallIDConflict)

	token := member(ask("a", "defer", "step-2", 1), "defer_token")
	if _, err := s.do(req{key: boss, op: "approve_defer",
		body: fmt.Sprintf(`{"defer_token":%q,"approved":true}`, token)}); err != nil {
		t.Fatal(err)
	}
	is("another agent's resumption", ask("b", "defer", "step-2-resume", 1), "DEFER", "TEST")
	is("the asking agent's", ask("a", "defer", "step-2-resume", 1), "PERMIT", sdk.ReasonApprovalConsumed)
}
