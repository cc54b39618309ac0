package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
)

// nowhere checks that no file of the store has the text in it.
func (s *stage) nowhere(text string) {
	s.t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the store has removed it meanwhile
		}
		if err == nil && strings.Contains(string(b), text) {
			s.t.Errorf("%s holds %q", path, text)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

func TestActionIsKeptMasked(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	sent := body("permit", `{"pass":"`+secret+`","n":1.50}`)
	a := s.action(req{key: agent, op: "action_submit", body: sent})
	if !strings.Contains(string(a.Params), secret) {
		t.Errorf("the submission's answer does not say what was sent: %s", a.Params)
	}
	for name, got := range map[string]act{"read": s.action(req{key: agent, op: "action_get", id: a.ID}),
		"list": s.list(agent)[0]} {
		if string(got.Params) != `{"pass":"[SECRET_TEST: 9 characters (6 letters, 2 digits, 1 sign), begins SE…]","n":1.50}` {
			t.Errorf("%s: params %s", name, got.Params)
		}
	}
	seen := ""
	fn := func(c *chain.Call) (sdk.Verdict, error) {
		seen = c.Args.Get("pass").Str()
		return sdk.Verdict{Effect: sdk.Permit, Code: "P"}, nil
	}
	s.verdict.Store(&fn)
	if got := s.action(req{key: agent, op: "action_start", id: a.ID}); got.Status != "executing" || seen != secret {
		t.Errorf("the start decided %q: %+v", seen, got)
	}
	lost := s.action(req{key: agent, op: "action_submit", body: strings.Replace(sent, "1.50", "2", 1)})
	clear := s.action(submit(agent, "permit", `{"n":3}`))
	s.restart()
	if msg := s.refused(req{key: agent, op: "action_start", id: lost.ID}, sdk.CodeConflict); !strings.Contains(msg,
		"submit the action again") {
		t.Errorf("the detail says %q", msg)
	}
	if got := s.action(req{key: agent, op: "action_start", id: clear.ID}); got.Status != "executing" {
		t.Errorf("after a restart: %+v", got)
	}
	s.nowhere(secret)
}

func TestMaskedActionWaitsForItsApproval(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	s.says(sdk.Verdict{Effect: sdk.Defer, Code: "D", Expires: 30 * time.Minute})
	a := s.action(submit(agent, "x", `{"pass":"`+secret+`"}`))
	s.advance(20 * time.Minute)
	s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
	s.advance(4 * time.Minute)
	if got := s.action(req{key: agent, op: "action_start", id: a.ID}); got.Status != "executing" {
		t.Errorf("started 24 minutes after it was submitted: %+v", got)
	}
}

// What cannot be masked is not kept; the action is decided as ever, and started from what is in memory.
func TestActionThatCannotBeMaskedStands(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	err := errors.New("the scanner is down")
	s.scan.Store(&err)
	for tool, status := range map[string]string{"permit": "allowed", "defer": "pending_approval", "deny": "denied"} {
		a := s.action(submit(agent, tool, `{"pass":"`+secret+`"}`))
		if a.Status != status || a.Code == sdk.ReasonScanUnavailable {
			t.Errorf("%s: %+v", tool, a)
		}
		text, err := s.do(req{key: agent, op: "action_get", id: a.ID})
		for _, want := range []string{`"params":{"withheld":"error","scanner":"stage"},"context":{}`,
			`"params_withheld":{"cause":"error","scanner":"stage"}`} {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: kept %s %v, without %s", tool, text, err, want)
			}
		}
		if tool == "permit" {
			if got := s.action(req{key: agent, op: "action_start", id: a.ID}); got.Status != "executing" {
				t.Errorf("the start: %+v", got)
			}
		}
	}
	s.nowhere(secret)
}

func TestActionKeepsNoKey(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	k, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "leaked", Preset: "agent"}, admin)
	if err != nil {
		t.Fatal(err)
	}
	value := k.Value
	a := s.action(submit(agent, "permit", `{"k":"`+value+`"}`))
	if got := s.action(req{key: agent, op: "action_get", id: a.ID}); !strings.HasPrefix(string(got.Params),
		`{"k":"[YETT_API_KEY: 67 characters`) {
		t.Errorf("kept %s", got.Params)
	}
	s.advance(3 * time.Second) // it is the same call, and would be the same action
	escaped := `{"k":"\u0079` + value[1:] + `"}`
	b := s.action(submit(agent, "permit", escaped))
	if got := s.action(req{key: agent, op: "action_get", id: b.ID}); !strings.HasPrefix(string(got.Params),
		`{"k":"[YETT_API_KEY: 67 characters`) {
		t.Errorf("kept %s", got.Params)
	}
	if got := s.action(req{key: agent, op: "action_start", id: b.ID}); got.Status != "executing" {
		t.Errorf("%+v", got)
	}
	end := s.action(req{key: agent, op: "action_result", id: b.ID,
		body: `{"success":false,"error":"` + value + `","result":["` + value + `"]}`})
	if end.Result.Error != "[YETT_API_KEY]" || end.Result.Withheld != "" ||
		string(end.Result.Value) != `["[YETT_API_KEY]"]` {
		t.Errorf("kept %+v", end.Result)
	}
	s.refused(req{key: agent, op: "action_submit", body: body("permit", `{}`), idem: value}, sdk.CodeInvalidField)
	s.nowhere(value)
}

func TestActionResultIsScanned(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	s.says(sdk.Verdict{Effect: sdk.Permit, Code: "P"})
	started := func(tool string) string {
		a := s.action(submit(agent, tool, `{}`))
		s.advance(3 * time.Second)
		s.action(req{key: agent, op: "action_start", id: a.ID})
		return a.ID
	}
	for _, c := range []struct {
		name, tool, body, status, value, outcome string
		withheld                                 bool
	}{
		{"clean", "t", `{"success":true,"result":[1.0, {"a":"b"}]}`, "succeeded", `[1.0,{"a":"b"}]`, "PASS", false},
		{"a text", "t", `{"success":true,"result":"done"}`, "succeeded", `"done"`, "PASS", false},
		{"flagged by the operator, masked by us", "t", `{"success":true,"result":{"p":"` + secret + `"}}`, "succeeded", `{"p":"[SECRET_TEST]"}`, "WARNED", false},
		{"denied", "deny-result", `{"success":true,"result":{"p":"` + secret + `"}}`, "succeeded", `null`, "DENIED", true},
		{"denied and failed", "deny-result", `{"success":false,"result":"` + secret + `","error":"with ` + secret + `"}`, "failed", `null`, "DENIED", true},
		{"none", "t", `{"success":true}`, "succeeded", `null`, "", false},
	} {
		a := s.action(req{key: agent, op: "action_result", id: started(c.tool), body: c.body})
		if a.Status != c.status || string(a.Result.Value) != c.value || a.Result.Outcome != c.outcome ||
			(a.Result.Withheld != "") != c.withheld {
			t.Errorf("%s: %s %+v", c.name, a.Status, a.Result)
		}
		if strings.Contains(a.Result.Error, secret) {
			t.Errorf("%s: kept the error %q", c.name, a.Result.Error)
		}
	}
	err := errors.New("the scanner is down")
	id := started("t")
	s.scan.Store(&err)
	if a := s.action(req{key: agent, op: "action_result", id: id,
		body: `{"success":true,"result":1,"error":"e"}`}); a.Status != "succeeded" || a.Result.Outcome != "DENIED" ||
		a.Result.Withheld == "" {
		t.Errorf("a result that could not be scanned: %+v %+v", a, a.Result)
	}
	scans := 0
	if err := s.store.Records(1, func(_ uint64, rec []byte) error {
		if strings.Contains(string(rec), `"type":"scan"`) {
			scans++
		}
		return nil
	}); err != nil || scans != 6 {
		t.Errorf("%d scans are recorded, want 6: %v", scans, err)
	}
	s.nowhere(secret)
}

func TestActionList(t *testing.T) {
	s := newStage(t)
	agent, auditor, narrow := s.key("agent", "agent"), s.key("auditor", "auditor"), s.key("narrow", "approver", "b")
	var ids []string
	for i := range 25 {
		s.advance(time.Millisecond)
		who, tool := "a", "permit"
		if i%5 == 0 {
			who = "b"
		}
		if i%3 == 0 {
			tool = "deny"
		}
		a := s.action(req{key: agent, op: "action_submit",
			body: fmt.Sprintf(`{"agent_id":%q,"tool":%q,"params":{"n":%d}}`, who, tool, i)})
		ids = append([]string{a.ID}, ids...)
	}
	idsOf := func(list []act) (out []string) {
		for _, a := range list {
			out = append(out, a.ID)
		}
		return out
	}
	if got := idsOf(s.list(auditor)); strings.Join(got, " ") != strings.Join(ids[:20], " ") {
		t.Errorf("the default page: %v, want %v", got, ids[:20])
	}
	if got := idsOf(s.list(agent, [2]string{"limit", "10"}, [2]string{"offset", "20"})); strings.Join(got, " ") !=
		strings.Join(ids[20:], " ") {
		t.Errorf("limit and offset: %v", got)
	}
	for _, c := range []struct {
		query [2]string
		want  int
	}{{[2]string{"agent_id", "b"}, 5}, {[2]string{"tool", "deny"}, 9}, {[2]string{"status", "allowed"}, 16},
		{[2]string{"status", "timeout"}, 0}, {[2]string{"agent_id", "nobody"}, 0}, {[2]string{"unknown", "x"}, 25}} {
		if got := s.list(auditor, c.query, [2]string{"limit", "1000"}); len(got) != c.want {
			t.Errorf("%v: %d actions, want %d", c.query, len(got), c.want)
		}
	}
	if got := s.list(narrow, [2]string{"limit", "1000"}); len(got) != 5 {
		t.Errorf("a key that sees one agent gets %d actions, want 5", len(got))
	}
	for _, filter := range [][2]string{{"tool", ""}, {"agent_id", "a"}, {"status", "allowed"}} {
		var walked []string
		whole := idsOf(s.list(auditor, filter, [2]string{"limit", "1000"}))
		for cursor := ""; ; {
			resp, err := s.svc.Run(opNamed(t, "action_list"),
				s.request(req{key: auditor, query: [][2]string{filter, {"limit", "3"}, {"cursor", cursor}}}))
			if err != nil {
				t.Fatal(err)
			}
			var page []act
			if err := json.Unmarshal(resp.AppendJSON(nil), &page); err != nil {
				t.Fatal(err)
			}
			walked = append(walked, idsOf(page)...)
			if cursor = resp.(interface{ NextCursor() string }).NextCursor(); cursor == "" {
				break
			}
		}
		if strings.Join(walked, " ") != strings.Join(whole, " ") {
			t.Errorf("%v: by cursor %v, at once %v", filter, walked, whole)
		}
	}
	for _, c := range []struct {
		query [2]string
		code  sdk.Code
	}{{[2]string{"limit", "0"}, "invalid_field"}, {[2]string{"limit", "1001"}, "invalid_field"},
		{[2]string{"limit", "1x"}, "invalid_field"}, {[2]string{"offset", "-1"}, "invalid_field"},
		{[2]string{"status", "lost"}, "invalid_field"}, {[2]string{"cursor", "act_x"}, "invalid_field"}, {[2]string{"offset", "100001"}, "invalid_field"}} {
		s.refused(req{key: auditor, op: "action_list", query: [][2]string{c.query}}, c.code)
	}
	s.refused(req{key: narrow, op: "action_list", query: [][2]string{{"agent_id", "a"}}}, sdk.CodeAgentNotAllowed)
}

func TestGateEqualsTheAction(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	for _, tool := range []string{"permit", "deny", "defer", "nonsense"} {
		q := submit(agent, tool, `{"n":1.0,"t":"é"}`)
		var gate act
		text, err := s.do(req{key: agent, op: "gate_decide", body: q.body})
		if err != nil || json.Unmarshal([]byte(text), &gate) != nil {
			t.Fatal(err, text)
		}
		a := s.action(q)
		if gate.Outcome != a.Outcome || gate.Code != a.Code || gate.Reason != a.Reason || gate.RequestHash != a.RequestHash ||
			gate.Policy != a.Policy || gate.Provenance != a.Provenance || gate.Version != a.Version {
			t.Errorf("%s: the gate said %+v, the action is %+v", tool, gate, a)
		}
		if gate.ID != "" || gate.Token != "" {
			t.Errorf("%s: the gate made something: %s", tool, text)
		}
	}
	if n := len(s.list(agent)); n != 4 {
		t.Errorf("the gate makes actions: %d", n)
	}
	if text, err := s.do(req{key: boss, op: "approvals_list"}); err != nil || !strings.Contains(text, `"total":1`) {
		t.Errorf("the gate makes defers: %v %s", err, text)
	}
}

func TestEvaluateIsAuthorize(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	tool := ""
	fn := func(c *chain.Call) (sdk.Verdict, error) {
		tool = c.ToolID
		return sdk.Verdict{Effect: sdk.Defer, Code: "D"}, nil
	}
	s.verdict.Store(&fn)
	for _, c := range []struct{ body, tool string }{
		{`{"agent_id":"a","tool_id":"files","action_type":"read","args":{"n":1}}`, "files"},
		{`{"agent_id":"a","tool_id":"files/read","action_type":"tool_call","args":{"n":1}}`, "files/read"},
		{`{"agent_id":"a","tool_id":"files","operation":"read","action_type":"x"}`, "files/read"},
		{`{"agent_id":"a","tool_id":"files"}`, "files"},
	} {
		text, err := s.do(req{key: agent, op: "evaluate", body: c.body})
		if err != nil || tool != c.tool || member(text, "effect") != "DEFER" || member(text, "defer_token") == "" {
			t.Errorf("%s: decided as %q: %v %s", c.body, tool, err, text)
		}
	}
}

func TestActionWithModifiedArgs(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	for _, params := range []string{`{"amount":900}`, `{"amount":900,"pass":"` + secret + `"}`} {
		a := s.action(submit(agent, "defer", params))
		if _, err := s.do(req{key: boss, op: "approve_defer",
			body: fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"amount":5}}`, a.Token)}); err != nil {
			t.Fatal(err)
		}
		got := s.action(req{key: agent, op: "action_get", id: a.ID})
		if got.Status == "pending_approval" { // the modified call wants a sign-off of its own
			s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
			got = s.action(req{key: agent, op: "action_get", id: a.ID})
		}
		if got.Status != "approved" || string(got.Params) != `{"amount":5}` ||
			got.RequestHash == a.RequestHash || len(got.RequestHash) != 64 ||
			a.Modified || !got.Modified || a.Digest == "" || a.Digest == got.Digest {
			t.Fatalf("approved with other params: %+v", got)
		}
		// as it was submitted
		s.refused(req{key: agent, op: "action_start", id: a.ID, body: fmt.Sprintf(`{"digest":%q}`, a.Digest)},
			sdk.CodeCallChanged)
		amount := ""
		fn := func(c *chain.Call) (sdk.Verdict, error) {
			amount = c.Args.Get("amount").Decimal().String()
			return sdk.Verdict{Effect: sdk.Defer, Code: "TEST"}, nil
		}
		s.verdict.Store(&fn)
		run := s.action(req{key: agent, op: "action_start", id: a.ID, body: fmt.Sprintf(`{"digest":%q}`, got.Digest)})
		if run.Status != "executing" || amount != "5" || string(run.Params) != `{"amount":5}` || !run.Modified ||
			run.Digest != got.Digest {
			t.Errorf("started with amount %s: %+v", amount, run)
		}
		s.verdict.Store(nil)
	}
}

func TestKillAndRevokeEndPendingActions(t *testing.T) {
	s := newStage(t)
	agent, killer := s.key("agent", "agent"), s.key("killer", "operator")
	a := s.action(submit(agent, "defer", `{"n":1}`))
	if _, err := s.do(req{key: killer, op: "kill", body: `{"agent_id":"a"}`}); err != nil {
		t.Fatal(err)
	}
	if got := s.action(req{key: killer, op: "action_get", id: a.ID}); got.Status != "denied" {
		t.Errorf("after the kill: %+v", got)
	}
	s.refused(req{key: agent, op: "action_start", id: a.ID}, sdk.CodeConflict)
	b := s.action(req{key: agent, op: "action_submit", body: `{"agent_id":"b","tool":"defer"}`})
	if err := s.svc.RevokeKey(context.Background(), agent, admin); err != nil {
		t.Fatal(err)
	}
	if got := s.action(req{key: killer, op: "action_get", id: b.ID}); got.Status != "denied" {
		t.Errorf("after the asking key was revoked: %+v", got)
	}
}
