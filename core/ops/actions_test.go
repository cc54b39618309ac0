package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

func TestActionStatusFollowsTheEffect(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	for _, c := range []struct{ tool, status, decision, outcome, risk string }{
		{"permit", "allowed", "allow", "EXECUTE", "low"},
		{"deny", "denied", "deny", "HALT", "high"},
		{"defer", "pending_approval", "require_approval", "ABSTAIN", "medium"},
		{"nonsense", "denied", "deny", "HALT", "high"},
	} {
		a := s.action(submit(agent, c.tool, `{"n":1.0}`))
		if a.Status != c.status || a.Decision != c.decision || a.Outcome != c.outcome || a.Risk != c.risk ||
			!strings.HasPrefix(a.ID, "act_") {
			t.Errorf("%s: %+v", c.tool, a)
		}
		if (a.Token != "") != (c.status == "pending_approval") || string(a.Params) != `{"n":1.0}` || a.Version != "9.9" ||
			a.Policy != "policy-1" {
			t.Errorf("%s: %+v", c.tool, a)
		}
		if got := s.action(req{key: agent, op: "action_get", id: a.ID}); got.Status != a.Status ||
			string(got.Params) != string(a.Params) || got.Token != a.Token {
			t.Errorf("%s: read %+v, submitted %+v", c.tool, got, a)
		}
	}
	s.says(sdk.Verdict{Effect: sdk.Permit, Code: "X", Priority: sdk.PriorityHigh})
	if a := s.action(submit(agent, "any", `{}`)); a.Risk != "high" || a.Status != "allowed" {
		t.Errorf("a rule's priority is not its risk: %+v", a)
	}
}

func TestActionMembersAreAllThere(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	text, err := s.do(req{key: agent, op: "action_submit", body: `{"agent_id":"agent","context":{},"operation":"get","params":{"url":"https://example.com"},"tool":"http","unknown":[1]}`})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("id agent_id tool operation params context status decision reason risk_level " +
		"approval_token policy_version created_at updated_at outcome reason_code reason_details request_hash policy_hash " +
		"runtime_version profile_id profile_version profile_hash provenance_id js_example python_example") {
		if _, ok := m[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"approval_token", "profile_id", "profile_version", "profile_hash"} {
		if string(m[name]) != "null" {
			t.Errorf("%s is %s, want null", name, m[name])
		}
	}
	const want = "d3bea0584e035eae7915cbc68b84f5b836b3645cee550cbead714486c8c0b8a2"
	if got := readAct(t, text); got.RequestHash != want ||
		got.Provenance != wire.ProvenanceID(want, "policy-1", "", "9.9") {
		t.Errorf("request_hash %s, provenance_id %s", got.RequestHash, got.Provenance)
	}
}

func TestActionRefusals(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent", "a"), s.key("boss", "approver", "a")
	other, auditor := s.key("other", "agent"), s.key("auditor", "auditor", "b")
	allowed := s.action(submit(agent, "permit", `{}`)).ID
	pending := s.action(submit(agent, "defer", `{}`))
	approval := func(token, approve string) string { return fmt.Sprintf(`{"token":%q,"approve":%s}`, token, approve) }
	for _, c := range []struct {
		name string
		q    req
		want sdk.Code
	}{
		{"submit without scope", submit(boss, "permit", `{}`), sdk.CodeMissingScope},
		{"submit for another agent", req{key: agent, op: "action_submit", body: `{"agent_id":"b","tool":"permit"}`}, sdk.CodeAgentNotAllowed},
		{"submit without tool", req{key: agent, op: "action_submit", body: `{"agent_id":"a"}`}, sdk.CodeMissingField},
		{"params no object", req{key: agent, op: "action_submit", body: `{"agent_id":"a","tool":"permit","params":[1]}`}, sdk.CodeInvalidField},
		{"a number that nobody can hash", submit(agent, "permit", `{"n":1e400}`), sdk.CodeInvalidField},
		{"get unknown", req{key: agent, op: "action_get", id: "act_01ARZ3NDEKTSV4RRFFQ69G5FAV"}, sdk.CodeUnknownAction},
		{"get by a part of the id", req{key: agent, op: "action_get", id: allowed[:len(allowed)-1]}, sdk.CodeUnknownAction},
		{"get of an agent not seen", req{key: auditor, op: "action_get", id: allowed}, sdk.CodeUnknownAction},
		{"events of an agent not seen", req{key: auditor, op: "action_events", id: allowed}, sdk.CodeUnknownAction},
		{"start by another key", req{key: other, op: "action_start", id: allowed}, sdk.CodeUnknownAction},
		{"start without scope", req{key: boss, op: "action_start", id: allowed}, sdk.CodeMissingScope},
		{"start while pending", req{key: agent, op: "action_start", id: pending.ID}, sdk.CodeConflict},
		{"result by another key", req{key: other, op: "action_result", id: allowed, body: `{"success":true}`}, sdk.CodeUnknownAction},
		{"result before the start", req{key: agent, op: "action_result", id: allowed, body: `{"success":true}`}, sdk.CodeConflict},
		{"result without success", req{key: agent, op: "action_result", id: allowed}, sdk.CodeMissingField},
		{"approve without scope", req{key: agent, op: "action_approval", id: pending.ID, body: approval(pending.Token, "true")}, sdk.CodeMissingScope},
		{"approve what is not pending", req{key: boss, op: "action_approval", id: allowed, body: approval(pending.Token, "true")}, sdk.CodeConflict},
		{"approve with a wrong token", req{key: boss, op: "action_approval", id: pending.ID, body: approval("dfr_x", "true")}, sdk.CodeWrongToken},
		{"deny with a wrong token", req{key: boss, op: "action_approval", id: pending.ID, body: approval("dfr_x", "false")}, sdk.CodeWrongToken},
		{"approve without saying what", req{key: boss, op: "action_approval", id: pending.ID, body: `{"token":"x"}`}, sdk.CodeMissingField},
		{"approve with a long reason", req{key: boss, op: "action_approval", id: pending.ID, body: `{"token":"x","approve":true,"reason":"` + strings.Repeat("r", 1025) + `"}`}, sdk.CodeInvalidField},
		{"a long error", req{key: agent, op: "action_result", id: allowed, body: `{"success":false,"error":"` + strings.Repeat("e", 4097) + `"}`}, sdk.CodeInvalidField},
		{"gate for another agent", req{key: agent, op: "gate_decide", body: `{"agent_id":"b","tool":"permit"}`}, sdk.CodeAgentNotAllowed},
		{"evaluate without scope", req{key: boss, op: "evaluate", body: `{"agent_id":"a","tool_id":"permit"}`}, sdk.CodeMissingScope},
	} {
		t.Run(c.name, func(t *testing.T) { (&stageOf{s, t}).refused(c.q, c.want) })
	}
	if a := s.action(req{key: agent, op: "action_get", id: pending.ID}); a.Status != "pending_approval" {
		t.Errorf("a refused answer changed the action: %+v", a)
	}
}

// stageOf lets a stage speak for a subtest.
type stageOf struct {
	*stage
	t *testing.T
}

func (s *stageOf) refused(q req, want sdk.Code) {
	s.t.Helper()
	if text, err := s.do(q); code(err) != string(want) {
		s.t.Errorf("got %q %s, want %s", code(err), text, want)
	}
}

func TestActionSelfApproval(t *testing.T) {
	s := newStage(t)
	both, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "both", Scopes: []string{"authorize", "approve"}},
		admin)
	if err != nil {
		t.Fatal(err)
	}
	agent := s.key("agent", "agent")
	own := s.action(submit(both.Key.ID, "defer", `{}`))
	others := s.action(submit(agent, "defer", `{}`))
	for _, a := range []act{own, others} { // its own, and one of an agent that it acts as
		s.refused(req{key: both.Key.ID, op: "action_approval", id: a.ID,
			body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)}, sdk.CodeSelfApproval)
		if got := s.action(req{key: agent, op: "action_get", id: a.ID}); got.Status != "pending_approval" {
			t.Errorf("approved by itself: %+v", got)
		}
	}
}

func TestActionLife(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	a := s.action(submit(agent, "defer", `{"n":1}`))
	if got := s.action(req{key: boss, op: "action_get", id: a.ID}); got.Token != a.Token || a.Token == "" {
		t.Fatalf("an approver gets no token: %+v", got)
	}
	other := s.key("other", "agent")
	if got := s.action(req{key: other, op: "action_get", id: a.ID}); got.Token != "" {
		t.Fatal("a key that neither asked nor approves gets the token")
	}
	ok := s.action(req{key: boss, op: "action_approval", id: a.ID,
		body: fmt.Sprintf(`{"token":%q,"approve":true,"reason":"fine"}`, a.Token)})
	if ok.Status != "approved" || ok.Outcome != "ABSTAIN" || ok.Code != a.Code || ok.Token != "" {
		t.Fatalf("approved: %+v", ok)
	}
	if again := s.action(req{key: boss, op: "action_approval", id: a.ID,
		body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)}); again.Status != "approved" {
		t.Fatalf("approved by the same approver once more: %+v", again)
	}
	s.refused(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":false}`, a.Token)},
		sdk.CodeConflict)
	s.refused(req{key: s.key("late", "approver"), op: "action_approval", id: a.ID,
		body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)}, sdk.CodeConflict)
	run := s.action(req{key: agent, op: "action_start", id: a.ID})
	if run.Status != "executing" || run.Code != a.Code || run.Outcome != "ABSTAIN" {
		t.Fatalf("started: %+v", run)
	}
	s.refused(req{key: agent, op: "action_start", id: a.ID}, sdk.CodeConflict)
	s.refused(req{key: other, op: "action_result", id: a.ID, body: `{"success":true}`}, sdk.CodeUnknownAction)
	done := s.action(req{key: agent, op: "action_result", id: a.ID, body: `{"success":true,"result":{"x":1}}`})
	if done.Status != "succeeded" || string(done.Result.Value) != `{"x":1}` || done.Result.Outcome != "PASS" {
		t.Fatalf("finished: %+v", done)
	}
	s.refused(req{key: agent, op: "action_result", id: a.ID, body: `{"success":false}`}, sdk.CodeConflict)
	s.events(agent, a.ID, "created decision_made approved started succeeded")

	b := s.action(submit(agent, "defer", `{"n":2}`))
	no := s.action(req{key: boss, op: "action_approval", id: b.ID,
		body: fmt.Sprintf(`{"token":%q,"approve":false,"reason":"not today"}`, b.Token)})
	if no.Status != "denied" || no.Reason != "not today" || no.Code != b.Code {
		t.Fatalf("denied: %+v", no)
	}
	s.refused(req{key: agent, op: "action_start", id: b.ID}, sdk.CodeConflict)
	s.events(agent, b.ID, "created decision_made denied")

	c := s.action(submit(agent, "permit", `{"n":3}`))
	s.action(req{key: agent, op: "action_start", id: c.ID})
	bad := s.action(req{key: agent, op: "action_result", id: c.ID, body: `{"success":false,"error":"boom"}`})
	if bad.Status != "failed" || bad.Result.Error != "boom" {
		t.Fatalf("failed: %+v", bad)
	}
	s.events(agent, c.ID, "created decision_made started failed")
}

// events checks an action's list of events: types in order, hashes chained, each the leaf hash of its audit record.
func (s *stage) events(key, id, want string) {
	s.t.Helper()
	text, err := s.do(req{key: key, op: "action_events", id: id})
	if err != nil {
		s.t.Fatal(err)
	}
	var list []struct {
		ID       string
		ActionID string `json:"action_id"`
		Type     string `json:"event_type"`
		Prev     string `json:"prev_hash"`
		Hash     string `json:"record_hash"`
		Meta     struct{ Seq uint64 }
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		s.t.Fatal(err)
	}
	var types []string
	prev, ids := "", map[string]bool{}
	for _, e := range list {
		types = append(types, e.Type)
		leaf := ""
		if err := s.store.Records(e.Meta.Seq, func(seq uint64, rec []byte) error {
			if seq == e.Meta.Seq {
				h := tlog.RecordHash(rec)
				leaf = fmt.Sprintf("%x", h[:])
				if !strings.Contains(string(rec), id) {
					s.t.Errorf("%s: record %d does not name the action: %s", e.Type, seq, rec)
				}
			}
			return nil
		}); err != nil {
			s.t.Fatal(err)
		}
		if e.Prev != prev || e.Hash != leaf || e.ActionID != id || ids[e.ID] || !strings.HasPrefix(e.ID, "evt_") {
			s.t.Errorf("event %+v: want prev_hash %q, record_hash %q", e, prev, leaf)
		}
		prev, ids[e.ID] = e.Hash, true
	}
	if got := strings.Join(types, " "); got != want {
		s.t.Errorf("events %q, want %q", got, want)
	}
}

func TestActionStartDecidesAgain(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	allowed := s.action(submit(agent, "permit", `{}`))
	approved := s.action(submit(agent, "defer", `{}`))
	s.action(req{key: boss, op: "action_approval", id: approved.ID,
		body: fmt.Sprintf(`{"token":%q,"approve":true}`, approved.Token)})
	s.says(sdk.Verdict{Effect: sdk.Deny, Code: "TODAY", Reason: "not any more"})
	for _, id := range []string{allowed.ID, approved.ID} {
		a := s.action(req{key: agent, op: "action_start", id: id})
		if a.Status != "denied" || a.Decision != "deny" || a.Outcome != "HALT" || a.Code != "TODAY" ||
			a.Reason != "not any more" {
			t.Errorf("a start that the chain denies: %+v", a)
		}
		s.refused(req{key: agent, op: "action_start", id: id}, sdk.CodeConflict)
	}
	s.events(agent, allowed.ID, "created decision_made denied")
	s.events(agent, approved.ID, "created decision_made approved denied")
}

// An approval that another call has spent starts nothing any more, and no view of the action says that it could.
func TestActionWhoseApprovalWasSpent(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	a := s.action(submit(agent, "defer", `{"n":1}`))
	s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
	text, err := s.do(req{key: agent, op: "authorize",
		body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":1},"context":{},"defer_token":%q}`, a.Token)})
	if err != nil || member(text, "effect") != "PERMIT" {
		t.Fatalf("redeemed: %v %s", err, text)
	}
	for _, key := range []string{agent, boss} {
		if got := s.action(req{key: key, op: "action_get", id: a.ID}); got.Status != "denied" ||
			got.Reason != store.ActionSpent || got.Token != "" {
			t.Errorf("%+v", got)
		}
	}
	for status, want := range map[string]int{"approved": 0, "denied": 1} {
		text, err := s.do(req{key: agent, op: "action_list", query: [][2]string{{"status", status}}})
		if err != nil || strings.Count(text, a.ID+`","agent_id"`) != want {
			t.Errorf("listed as %s: %v %s", status, err, text)
		}
	}
	s.refused(req{key: agent, op: "action_start", id: a.ID}, sdk.CodeConflict)
}

func TestActionStartAsksForMoreApprovals(t *testing.T) {
	s := newStage(t)
	agent, boss, boss2 := s.key("agent", "agent"), s.key("boss", "approver"), s.key("boss 2", "approver")
	a := s.action(submit(agent, "defer", `{}`))
	yes := fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)
	s.action(req{key: boss, op: "action_approval", id: a.ID, body: yes})
	s.says(sdk.Verdict{Effect: sdk.Defer, Code: "MORE", Approvals: 2, RuleID: "stricter"})
	if got := s.action(req{key: agent, op: "action_start", id: a.ID}); got.Status != "pending_approval" ||
		got.Token != a.Token {
		t.Fatalf("a start that needs more approvals: %+v", got)
	}
	s.action(req{key: boss2, op: "action_approval", id: a.ID, body: yes})
	if got := s.action(req{key: agent, op: "action_start", id: a.ID}); got.Status != "executing" {
		t.Fatalf("after the second approval: %+v", got)
	}
}

// TestActionIsChargedOnce has limits that one permit uses up: by its submission when that permits it, by its start when
// an approval does.
func TestActionIsChargedOnce(t *testing.T) {
	for _, kind := range []sdk.LimitKind{sdk.LimitRate, sdk.LimitBudget, sdk.LimitLoop} {
		for _, effect := range []sdk.Effect{sdk.Permit, sdk.Defer} {
			s := newStage(t)
			agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
			per := "key"
			if kind == sdk.LimitLoop {
				per = ""
			}
			s.says(sdk.Verdict{Effect: effect, Code: "P",
				Limits: []sdk.Limit{{Kind: kind, Rule: "r", Per: per, Window: time.Hour, Amount: "1", Max: "1"}}})
			a := s.action(submit(agent, "t", `{}`))
			if effect == sdk.Defer {
				s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
			}
			if run := s.action(req{key: agent, op: "action_start", id: a.ID}); run.Status != "executing" {
				t.Errorf("limit %d, %v: %+v", kind, effect, run)
			}
			s.advance(3 * time.Second)
			if next := s.action(submit(agent, "t", `{}`)); next.Status != "denied" {
				t.Errorf("limit %d, %v: the next is %+v", kind, effect, next)
			}
		}
	}
}

func TestActionExpires(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	allowed, pending, approved := s.action(submit(agent, "permit", `{}`)), s.action(submit(agent, "defer", `{"n":1}`)),
		s.action(submit(agent, "defer", `{"n":2}`))
	s.advance(4 * time.Minute)
	s.action(req{key: boss, op: "action_approval", id: approved.ID,
		body: fmt.Sprintf(`{"token":%q,"approve":true}`, approved.Token)})
	s.advance(time.Minute)
	for _, id := range []string{allowed.ID, pending.ID} {
		if got := s.action(req{key: agent, op: "action_get", id: id}); got.Status != "denied" || got.Reason != "expired" {
			t.Errorf("after 5 minutes: %+v", got)
		}
		s.refused(req{key: agent, op: "action_start", id: id}, sdk.CodeActionExpired)
		s.refused(req{key: agent, op: "action_start", id: id, idem: "late"}, sdk.CodeActionExpired)
	}
	s.refused(req{key: boss, op: "action_approval", id: pending.ID,
		body: fmt.Sprintf(`{"token":%q,"approve":true}`, pending.Token)}, sdk.CodeConflict)
	s.events(agent, pending.ID, "created decision_made denied")
	if got := s.action(req{key: agent, op: "action_get", id: approved.ID}); got.Status != "approved" {
		t.Fatalf("approved a minute ago: %+v", got)
	}
	list := s.list(agent, [2]string{"status", "denied"})
	if len(list) != 2 {
		t.Errorf("%d denied in the list, want 2", len(list))
	}
	s.advance(4 * time.Minute)
	if got := s.action(req{key: agent, op: "action_get", id: approved.ID}); got.Status != "denied" ||
		got.Reason != "expired" {
		t.Errorf("5 minutes after its approval: %+v", got)
	}
	s.refused(req{key: agent, op: "action_start", id: approved.ID}, sdk.CodeActionExpired)
}

func (s *stage) list(key string, query ...[2]string) (out []act) {
	s.t.Helper()
	text, err := s.do(req{key: key, op: "action_list", query: query})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	for _, a := range out {
		if a.Token != "" {
			s.t.Error("a list gives an approval token away")
		}
	}
	return out
}

// An action cannot be a dry run: nothing is decided, kept or charged for whoever asks for one.
func TestActionsAreNoDryRuns(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	for _, op := range []string{"action_submit", "gate_decide"} {
		dry := func(value string) req {
			return req{key: agent, op: op, body: `{"agent_id":"a","tool":"permit","dry_run":` + value + `}`}
		}
		for _, value := range []string{"true", `"true"`, "1"} {
			if msg := s.refused(dry(value), sdk.CodeInvalidField); !strings.Contains(msg, "dry_run") {
				t.Errorf("%s of %s: %s", value, op, msg)
			}
		}
		if asked := s.asked.Load(); asked != 0 {
			t.Errorf("%s: the chain was asked %d times", op, asked)
		}
		for _, value := range []string{"false", "null"} {
			if _, err := s.do(dry(value)); err != nil {
				t.Errorf("%s of %s: %v", value, op, err)
			}
		}
		s.asked.Store(0)
	}
}
