package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestOnlyAWholePermitPermits is the client's first duty: whatever else comes is no permission.
func TestOnlyAWholePermitPermits(t *testing.T) {
	whole := decisionText("PERMIT", "c1")
	for _, c := range []struct {
		name, kind, body string
		status           int
		headers          []string
		permitted        bool
		err              error // nil: an answer that permits nothing, or permits
	}{
		{name: "a whole permit", body: whole, permitted: true},
		{name: "with its header", body: whole, headers: []string{"X-Yett-Effect", "PERMIT"}, permitted: true},
		{name: "with members we do not know", body: decisionText("PERMIT", "c1", `"new":{"a":[1]}`), permitted: true},
		{name: "a deny", body: decisionText("DENY", "c1")},
		{name: "a defer", body: decisionText("DEFER", "c1")},
		{name: "a deny as 403", status: 403, body: decisionText("DENY", "c1")},
		{name: "a defer as 403", status: 403, body: decisionText("DEFER", "c1")},
		{name: "a dry run's permit", body: decisionText("PERMIT", "c1", `"dry_run":true`)},
		{name: "a permit as 403", status: 403, body: whole, err: ErrMalformed},
		{name: "a permit as 202", status: 202, body: whole, err: ErrMalformed},
		{name: "no body, 204", status: 204, err: ErrMalformed},
		{name: "another case", body: strings.Replace(whole, "PERMIT", "Permit", 1), err: ErrMalformed},
		{name: "a space", body: strings.Replace(whole, `"PERMIT"`, `"PERMIT "`, 1), err: ErrMalformed},
		{name: "an unknown effect", body: decisionText("ALLOW", "c1"), err: ErrMalformed},
		{name: "abstain never leaves the chain", body: decisionText("ABSTAIN", "c1"), err: ErrMalformed},
		{name: "effect true", body: strings.Replace(whole, `"PERMIT"`, `true`, 1), err: ErrMalformed},
		{name: "effect null", body: strings.Replace(whole, `"PERMIT"`, `null`, 1), err: ErrMalformed},
		{name: "effect in a list", body: strings.Replace(whole, `"PERMIT"`, `["PERMIT"]`, 1), err: ErrMalformed},
		{name: "no effect", body: strings.Replace(whole, `"effect"`, `"Effect"`, 1), err: ErrMalformed},
		{name: "effect twice", body: decisionText("DENY", "c1", `"effect":"PERMIT"`), err: ErrMalformed},
		{name: "effect twice, escaped", body: decisionText("DENY", "c1", `"\u0065ffect":"PERMIT"`), err: ErrMalformed},
		{name: "cut", body: whole[:len(whole)-1], err: ErrMalformed},
		{name: "data behind it", body: whole + "x", err: ErrMalformed},
		{name: "two answers", body: whole + whole, err: ErrMalformed},
		{name: "a list", body: "[" + whole + "]", err: ErrMalformed},
		{name: "empty", body: "", err: ErrMalformed},
		{name: "no decision id", body: strings.Replace(whole, "decision_id", "decision_ie", 1), err: ErrMalformed},
		{name: "no reason code", body: strings.Replace(whole, "reason_code", "reason_cod", 1), err: ErrMalformed},
		{name: "the decision of another call", body: decisionText("PERMIT", "c2"), err: ErrMalformed},
		{name: "latency is a string", body: strings.Replace(whole, `"latency_ms":0`, `"latency_ms":"0"`, 1), err: ErrMalformed},
		{name: "a defer without a token", body: strings.Replace(decisionText("DEFER", "c1"), "defer_token", "defer_tokem", 1), err: ErrMalformed},
		{name: "the header disagrees", body: whole, headers: []string{"X-Yett-Effect", "DENY"}, err: ErrMalformed},
		{name: "a page", kind: "text/html", body: whole, err: ErrMalformed},
		{name: "a problem with 200", kind: "application/problem+json", body: whole, err: ErrMalformed},
		{name: "a problem that says permit", status: 422, kind: "application/problem+json", body: strings.Replace(whole, "{", `{"code":"invalid_field",`, 1), err: ErrInvalid},
		{name: "an error that is no problem", status: 400, body: whole, err: ErrMalformed},
		{name: "a 404 of something else", status: 404, kind: "text/plain", body: "no", err: ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.kind == "" {
				c.kind = "application/json"
			}
			if c.status == 0 {
				c.status = 200
			}
			f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { answer(w, c.status, c.kind, c.body, c.headers...) })
			cl, _ := newClient(t, Options{URL: f.URL})
			d, err := cl.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t", CallID: "c1"})
			if d.Permitted() != c.permitted {
				t.Errorf("permitted: %v, want %v (%v)", d.Permitted(), c.permitted, err)
			}
			if c.err == nil && err != nil || c.err != nil && (!errors.Is(err, c.err) || d != nil) {
				t.Errorf("decision %v, error %v, want %v", d, err, c.err)
			}
			if n := len(f.requests()); n != 1 {
				t.Errorf("%d requests, want 1: this is no answer to ask again after", n)
			}
		})
	}
}

// TestNoDecisionByHand: what did not come from the decoder permits nothing, and neither does a decision that was
// edited.
func TestNoDecisionByHand(t *testing.T) {
	var none *Decision
	made := &Decision{}
	made.Effect = "PERMIT"
	edited := &Decision{permit: false}
	edited.Effect = "PERMIT"
	for _, d := range []*Decision{none, made, edited} {
		if d.Permitted() {
			t.Errorf("%+v permits", d)
		}
	}
}

func TestAuthorizeSends(t *testing.T) {
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, r seen) { ok(w, decisionText("PERMIT", r.str("call_id"))) })
	c, _ := newClient(t, Options{URL: f.URL})
	for _, tc := range []struct {
		name string
		in   Call
		want string // "" for an error before anything is sent
	}{
		{"all of it", Call{AgentID: "a<b", ToolID: "t", SessionID: "s", Operation: "o", Args: map[string]any{"n": 1, "x": "<\ufffd>"}, Context: struct {
			A bool `json:"a"`
		}{true}, CallID: "c", DeferToken: "d", Note: "no\te", Explain: true, DryRun: true, ExecutionTimeout: 1500e6},
			`{"agent_id":"a<b","tool_id":"t","session_id":"s","operation":"o","args":{"n":1,"x":"\u003c` + "\ufffd" +
				`\u003e"},"context":{"a":true},"call_id":"c","defer_token":"d","note":"no\te","explain":true,"dry_run":true,"execution_timeout_ms":1500}`},
		{"numbers stay as they are", Call{AgentID: "a", ToolID: "t", CallID: "c", Args: json.RawMessage("{\"n\": 1000000000000000000004,\n\"m\":1.50, \"u\":\"\\ufffd\"}")},
			`{"agent_id":"a","tool_id":"t","args":{"n":1000000000000000000004,"m":1.50,"u":"\ufffd"},"call_id":"c"}`},
		{"null is nothing", Call{AgentID: "a", ToolID: "t", CallID: "c", Args: json.RawMessage("null"), Context: map[string]any(nil)}, `{"agent_id":"a","tool_id":"t","call_id":"c"}`},
		{"args that are no object", Call{AgentID: "a", ToolID: "t", Args: []int{1}}, ""},
		{"a duplicate name", Call{AgentID: "a", ToolID: "t", Args: json.RawMessage(`{"a":1,"a":2}`)}, ""},
		{"broken JSON", Call{AgentID: "a", ToolID: "t", Args: json.RawMessage(`{"a":1`)}, ""},
		{"bytes that are not UTF-8 in args", Call{AgentID: "a", ToolID: "t", Args: map[string]string{"p": "a\xffb"}}, ""},
		{"and in a name", Call{AgentID: "a\xff", ToolID: "t"}, ""},
		{"what JSON cannot say", Call{AgentID: "a", ToolID: "t", Args: map[string]any{"f": func() {}}}, ""},
		{"a negative time", Call{AgentID: "a", ToolID: "t", ExecutionTimeout: -1}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := len(f.requests())
			d, err := c.Authorize(waitCtx(t), tc.in)
			got := f.requests()[before:]
			if tc.want == "" {
				var e *Error
				if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) || e.Field == "" || len(got) != 0 || d != nil {
					t.Fatalf("error %v, %d requests: want an error that names the field and no request", err, len(got))
				}
				return
			}
			if err != nil || len(got) != 1 {
				t.Fatalf("%d requests, %v", len(got), err)
			}
			r := got[0]
			if r.Body != tc.want || r.Method != "POST" || r.Path != "/v1/authorize" ||
				r.Header.Get("Authorization") != "Bearer key" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s %v\n%s\nwant\n%s", r.Method, r.Path, r.Header, r.Body, tc.want)
			}
		})
	}
}

// waitStory is what the fake server says in turn: the path, then the answer.
type waitStory []struct{ path, answer string }

func (s waitStory) serve(t *testing.T) *fakeHTTP {
	return newFakeHTTP(t, func(n int, w http.ResponseWriter, r seen) {
		if n >= len(s) || s[n].path != r.Path {
			t.Errorf("request %d: %s %s", n, r.Path, r.Body)
			answer(w, 500, "text/plain", "")
			return
		}
		ok(w, strings.ReplaceAll(s[n].answer, "CALL", r.str("call_id")))
	})
}

func status(word string, more string) string {
	return fmt.Sprintf(`{"status":%q,"token":"dfr_1","defer_token":"dfr_1","expires_at":"2030-01-01T00:00:00Z","approvals":1,"approvals_required":1%s}`, word, more)
}

func TestAuthorizeAndWait(t *testing.T) {
	const authorize, poll = "/v1/authorize", "/v1/defer/status"
	deferred, permit := decisionText("DEFER", "CALL"), decisionText("PERMIT", "CALL")
	for _, c := range []struct {
		name   string
		story  waitStory
		effect string
		code   string
		args   string
		redeem string // args of the last authorize
	}{
		{name: "permitted at once", story: waitStory{{authorize, permit}}, effect: "PERMIT", code: "RULE_PERMIT", args: `{"n":1}`},
		{name: "denied at once", story: waitStory{{authorize, decisionText("DENY", "CALL")}}, effect: "DENY", code: "RULE_DENY", args: `{"n":1}`},
		{name: "approved", story: waitStory{{authorize, deferred}, {poll, status("pending", "")}, {poll, status("approved", `,"effect":"PERMIT"`)}, {authorize, permit}}, effect: "PERMIT", code: "RULE_PERMIT", args: `{"n":1}`, redeem: `{"n":1}`},
		{name: "approved with other args", story: waitStory{{authorize, deferred}, {poll, status("approved", `,"modified_args":{"n":2,"big":10000000000000000000001}`)}, {authorize, permit}},
			effect: "PERMIT", code: "RULE_PERMIT", args: `{"n":2,"big":10000000000000000000001}`,
			redeem: `{"n":2,"big":10000000000000000000001}`},
		{name: "approved, but denied today", story: waitStory{{authorize, deferred}, {poll, status("approved", "")}, {authorize, decisionText("DENY", "CALL")}}, effect: "DENY", code: "RULE_DENY", args: `{"n":1}`, redeem: `{"n":1}`},
		{name: "approved, then more sign-offs wanted", story: waitStory{{authorize, deferred}, {poll, status("approved", "")}, {authorize, deferred}, {poll, status("approved", "")}, {authorize, permit}}, effect: "PERMIT", code: "RULE_PERMIT", args: `{"n":1}`, redeem: `{"n":1}`},
		{name: "denied", story: waitStory{{authorize, deferred}, {poll, status("denied", `,"reason":"no"`)}}, effect: "DENY", code: "APPROVAL_DENIED", args: `{"n":1}`},
		{name: "expired", story: waitStory{{authorize, deferred}, {poll, status("expired", "")}}, effect: "DENY", code: "APPROVAL_TIMEOUT", args: `{"n":1}`},
		{name: "redeemed by another", story: waitStory{{authorize, deferred}, {poll, status("consumed", "")}}, effect: "DENY", code: "APPROVAL_MISMATCH", args: `{"n":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.story.serve(t)
			cl, _ := newClient(t, Options{URL: f.URL})
			d, args, err := cl.AuthorizeAndWait(waitCtx(t), Call{AgentID: "a", ToolID: "t", Args: map[string]int{"n": 1}})
			if err != nil {
				t.Fatal(err)
			}
			if d.Effect != c.effect || d.ReasonCode != c.code || d.Permitted() != (c.effect == "PERMIT") ||
				string(args) != c.args {
				t.Errorf("%s %s permitted %v args %s", d.Effect, d.ReasonCode, d.Permitted(), args)
			}
			got := f.requests()
			if len(got) != len(c.story) {
				t.Errorf("%d requests, want %d", len(got), len(c.story))
			}
			first, last := got[0], got[len(got)-1]
			if c.redeem != "" && (last.str("defer_token") != "dfr_1" || !strings.Contains(last.Body, `"args":`+c.redeem) ||
				last.str("call_id") != first.str("call_id")) {
				t.Errorf("the redemption is %s", last.Body)
			}
		})
	}
}

func TestAuthorizeAndWaitGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(waitCtx(t))
	f := newFakeHTTP(t, func(n int, w http.ResponseWriter, r seen) {
		if r.Path == "/v1/authorize" {
			ok(w, decisionText("DEFER", r.str("call_id")))
			return
		}
		if !strings.Contains(r.Body, `"wait_seconds":60`) {
			t.Errorf("no long poll: %s", r.Body)
		}
		cancel()
		ok(w, status("pending", ""))
	})
	c, _ := newClient(t, Options{URL: f.URL})
	d, _, err := c.AuthorizeAndWait(ctx, Call{AgentID: "a", ToolID: "t"})
	if !errors.Is(err, context.Canceled) || !d.Deferred() || d.Permitted() {
		t.Errorf("%+v, %v: want the DEFER beside the context's error", d, err)
	}
}

// TestWaitForApprovalGoesOn: lost connections and a restarting server are waited out, and a server that answers at once
// is not asked in a tight loop.
func TestWaitForApprovalGoesOn(t *testing.T) {
	f := newFakeHTTP(t, func(n int, w http.ResponseWriter, r seen) {
		switch {
		case n < 12:
			problem(w, 503, "draining", "Retry-After", "1")
		case n < 14:
			cut(t, w)
		case n < 16:
			ok(w, status("pending", ""))
		default:
			ok(w, status("approved", ""))
		}
	})
	c, p := newClient(t, Options{URL: f.URL, Retries: 2})
	st, err := c.WaitForApproval(waitCtx(t), "dfr_1")
	if err != nil || st.Status != "approved" {
		t.Fatalf("%+v, %v", st, err)
	}
	if got := len(p.all()); got != 16 {
		t.Errorf("%d pauses between 17 answers, want 16", got)
	}
}

func TestDeferStatusIsAboutTheToken(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"another token", strings.ReplaceAll(status("approved", ""), "dfr_1", "dfr_2"), ErrMalformed},
		{"a word that is none", status("ready", ""), ErrMalformed},
		{"modified args that are no object", status("approved", `,"modified_args":[1]`), ErrMalformed},
		{"unknown", `{"status":"unknown","defer_token":"dfr_1"}`, ErrNotFound},
	} {
		f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { ok(w, c.body) })
		cl, _ := newClient(t, Options{URL: f.URL})
		if st, err := cl.DeferStatus(waitCtx(t), "dfr_1", 0); !errors.Is(err, c.want) || st != nil {
			t.Errorf("%s: %v, %v", c.name, st, err)
		}
	}
}
