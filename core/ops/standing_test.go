package ops_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// TestApprovalThatCountsNoMore asks every operation that says how a deferred call stands, while the key of its approver
// is killed, and once it is revoked: it waits, and others may sign it.
func TestApprovalThatCountsNoMore(t *testing.T) {
	for _, name := range []string{"killed", "revoked"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			agent, honest, mallory := s.key("agent", "agent"), s.key("honest", "operator"), s.key("mallory", "approver")
			must := func(q req) string {
				t.Helper()
				text, err := s.do(q)
				if err != nil {
					t.Fatalf("%s %s: %v", q.op, q.body, err)
				}
				return text
			}
			const call = `{"agent_id":"a","tool_id":"defer","args":{"n":1}`
			token := member(must(req{key: agent, op: "authorize", body: call + "}"}), "defer_token")
			action := s.action(submit(agent, "defer", `{"n":2}`))
			yes := func(key string) error {
				_, err := s.do(req{key: key, op: "approve_defer",
					body: fmt.Sprintf(`{"defer_token":%q,"approved":true,"reason":"fine"}`, token)})
				return err
			}
			approves := req{op: "action_approval", id: action.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, action.Token)}
			if err := yes(mallory); err != nil {
				t.Fatal(err)
			}
			approves.key = mallory
			must(approves)
			stands := func(want string, signed int) {
				t.Helper()
				for _, op := range []string{"defer_status", "poll_defer"} {
					var got struct {
						Status, Effect, Reason string
						By                     string `json:"resolved_by"`
						Signed                 int    `json:"approvals"`
						Required               int    `json:"approvals_required"`
					}
					text := must(req{key: agent, op: op, body: fmt.Sprintf(`{"defer_token":%q}`, token)})
					if err := json.Unmarshal([]byte(text), &got); err != nil || got.Status != want || got.Signed != signed ||
						got.Required != 1 || want == "pending" && got.Effect+got.By+got.Reason != "" {
						t.Errorf("%s: %s, want %s, %d of 1", op, text, want, signed)
					}
				}
				listed := must(req{key: honest, op: "approvals_list"})
				if strings.Contains(listed, token) != (want == "pending") {
					t.Errorf("it is %s, and the list is %s", want, listed)
				}
				if text, err := s.do(req{key: honest, op: "approval_get", body: fmt.Sprintf(`{"defer_token":%q}`, token)}); (err ==
					nil) != (want == "pending") {
					t.Errorf("it is %s, and the approver is shown %s, %v", want, text, err)
				}
				as := map[string]string{"pending": "pending_approval"}[want]
				if as == "" {
					as = want
				}
				if a := s.action(req{key: agent, op: "action_get", id: action.ID}); a.Status != as ||
					(a.Token != "") != (want == "pending") {
					t.Errorf("the action is %s with %q, want %s", a.Status, a.Token, as)
				}
				if text := must(req{key: honest, op: "action_list", query: [][2]string{{"status", as}}}); !strings.Contains(text,
					action.ID) {
					t.Errorf("the list of what is %s: %s", as, text)
				}
			}
			kill := func(undo bool) {
				t.Helper()
				must(req{key: honest, op: "kill", body: fmt.Sprintf(`{"scope":"key","target":%q,"undo":%v}`, mallory, undo)})
			}
			stands("approved", 1)
			if code(yes(honest)) != string(sdk.CodeAlreadyResolved) {
				t.Error("an approved call is approved by somebody else")
			}
			if name == "revoked" {
				if err := s.svc.RevokeKey(t.Context(), mallory, admin); err != nil {
					t.Fatal(err)
				}
			} else {
				kill(false)
				stands("pending", 0)
				told := make(chan string)
				go func() {
					text, err := s.do(req{key: agent, op: "defer_status",
						body: fmt.Sprintf(`{"defer_token":%q,"wait_seconds":60}`, token)})
					told <- fmt.Sprint(member(text, "status"), err)
				}()
				kill(true)
				if got := <-told; got != "approved<nil>" {
					t.Errorf("who waits is told %s", got)
				}
				stands("approved", 1)
				kill(false)
			}
			stands("pending", 0)
			s.refused(req{key: agent, op: "action_start", id: action.ID}, sdk.CodeConflict)
			if got := member(must(req{key: agent, op: "authorize", body: call + "}"}), "defer_token"); got != token {
				t.Error("asked again, it is another call")
			}
			s.restart()
			stands("pending", 0)
			if err := yes(honest); err != nil {
				t.Fatal(err)
			}
			approves.key = honest
			must(approves)
			stands("approved", 1)
			if got := member(must(req{key: agent, op: "authorize", body: call + fmt.Sprintf(`,"defer_token":%q}`, token)}),
				"effect"); got != "PERMIT" {
				t.Errorf("redeemed, it is %s", got)
			}
			if a := s.action(req{key: agent, op: "action_start", id: action.ID}); a.Status != "executing" {
				t.Errorf("started, the action is %s", a.Status)
			}
		})
	}
}
