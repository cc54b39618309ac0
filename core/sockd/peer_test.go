package sockd

import (
	"fmt"
	"strings"
	"testing"
)

// TestAPeerApprovesNothingOfItsOwn: whom the socket takes for a key is that key, also when it comes to approving. Neither
// the mapping nor a call asked for over another connection or with the key in hand is a way around.
func TestAPeerApprovesNothingOfItsOwn(t *testing.T) {
	r := newRig(t, mapped("agents"))
	mine := r.key("agents", "authorize", "approve", "grants")
	ask := `{"type":"govern","agent_id":"a","tool_id":"defer","args":{"n":%d}%s}`
	token := func(c *client, n int, rest string) string {
		t.Helper()
		_, after, ok := strings.Cut(c.ask(fmt.Sprintf(ask, n, rest)), `"defer_token":"`)
		if !ok {
			t.Fatal("not deferred")
		}
		token, _, _ := strings.Cut(after, `"`)
		return token
	}
	byPeer, byKey := token(r.dial(), 1, ""), token(r.dial(), 2, `,"api_key":"`+mine.Value+`"`)
	for _, c := range []struct{ token, rest string }{{byPeer, ""}, {byKey, ""}, {byPeer, `,"api_key":"` + mine.Value + `"`}} {
		for _, line := range []string{`{"type":"approve_defer","defer_token":%q,"approved":true,"approver_id":"somebody else"%s}`,
			`{"type":"approve_defer","defer_token":%q,"approved":true,"grant":{"ttl_seconds":60}%s}`} {
			if got := r.dial().ask(fmt.Sprintf(line, c.token, c.rest)); !strings.Contains(got, `"code":"self_approval"`) {
				t.Errorf("%s: %s", line, got)
			}
		}
	}
	if got := r.dial().ask(`{"type":"standing_grant_add","agent_id":"a","tool_pattern":"**","ttl_seconds":60}`); !strings.Contains(got, `"code":"self_approval"`) {
		t.Error(got)
	}
}
