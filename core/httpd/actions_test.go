package httpd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/ops"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	agent := g.key("agent", "authorize")
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/actions", "GET, POST"}, {"HEAD", "/v1/actions", "GET, POST"}, {"OPTIONS", "/v1/actions/act_x", "GET"}, {"GET", "/v1/actions/act_x/start", "POST"},
		{"PUT", "/v1/grants", "GET, POST"}, {"HEAD", "/healthz", "GET"}, {"POST", "/v1/health", "GET"}, {"GET", "/v1/authorize", "POST"},
	} {
		a := g.send(agent, c.method, c.path, "")
		if a.StatusCode != 405 || a.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q, want %q", c.method, c.path, a.StatusCode, a.Header.Get("Allow"), c.allow)
		}
		if c.method != "HEAD" {
			g.problem(a, 405, "method_not_allowed")
		}
	}
	for _, path := range []string{"/v1", "/v1/actions/", "/v1/actions/a/b", "/v1/actions/a/start/",
		"/v1/actions/a%2Fstart/x", "/x"} {
		g.problem(g.send(agent, "GET", path, ""), 404, "not_found")
	}
	g.problem(g.send(agent, "GET", "/v1/actions/act_x", ""), 404, "unknown_action")
}

func TestRouterNeverPanics(t *testing.T) {
	r := routesOf()
	for i := range ops.Table {
		if p := ops.Table[i].Path; p != "" {
			res, params := r.find(strings.ReplaceAll(p, "{id}", "some-id"), nil)
			if res == nil || res.of([]byte(ops.Table[i].Method)).op != &ops.Table[i] ||
				strings.Contains(p, "{id}") && (len(params) != 1 || params[0].Value != "some-id" || !params[0].InPath) {
				t.Errorf("%s is not found: %v", p, params)
			}
		}
	}
}

func FuzzRouter(f *testing.F) {
	for _, s := range []string{"/", "", "/v1/actions/x/start", "//", "/v1/actions/", "v1/actions/x"} {
		f.Add(s)
	}
	r := routesOf()
	f.Fuzz(func(t *testing.T, path string) {
		res, params := r.find(path, nil)
		for _, p := range params {
			if p.Value == "" || strings.Contains(p.Value, "/") {
				t.Fatalf("%q: %q stands for a segment", path, p.Value)
			}
		}
		if res == nil && len(params) > 0 {
			t.Fatalf("%q: nothing is there, but it has %v", path, params)
		}
	})
}

func TestOpenPages(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	for path, want := range map[string]string{"/health": `{"status":"healthy"}`, "/v1/health": `{"status":"healthy"}`,
		"/ready": `{"status":"ready"}`, "/healthz": `{"status":"ok"}`} {
		if a := g.send("", "GET", path, ""); a.StatusCode != 200 || a.body != want {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	g.problem(g.send("", "GET", "/v1/policy/info", ""), 401, "unauthenticated")
	if a := g.send(g.key("s", "scan"), "GET", "/v1/policy/info", ""); a.StatusCode != 200 ||
		a.m["policy_version"] != "p" || a.m["policy_hash"] != "p" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	g.server.Drain()
	for _, path := range []string{"/ready", "/readyz"} {
		if a := g.send("", "GET", path, ""); a.StatusCode != 503 || a.m["status"] != "not_ready" ||
			a.Header.Get("Retry-After") == "" {
			t.Errorf("%s while draining: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := g.send("", "GET", "/health", ""); a.StatusCode != 200 {
		t.Errorf("/health while draining: %d", a.StatusCode)
	}
	a := g.send(g.key("a", "authorize"), "POST", "/v1/gate/decide", `{"agent_id":"a","tool":"permit"}`)
	g.problem(a, 503, "draining")
	if a.m["effect"] != "DENY" {
		t.Errorf("%s", a.body)
	}
}

func TestActionsOverHTTP(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	agent, boss := g.key("agent", "authorize"), g.key("boss", "approve")
	a := g.send(agent, "POST", "/v1/actions", `{"agent_id": "a", "tool": "defer", "operation": "get", "params": {"n": 1.0, "u": "\u00e9"}, "context": {}, "extra": 1}`)
	if a.StatusCode != 200 || a.m["status"] != "pending_approval" || a.Header.Get("Content-Type") != "application/json" ||
		a.Header.Get("X-Request-Id") == "" || !strings.Contains(a.body, `"params":{"n":1.0,`) {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	id, token := a.m["id"].(string), a.m["approval_token"].(string)
	at := "/v1/actions/" + id
	g.problem(g.send(agent, "POST", at+"/start", ""), 409, "conflict")
	g.problem(g.send(boss, "POST", at+"/approval", `{"token":"wrong","approve":true}`), 401, "wrong_token")
	g.problem(g.send(agent, "POST", at+"/approval", `{"token":"wrong","approve":true}`), 403, "missing_scope")
	g.problem(g.send(boss, "POST", at+"/approval", `{"token":"wrong"}`), 422, "missing_field")
	g.problem(g.send(boss, "POST", at+"/approval", ``), 400, "invalid_json")
	g.problem(g.send(boss, "POST", at+"/approval", `{"token":"a","token":"b","approve":true}`), 400, "invalid_json")
	g.problem(g.send(boss, "POST", at+"/approval", `{"token":"wrong","approve":"yes"}`), 422, "invalid_field")
	if ok := g.send(boss, "POST", at+"/approval",
		fmt.Sprintf(`{"token":%q,"approve":true,"id":7}`, token)); ok.StatusCode != 200 || ok.m["status"] != "approved" {
		t.Fatalf("%d %s", ok.StatusCode, ok.body)
	}
	if run := g.send(agent, "POST", at+"/start", ""); run.StatusCode != 200 || run.m["status"] != "executing" {
		t.Fatalf("%d %s", run.StatusCode, run.body)
	}
	if end := g.send(agent, "POST", at+"/result", `{"success":true,"result":[1]}`); end.StatusCode != 200 ||
		end.m["status"] != "succeeded" {
		t.Fatalf("%d %s", end.StatusCode, end.body)
	}
	if e := g.send(agent, "GET", at+"/events", ""); e.StatusCode != 200 || strings.Count(e.body, `"event_type"`) != 5 ||
		!strings.HasPrefix(e.body, "[{") {
		t.Errorf("%d %s", e.StatusCode, e.body)
	}
	if denied := g.send(agent, "POST", "/v1/actions", `{"agent_id":"a","tool":"deny"}`); denied.StatusCode != 200 ||
		denied.m["status"] != "denied" {
		t.Errorf("%d %s", denied.StatusCode, denied.body)
	}
	if p := g.send(agent, "POST", "/v1/policy/validate", `{"policy":"x"}`); p.StatusCode != 422 || p.m["line"] != 2.0 ||
		p.m["column"] != 3.0 {
		t.Errorf("%d %s", p.StatusCode, p.body)
	}
	g.problem(g.send("", "GET", at, ""), 401, "unauthenticated")
}

func TestListOverHTTP(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	agent := g.key("agent", "authorize")
	if a := g.send(agent, "GET", "/v1/actions?limit=20&offset=0", ""); a.StatusCode != 200 || a.body != "[]" ||
		a.Header.Get("Link") != "" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for i := range 5 {
		g.send(agent, "POST", "/v1/actions", fmt.Sprintf(`{"agent_id":"a&b é","tool":"permit","params":{"n":%d}}`, i))
	}
	path, seen := "/v1/actions?limit=2&offset=1&agent_id=a%26b+%C3%A9&zzz=1", 0
	for path != "" {
		a := g.send(agent, "GET", path, "")
		if a.StatusCode != 200 {
			t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
		}
		seen += strings.Count(a.body, `"id":"act_`)
		link, cursor := a.Header.Get("Link"), a.Header.Get("X-Next-Cursor")
		if (link == "") != (cursor == "") || cursor != "" && !strings.Contains(link, "cursor="+cursor) {
			t.Errorf("Link %q, X-Next-Cursor %q", link, cursor)
		}
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
	}
	if seen != 4 {
		t.Errorf("%d actions by links, want 4", seen)
	}
	for query, field := range map[string]string{"limit=0": "limit", "limit=1001": "limit", "limit=a": "limit",
		"limit=1&limit=1": "limit", "offset=-1": "offset", "status=x": "status", "tool=%FF": "tool",
		"agent_id=%00": "agent_id", "cursor=x": "cursor"} {
		a := g.send(agent, "GET", "/v1/actions?"+query, "")
		g.problem(a, 422, "invalid_field")
		if a.m["field"] != field {
			t.Errorf("%s: the field is %v", query, a.m["field"])
		}
	}
	g.problem(g.send(agent, "GET", "/v1/actions?cursor="+strings.Repeat("c", 300), ""), 422, "invalid_field")
}

func TestGETWithABodyIsNeverASecondRequest(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	agent := g.key("agent", "authorize")
	a := g.send(agent, "GET", "/v1/actions", `{"limit":1}`)
	if a.StatusCode != 400 || a.m["code"] != "bad_request" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

func TestEvaluateIsAlways200(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(s *Settings) { s.Server.DenyStatus = 403 })
	agent := g.key("agent", "authorize")
	for _, path := range []string{"/v1/evaluate", "/v1/evaluate?deny_status=403"} {
		a := g.send(agent, "POST", path, `{"agent_id":"a","tool_id":"deny","action_type":"tool_call","args":{}}`)
		if a.StatusCode != 200 || a.m["effect"] != "DENY" || a.Header.Get("X-Yett-Effect") != "DENY" {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := g.send(agent, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"deny"}`); a.StatusCode != 403 ||
		a.m["effect"] != "DENY" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestRetryAfterOfADecision: a proxy reads from the header when asking again can help, whatever the status is.
func TestRetryAfterOfADecision(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	agent := g.key("agent", "authorize")
	for _, c := range []struct{ tool, want string }{{"backoff", "30"}, {"broken", "1"}, {"deny", ""}, {"defer", ""},
		{"permit", ""}} {
		for path, body := range map[string]string{
			"/v1/authorize":                 `{"agent_id":"a","tool_id":%q}`,
			"/v1/authorize?deny_status=403": `{"agent_id":"a","tool_id":%q}`,
			"/v1/gate/decide":               `{"agent_id":"a","tool":%q,"operation":"o","params":{}}`,
			"/v1/actions":                   `{"agent_id":"a","tool":%q,"operation":"o","params":{}}`,
		} {
			if a := g.send(agent, "POST", path, fmt.Sprintf(body, c.tool)); a.Header.Get("Retry-After") != c.want {
				t.Errorf("%s of %s: Retry-After %q, want %q: %s", path, c.tool, a.Header.Get("Retry-After"), c.want, a.body)
			}
		}
	}
}

func TestIdempotencyKeysOverHTTP(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	agent := g.key("agent", "authorize")
	ids := map[any]bool{}
	for range 3 {
		a := g.send(agent, "POST", "/v1/actions", `{"agent_id":"a","tool":"permit"}`, "Idempotency-Key", "k")
		ids[a.m["id"]] = true
	}
	if len(ids) != 1 {
		t.Errorf("one Idempotency-Key made %d actions", len(ids))
	}
	g.problem(g.send(agent, "POST", "/v1/actions", `{"agent_id":"a","tool":"permit"}`, "Idempotency-Key",
		strings.Repeat("k", 257)), 422, "invalid_field")
}

func TestGenericRowsTakeTheirQuery(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	ops := g.key("ops", "approve", "grants", "kill", "audit")
	for _, path := range []string{"/v1/approvals?limit=5&agent_id=a", "/v1/grants?include_expired=true&limit=2",
		"/v1/kill"} {
		if a := g.send(ops, "GET", path, ""); a.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	for _, path := range []string{"/v1/approvals?limit=five", "/v1/grants?include_expired=1"} {
		g.problem(g.send(ops, "GET", path, ""), 422, "invalid_field")
	}
}

// TestReadyBesidePlugins: a plugin that is down is said, and does not make the gateway unready.
func TestReadyBesidePlugins(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(s *Settings) {
		s.Ready = func() []Part {
			return []Part{{Name: "store", OK: true}, {Name: "plugin x", Detail: "why", State: "backoff", Beside: true}}
		}
	})
	a := g.send("", "GET", "/readyz", "")
	if a.StatusCode != 200 || a.m["status"] != "ready" ||
		!strings.Contains(a.body, `{"name":"plugin x","ok":false,"state":"backoff","detail":"why"}`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
