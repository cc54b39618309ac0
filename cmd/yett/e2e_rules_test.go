package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

const (
	permitted = `{"agent_id":"a","tool_id":"files/read","args":{"path":"x"}}`
	refused   = `{"agent_id":"a","tool_id":"no/such"}`
)

// deferred asks for a call that waits for a person and gives its token.
func (s *server) deferred(tool, args string) string {
	s.t.Helper()
	a := s.post(s.Keys.Agent, "/v1/authorize", `{"agent_id":"a","tool_id":"`+tool+`","args":`+args+`}`)
	if a.status != 200 || a.str("effect") != "DEFER" || a.str("defer_token") == "" {
		s.t.Fatalf("no defer: status %d: %s", a.status, a.body)
	}
	return a.str("defer_token")
}

// want fails unless the answer has that status and code.
func (a answer) want(t testing.TB, status int, code string) {
	t.Helper()
	if a.status != status || a.str("code") != code {
		t.Errorf("status %d, code %q; want %d, %q: %s", a.status, a.str("code"), status, code, a.body)
	}
}

// wantDecision fails unless the answer is that decision with the headers that repeat it.
func (a answer) wantDecision(t testing.TB, effect, code string) {
	t.Helper()
	if a.str("effect") != effect || a.str("reason_code") != code {
		t.Errorf("status %d, %s %s; want %s %s: %s", a.status, a.str("effect"), a.str("reason_code"), effect, code, a.body)
	}
	h := a.header
	if h.Get("X-Yett-Effect") != effect || h.Get("X-Yett-Reason-Code") != code ||
		h.Get("X-Yett-Decision-Id") != a.str("decision_id") {
		t.Errorf("headers say %s %s %s: %s", h.Get("X-Yett-Effect"), h.Get("X-Yett-Reason-Code"), h.Get("X-Yett-Decision-Id"),
			a.body)
	}
}

// madeKey makes a key with `yett keys create`.
func (s *server) madeKey(args ...string) (id, value string) {
	s.t.Helper()
	cmd := exec.Command(e2e.Binary(s.t), append(append([]string{"keys", "create"}, args...), "--data", s.Data, "-o",
		"json")...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var k struct{ ID, Key string }
	if err == nil {
		err = json.Unmarshal(out, &k)
	}
	if err != nil || k.ID == "" || k.Key == "" {
		s.t.Fatalf("keys create %v: %v: %s", args, err, out)
	}
	return k.ID, k.Key
}

func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	id, revoked := s.madeKey("gone")
	if out, err := exec.Command(e2e.Binary(t), "keys", "revoke", id, "--data", s.Data).CombinedOutput(); err != nil {
		t.Fatalf("keys revoke: %v: %s", err, out)
	}
	_, narrow := s.madeKey("narrow", "--agents", "billing-*")
	k := s.Keys
	wrong := k.Agent[:len(k.Agent)-1] + string(k.Agent[len(k.Agent)-1]^1)
	for _, c := range []struct {
		name, key, path, body, code, says string
		status                            int
	}{
		{"no key", "", "/v1/authorize", permitted, "unauthenticated", "", 401},
		{"no key of ours", "x", "/v1/authorize", permitted, "unauthenticated", "", 401},
		{"wrong key", wrong, "/v1/authorize", permitted, "unauthenticated", "", 401},
		{"revoked key", revoked, "/v1/authorize", permitted, "key_revoked", "", 401},
		{"no key, bad body", "", "/v1/scan_output", `{`, "unauthenticated", "", 401},
		{"approver asks", k.Approver, "/v1/authorize", permitted, "missing_scope", "authorize", 403},
		{"approver scans", k.Approver, "/v1/scan_output", `{"tool_id":"t","output":"x"}`, "missing_scope", "scan", 403},
		{"agent approves", k.Agent, "/v1/approve", `{"defer_token":"x","approved":true}`, "missing_scope", "approve", 403},
		{"other agent", narrow, "/v1/authorize", permitted, "agent_not_allowed", "", 403},
		{"other agent scans", narrow, "/v1/scan_output", `{"tool_id":"t","output":"x","agent_id":"a"}`, "agent_not_allowed", "", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.post(c.key, c.path, c.body)
			a.want(t, c.status, c.code)
			if c.status == 401 && a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("WWW-Authenticate is %q", a.header.Get("WWW-Authenticate"))
			}
			if !strings.Contains(a.str("detail"), c.says) {
				t.Errorf("the detail does not name %s: %s", c.says, a.body)
			}
		})
	}
	s.post(narrow, "/v1/authorize", `{"agent_id":"billing-7","tool_id":"files/read"}`).wantDecision(t, "PERMIT",
		"RULE_PERMIT")
	if log := s.exported(); strings.Contains(log, k.Agent) || strings.Contains(log, revoked) ||
		!strings.Contains(log, `"auth_failed"`) {
		t.Error("the log holds a key's value, or no record of refused keys")
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	for _, c := range []struct {
		name, method, path, body, code, field string
		status                                int
		headers                               []string
	}{
		{name: "unknown path", method: "POST", path: "/v1/nothing", status: 404, code: "not_found"},
		{name: "path with a slash", method: "POST", path: "/v1/authorize/", status: 404, code: "not_found"},
		{name: "upper case", method: "POST", path: "/V1/authorize", status: 404, code: "not_found"},
		{name: "dots", method: "POST", path: "/v1/x/../nothing", status: 404, code: "not_found"},
		{name: "method", method: "GET", path: "/v1/authorize", status: 405, code: "method_not_allowed"},
		{name: "method of a page", method: "POST", path: "/healthz", status: 405, code: "method_not_allowed"},
		{name: "coding", method: "POST", path: "/v1/authorize", body: permitted, headers: []string{"Content-Encoding", "gzip"}, status: 415, code: "unsupported_coding"},
		{name: "no body", method: "POST", path: "/v1/authorize", status: 400, code: "invalid_json"},
		{name: "trailing data", method: "POST", path: "/v1/authorize", body: permitted + "x", status: 400, code: "invalid_json"},
		{name: "name twice", method: "POST", path: "/v1/authorize", body: `{"agent_id":"a","agent_id":"b","tool_id":"t"}`, status: 400, code: "invalid_json"},
		{name: "name twice, escaped", method: "POST", path: "/v1/authorize", body: `{"agent_id":"a","agent\u005fid":"b","tool_id":"t"}`, status: 400, code: "invalid_json"},
		{name: "an array", method: "POST", path: "/v1/authorize", body: `[]`, status: 422, code: "invalid_field"},
		{name: "no agent", method: "POST", path: "/v1/authorize", body: `{"tool_id":"t"}`, status: 422, code: "missing_field", field: "agent_id"},
		{name: "wrong case", method: "POST", path: "/v1/authorize", body: `{"Agent_ID":"a","tool_id":"t"}`, status: 422, code: "missing_field", field: "agent_id"},
		{name: "empty tool", method: "POST", path: "/v1/authorize", body: `{"agent_id":"a","tool_id":""}`, status: 422, code: "invalid_field", field: "tool_id"},
		{name: "args no object", method: "POST", path: "/v1/authorize", body: `{"agent_id":"a","tool_id":"t","args":[1]}`, status: 422, code: "invalid_field", field: "args"},
		{name: "dry_run no bool", method: "POST", path: "/v1/authorize", body: `{"agent_id":"a","tool_id":"t","dry_run":"yes"}`, status: 422, code: "invalid_field", field: "dry_run"},
		{name: "output no string", method: "POST", path: "/v1/scan_output", body: `{"tool_id":"t","output":{}}`, status: 422, code: "invalid_field", field: "output"},
		{name: "approved is missing", method: "POST", path: "/v1/approve", body: `{"defer_token":"x"}`, status: 422, code: "missing_field", field: "approved"},
		{name: "approved is null", method: "POST", path: "/v1/approve", body: `{"defer_token":"x","approved":null}`, status: 422, code: "missing_field", field: "approved"},
		{name: "long wait", method: "POST", path: "/v1/defer/status", body: `{"token":"x","wait_seconds":61}`, status: 422, code: "invalid_field", field: "wait_seconds"},
		{name: "part of a second", method: "POST", path: "/v1/defer/status", body: `{"token":"x","wait_seconds":0.5}`, status: 422, code: "invalid_field", field: "wait_seconds"},
		{name: "unknown defer", method: "POST", path: "/v1/approve", body: `{"defer_token":"x","approved":true}`, status: 404, code: "unknown_defer", field: "defer_token"},
		{name: "unknown status", method: "POST", path: "/v1/defer/status", body: `{"token":"x"}`, status: 404, code: "unknown_defer", field: "defer_token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := s.Keys.Agent
			if c.path == "/v1/approve" {
				key = s.Keys.Approver
			}
			a, err := s.send(c.method, c.path, key, c.body, c.headers...)
			if err == nil {
				err = a.wellFormed()
			}
			if err != nil {
				t.Fatal(err)
			}
			a.want(t, c.status, c.code)
			if a.str("field") != c.field {
				t.Errorf("field %q, want %q: %s", a.str("field"), c.field, a.body)
			}
			if allow := a.header.Get("Allow"); (c.status == 405) != (allow != "") {
				t.Errorf("Allow is %q", allow)
			}
			if c.name == "unknown status" && a.str("status") != "unknown" {
				t.Errorf("the status is %v, want unknown", a.json["status"])
			}
		})
	}
}

func TestRequestIDsAndPages(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	for id, echoed := range map[string]bool{"abc-1.2:3_4": true, strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false, "a b": false, `a"b`: false, "é": false} {
		a := s.post(s.Keys.Agent, "/v1/authorize", permitted, "X-Request-Id", id)
		if (a.header.Get("X-Request-Id") == id) != echoed {
			t.Errorf("X-Request-Id %q came back as %q", id, a.header.Get("X-Request-Id"))
		}
	}
	for path, says := range map[string]string{"/healthz": `{"status":"ok"}`, "/readyz": `"status":"ready"`,
		"/openapi.json": `"openapi"`} {
		a, err := s.send("GET", path, "", "")
		if err != nil || a.status != 200 || a.wellFormed() != nil || !strings.Contains(a.body, says) {
			t.Errorf("%s: %d %v %.100s", path, a.status, err, a.body)
		}
	}
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s.post(s.Keys.Agent, "/v1/authorize", permitted, "traceparent", trace)
	if !strings.Contains(s.exported(), "4bf92f3577b34da6a3ce929d0e0e4736") {
		t.Error("the trace id is not in the record")
	}
}

func TestDecisionsAndTheirStatus(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	agent := s.Keys.Agent
	for _, c := range []struct {
		body, effect, code string
	}{
		{permitted, "PERMIT", "RULE_PERMIT"},
		{refused, "DENY", "UNMATCHED_DENY"},
		{`{"agent_id":"a","tool_id":"shell/run","args":{"command":"rm -rf /"}}`, "DENY", "RULE_DENY"},
		{`{"agent_id":"a","tool_id":"payments/refund"}`, "DEFER", "RULE_DEFER"},
		{`{"agent_id":"a","tool_id":"files","operation":"read"}`, "PERMIT", "RULE_PERMIT"},
	} {
		a := s.post(agent, "/v1/authorize", c.body)
		a.wantDecision(t, c.effect, c.code)
		if a.status != 200 {
			t.Errorf("%s: status %d", c.body, a.status)
		}
		want := 200
		if c.effect != "PERMIT" {
			want = 403
		}
		a = s.post(agent, "/v1/authorize?deny_status=403", c.body)
		a.wantDecision(t, c.effect, c.code)
		if a.status != want {
			t.Errorf("%s with deny_status=403: status %d", c.body, a.status)
		}
	}
	a := s.post(agent, "/v1/authorize", `{"agent_id":"a","tool_id":"payments/refund","dry_run":true,"explain":true}`)
	if a.json["dry_run"] != true || a.str("effect") != "DEFER" || a.json["defer_token"] != nil ||
		a.header.Get("X-Yett-Effect") != "" {
		t.Errorf("dry run: %s with %v", a.body, a.header)
	}
	if rows, _ := a.json["checks"].([]any); len(rows) != 1 {
		t.Errorf("explain: %s", a.body)
	}
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	agent := s.Keys.Agent
	other := `{"agent_id":"a","tool_id":"files/read","args":{"path":"y"}}`
	ask := func(body, idem, id string) answer {
		t.Helper()
		var headers []string
		if idem != "" {
			headers = []string{"Idempotency-Key", idem}
		}
		if id != "" {
			body = strings.TrimSuffix(body, "}") + `,"call_id":"` + id + `"}`
		}
		return s.post(agent, "/v1/authorize", body, headers...)
	}
	for _, by := range [][2]string{{"", "c1"}, {"i1", ""}} {
		first, again, conflict := ask(permitted, by[0], by[1]), ask(permitted, by[0], by[1]), ask(other, by[0], by[1])
		if first.json["repeat"] != nil || again.json["repeat"] != true ||
			first.str("decision_id") != again.str("decision_id") {
			t.Errorf("%v: %s and again %s", by, first.body, again.body)
		}
		conflict.wantDecision(t, "DENY", "CALL_ID_CONFLICT")
	}
	if a := s.post(agent, "/v1/authorize", `{"agent_id":"a","tool_id":"files/read","args":{ "path" : "x" },"call_id":"c1"}`); a.json["repeat"] != true {
		t.Errorf("the same call in another spelling is no repeat: %s", a.body)
	}
	_, second := s.madeKey("second")
	if a := s.post(second, "/v1/authorize", strings.TrimSuffix(other, "}")+`,"call_id":"c1"}`); a.str("effect") !=
		"PERMIT" {
		t.Errorf("a call_id of another key: %s", a.body)
	}
	token := s.deferred("payments/refund", `{"n":1}`)
	body := `{"defer_token":"` + token + `","approved":true}`
	one, two := s.post(s.Keys.Approver, "/v1/approve", body, "Idempotency-Key", "k"),
		s.post(s.Keys.Approver, "/v1/approve", body, "Idempotency-Key", "k")
	if one.status != 200 || one.body != two.body {
		t.Errorf("approve: %s and again %s", one.body, two.body)
	}
	s.post(s.Keys.Approver, "/v1/approve", `{"defer_token":"`+token+`","approved":false}`, "Idempotency-Key", "k").want(t,
		422, "idempotency_key_reused")
	// the same answer of the same approver
	if again := s.post(s.Keys.Approver, "/v1/approve", body); again.status != 200 || again.body != one.body {
		t.Errorf("approve without an Idempotency-Key: %s and again %s", one.body, again.body)
	}
	s.post(s.Keys.Approver, "/v1/approve", `{"defer_token":"`+token+`","approved":false}`).want(t, 409, "already_resolved")
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	_, both := s.madeKey("both", "--scopes", "authorize,approve")
	approve := func(key, token string) answer {
		return s.post(key, "/v1/approve", `{"defer_token":"`+token+`","approved":true,"reason":"checked"}`)
	}
	redeem := func(args, token string) answer {
		return s.post(s.Keys.Agent, "/v1/authorize",
			`{"agent_id":"a","tool_id":"payments/refund","args":`+args+`,"defer_token":"`+token+`"}`)
	}
	token := s.deferred("payments/refund", `{"amount":1}`)
	approve(both, token).want(t, 403, "self_approval")
	redeem(`{"amount":1}`, token).wantDecision(t, "DENY", "APPROVAL_MISMATCH")
	if a := approve(s.Keys.Approver, token); a.status != 200 || a.str("status") != "approved" {
		t.Fatalf("approve: %s", a.body)
	}
	for _, a := range []answer{s.post(s.Keys.Agent, "/v1/defer/status?token="+token, ""),
		s.post(s.Keys.Approver, "/v1/defer/status", `{"defer_token":"`+token+`"}`)} {
		if a.status != 200 || a.str("status") != "approved" || a.str("effect") != "PERMIT" || a.str("reason") != "checked" ||
			a.str("token") != token || a.str("defer_token") != token {
			t.Errorf("status: %s", a.body)
		}
	}
	_, stranger := s.madeKey("stranger")
	if a := s.post(stranger, "/v1/defer/status?token="+token, ""); a.status != 404 || a.str("status") != "unknown" {
		t.Errorf("another key's token: %s", a.body)
	}
	redeem(`{"amount":1000}`, token).wantDecision(t, "DENY", "APPROVAL_MISMATCH")
	redeem(`{"amount":1.0}`, token).wantDecision(t, "PERMIT", "APPROVAL_CONSUMED")
	redeem(`{"amount":1}`, token).wantDecision(t, "DENY", "APPROVAL_MISMATCH")
	if a := s.post(s.Keys.Agent, "/v1/defer/status?token="+token, ""); a.str("status") != "consumed" {
		t.Errorf("status: %s", a.body)
	}
	if joined := s.deferred("payments/refund", `{"amount":2}`); joined != s.deferred("payments/refund", `{"amount":2}`) {
		t.Error("the same call asked twice has two tokens")
	}
}

// TestLongPollEndsWithAnApproval holds a poll open, knows that it is open because the key's only place is taken, and
// approves.
func TestLongPollEndsWithAnApproval(t *testing.T) {
	t.Parallel()
	s := startDev(t, []string{"YETT__LIMITS__LONG_POLLS_PER_KEY=1"})
	token := s.deferred("payments/refund", `{"n":1}`)
	ended := s.holdPoll(token)
	s.until429(func() answer {
		return s.post(s.Keys.Agent, "/v1/defer/status", `{"token":"`+token+`","wait_seconds":1}`)
	}, "limits.long_polls_per_key")
	if a := s.post(s.Keys.Approver, "/v1/approve", `{"defer_token":"`+token+`","approved":true}`); a.status != 200 {
		t.Fatal(a.body)
	}
	if a := <-ended; a.status != 200 || a.str("status") != "approved" {
		t.Errorf("the poll ended with %d %s", a.status, a.body)
	}
}

// holdPoll starts a long poll that lasts longer than any test's patience and gives how it ends.
func (s *server) holdPoll(token string) <-chan answer {
	ended := make(chan answer, 1)
	go func() {
		for {
			a, err := s.send("POST", "/v1/defer/status", s.Keys.Agent, `{"token":"`+token+`","wait_seconds":60}`)
			if a.status == http.StatusTooManyRequests {
				continue // another request of the test was in its place
			}
			if err != nil {
				a.body = fmt.Sprint(err)
			}
			ended <- a
			return
		}
	}()
	return ended
}

// until429 asks until the limit is reached, which it names.
func (s *server) until429(ask func() answer, limit string) {
	s.t.Helper()
	for range 1 << 20 {
		a := ask()
		if a.status != http.StatusTooManyRequests {
			continue
		}
		a.want(s.t, 429, "too_many_requests")
		if !strings.Contains(a.str("detail"), limit) || a.header.Get("Retry-After") == "" {
			s.t.Errorf("the answer does not name %s, or has no Retry-After: %s", limit, a.body)
		}
		return
	}
	s.t.Fatalf("%s is never reached", limit)
}
