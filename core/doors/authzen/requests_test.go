package authzen_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit/doortest"
)

const (
	pay     = `"resource":{"type":"defer","id":"invoice-7","properties":{"amount":12345678901234567890.10}}`
	payCtx  = `"context":{"tenant":"north","n":1.0}`
	waiting = `{` + alice + `,` + write + `,` + pay + `,` + payCtx + `}`
	urn     = "urn:openid:authzen:access-request:error:"
)

// client is a client of the profile.
type client struct {
	*bench

	key string
}

func waits(t *testing.T) (*client, string) {
	t.Helper()
	b := open(t, doortest.New(t))
	return &client{b, b.Key("pep", "agent").Value}, b.Key("other", "agent").Value
}

// denied asks for what waits for a person, and gives the denial.
func (c *client) denied(body string) *reply {
	c.t.Helper()
	yes, r := c.decide(c.key, body)
	if yes || r.str("context", "access_request", "binding_token") == "" || r.str("context", "evaluation_id") == "" ||
		r.str("context", "access_request", "endpoint") != pdp+"/access/v1/requests" ||
		r.str("context", "access_request", "expires_at") == "" {
		c.t.Fatalf("no denial that can be requested: %s", r.text)
	}
	return r
}

// request is the body that asks for what a denial denies, with other members than the usual ones if more has some.
func request(denial *reply, more string) string {
	text := fmt.Sprintf(`{"evaluation_id":%q,"expires_at":%q,"binding_token":%q,"reason":"approval_required"}`,
		denial.str("context", "evaluation_id"), denial.str("context", "access_request", "expires_at"),
		denial.str("context", "access_request", "binding_token"))
	if more == "" {
		more = alice + "," + write + "," + pay + `,"context":{"n":1,"tenant":"north","why":"the invoice is due"}`
	}
	return "{" + more + `,"denial":` + text + "}"
}

func (c *client) submit(body string, header ...string) *reply {
	c.t.Helper()
	return c.send(c.key, "POST", "/access/v1/requests", body, header...)
}

// task submits a request and gives the address of its task.
func (c *client) task(denial *reply) string {
	c.t.Helper()
	r := c.submit(request(denial, ""))
	at := r.str("task", "status_endpoint")
	if r.status != http.StatusAccepted || r.str("task", "status") != "pending" || at == "" ||
		r.header.Get("Location") != at ||
		r.str("task", "links", "cancel") != at+"/cancel" || r.at("result") != nil {
		c.t.Fatalf("%d %s", r.status, r.text)
	}
	return at
}

func (c *client) status(at string) *reply {
	c.t.Helper()
	return c.send(c.key, "GET", at, "")
}

// jsonOf is v as JSON.
func jsonOf(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// again evaluates with an approval, as it was given.
func (c *client) again(approval any, body string) (bool, *reply) {
	c.t.Helper()
	return c.decide(c.key, strings.Replace(body, `"context":{`, `"context":{"approval":`+jsonOf(c.t, approval)+`,`, 1))
}

// approved goes the whole way to an approval.
func (c *client) approved() map[string]any {
	c.t.Helper()
	at := c.task(c.denied(waiting))
	c.AnswerPending(true)
	r := c.status(at)
	a, _ := r.at("result", "approval").(map[string]any)
	if r.status != 200 || r.str("task", "status") != "approved" || r.at("result", "mode") != "reevaluate" ||
		a["id"] == "" || a["approved_until"] == "" {
		c.t.Fatalf("%d %s", r.status, r.text)
	}
	return a
}

// says fails the test unless an answer is a problem of the profile.
func (c *client) says(r *reply, status int, name string) {
	c.t.Helper()
	if r.status != status || r.str("type") != urn+name || r.header.Get("Content-Type") != "application/problem+json" ||
		r.at("status") != float64(status) || r.str("detail") == "" {
		c.t.Errorf("got %d %s, want %d %s", r.status, r.text, status, name)
	}
}

// advises fails the test unless a decision is false, says why, and what to do next.
func (c *client) advises(yes bool, r *reply, reason, next string) {
	c.t.Helper()
	if yes || r.str("context", "reason") != reason || r.str("context", "next_action") != next ||
		(next == "request") != (r.at("context", "access_request") != nil) {
		c.t.Errorf("want %s, %s: %s", reason, next, r.text)
	}
}

// An approval is good for one evaluation of exactly what was denied.
func TestApproved(t *testing.T) {
	c, _ := waits(t)
	first := c.denied(waiting)
	at := c.task(first)
	if r := c.status(at); r.status != 200 || r.str("task", "status") != "pending" || r.header.Get("Retry-After") == "" {
		t.Errorf("pending: %d %s", r.status, r.text)
	}
	a := c.approved()
	for name, body := range map[string]string{
		"another subject":  strings.Replace(waiting, `"alice"`, `"bob"`, 1),
		"another amount":   strings.Replace(waiting, `890.10`, `890.11`, 1),
		"another context":  strings.Replace(waiting, `north`, `south`, 1),
		"a longer context": strings.Replace(waiting, `"n":1.0`, `"n":1,"m":1`, 1),
	} {
		yes, r := c.again(a, body)
		if c.advises(yes, r, "out_of_scope", "request"); yes {
			t.Errorf("%s: permitted", name)
		}
	}
	yes, r := c.again(a, strings.Replace(waiting, `1.0}`, `1}`, 1)) // the same number
	if !yes || r.at("context", "approval", "id") != a["id"] || r.at("context", "approval", "approved_until") !=
		a["approved_until"] || r.str("context", "reason_code") != "APPROVAL_CONSUMED" {
		t.Errorf("not permitted: %s", r.text)
	}
	for range 2 {
		yes, r = c.again(a, waiting)
		c.advises(yes, r, "approval_expired", "request")
	}
	c.says(c.status(at), http.StatusGone, "task_expired")
	c.says(c.submit(request(first, "")), http.StatusBadRequest, "not_requestable")
	if r := c.submit(request(r, "")); r.status != http.StatusAccepted {
		t.Errorf("the fresh denial cannot be requested: %d %s", r.status, r.text)
	}
}

// Of many that redeem one approval at once, one is permitted.
func TestOneIsPermitted(t *testing.T) {
	c, _ := waits(t)
	body := strings.Replace(waiting, `"context":{`, `"context":{"approval":`+jsonOf(t, c.approved())+`,`, 1)
	got := make(chan bool, 16)
	for range cap(got) {
		go func() {
			r := c.send(c.key, "POST", "/access/v1/evaluation", body)
			got <- r.at("decision") == true
		}()
	}
	permitted := 0
	for range cap(got) {
		if <-got {
			permitted++
		}
	}
	if permitted != 1 {
		t.Errorf("%d were permitted", permitted)
	}
}

// An evaluation without its approval, while there is one, is a denial whose request is answered at once.
func TestApprovedBeforeItIsRequested(t *testing.T) {
	c, _ := waits(t)
	c.denied(waiting)
	c.AnswerPending(true)
	r := c.submit(request(c.denied(waiting), ""))
	if r.status != http.StatusCreated || r.str("task", "status") != "approved" {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if yes, r := c.again(r.at("result", "approval"), waiting); !yes {
		t.Errorf("not permitted: %s", r.text)
	}
}

func TestDeniedAndExpired(t *testing.T) {
	c, _ := waits(t)
	at := c.task(c.denied(waiting))
	c.AnswerPending(false)
	r := c.status(at)
	if r.str("task", "status") != "denied" || r.at("result") != nil {
		t.Errorf("%d %s", r.status, r.text)
	}
	c.says(c.send(c.key, "POST", at+"/cancel", ""), http.StatusConflict, "invalid_task_state")
	denial := c.denied(waiting)
	at = c.task(denial)
	c.Advance(6 * time.Minute)
	if r := c.status(at); r.str("task", "status") != "expired" || r.at("result") != nil {
		t.Errorf("%d %s", r.status, r.text)
	}
	c.says(c.submit(request(denial, "")), http.StatusGone, "expired_denial")
	c.Advance(25 * time.Hour)
	c.says(c.status(at), http.StatusGone, "task_expired")
}

// An approval that nobody used in time is over.
func TestApprovalExpires(t *testing.T) {
	c, _ := waits(t)
	a := c.approved()
	c.Advance(6 * time.Minute)
	yes, r := c.again(a, waiting)
	c.advises(yes, r, "approval_expired", "request")
}

// Nobody can use what a client has cancelled, although an approver approves it.
func TestCancelled(t *testing.T) {
	c, _ := waits(t)
	denial := c.denied(waiting)
	at := c.task(denial)
	for range 2 {
		if r := c.send(c.key, "POST", at+"/cancel", "{}"); r.status != 200 || r.str("task", "status") != "cancelled" {
			t.Fatalf("%d %s", r.status, r.text)
		}
	}
	c.AnswerPending(true)
	if r := c.status(at); r.str("task", "status") != "cancelled" || r.at("result") != nil {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := c.submit(request(denial, "")); r.status != http.StatusCreated || r.str("task", "status") != "cancelled" {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// An approval that was read before the task was cancelled is void too.
func TestApprovalOfACancelledTask(t *testing.T) {
	c, _ := waits(t)
	first, second := c.denied(waiting), c.denied(waiting) // two evaluations of one call
	kept, cancelled := c.task(first), c.task(second)
	if kept == cancelled {
		t.Fatal("two denials have one task")
	}
	c.send(c.key, "POST", cancelled+"/cancel", "")
	c.AnswerPending(true)
	r := c.status(kept)
	if r.str("task", "status") != "approved" {
		t.Fatalf("the other task is cancelled too: %s", r.text)
	}
	c.says(c.send(c.key, "POST", kept+"/cancel", ""), http.StatusConflict, "invalid_task_state")
	if yes, r := c.again(r.at("result", "approval"), waiting); !yes {
		t.Errorf("not permitted: %s", r.text)
	}
}

// What another key has, what somebody made up, and what was made for another purpose opens nothing.
func TestForged(t *testing.T) {
	c, other := waits(t)
	denial := c.denied(waiting)
	at, a := c.task(denial), c.approved()
	token := denial.str("context", "access_request", "binding_token")
	id := at[strings.LastIndexByte(at, '/')+1:]
	state, _ := a["state"].(string)
	for name, with := range map[string]string{"changed": flipped(token), "cut": token[:len(token)-4], "empty": "",
		"a task": id, "a state": state, "no base64": token + "!", "short": "AAAA"} {
		r := c.submit(strings.Replace(request(denial, ""), token, with, 1))
		if c.says(r, http.StatusBadRequest, "invalid_denial_binding"); r.at("task") != nil {
			t.Errorf("%s: %s", name, r.text)
		}
	}
	for _, with := range []string{flipped(id), token, state, "x"} {
		c.says(c.status(pdp+"/access/v1/requests/"+with), http.StatusNotFound, "unknown_task")
		c.says(c.send(c.key, "POST", "/access/v1/requests/"+with+"/cancel", ""), http.StatusNotFound, "unknown_task")
	}
	foreign := &client{c.bench, other}
	foreign.says(foreign.submit(request(denial, "")), http.StatusBadRequest, "invalid_denial_binding")
	foreign.says(foreign.status(at), http.StatusNotFound, "unknown_task")
	foreign.says(foreign.send(other, "POST", at+"/cancel", ""), http.StatusNotFound, "unknown_task")
	yes, r := foreign.again(a, waiting)
	foreign.advises(yes, r, "approval_unverifiable", "request")
	for name, given := range map[string]any{
		"no state":          map[string]any{"id": a["id"], "approved_until": a["approved_until"]},
		"another id":        map[string]any{"id": "apr_x", "approved_until": a["approved_until"], "state": state},
		"a later end":       map[string]any{"id": a["id"], "approved_until": "2999-01-01T00:00:00Z", "state": state},
		"a changed state":   map[string]any{"id": a["id"], "approved_until": a["approved_until"], "state": flipped(state)},
		"a task as state":   map[string]any{"id": a["id"], "approved_until": a["approved_until"], "state": id},
		"a denial as state": map[string]any{"id": a["id"], "approved_until": a["approved_until"], "state": token},
		"true":              true, "null": nil, "text": "approved",
	} {
		yes, r := c.again(given, waiting)
		if c.advises(yes, r, "approval_unverifiable", "request"); yes {
			t.Errorf("%s: permitted", name)
		}
	}
	if yes, r := c.again(a, waiting); !yes {
		t.Errorf("the approval is gone: %s", r.text)
	}
}

// flipped is a sealed text with one character changed.
func flipped(text string) string {
	at := len(text) / 2
	c := byte('A')
	if text[at] == c {
		c = 'B'
	}
	return text[:at] + string(c) + text[at+1:]
}

// A request has to be for what was denied.
func TestBinding(t *testing.T) {
	c, _ := waits(t)
	denial := c.denied(waiting)
	whole := request(denial, "")
	expires := denial.str("context", "access_request", "expires_at")
	for name, r := range map[string]struct{ body, want string }{
		"another subject":      {strings.Replace(whole, `"alice"`, `"bob"`, 1), "invalid_denial_binding"},
		"another action":       {strings.Replace(whole, `"write"`, `"read"`, 1), "invalid_denial_binding"},
		"another amount":       {strings.Replace(whole, `890.10`, `890.1000001`, 1), "invalid_denial_binding"},
		"another context":      {strings.Replace(whole, `north`, `south`, 1), "invalid_denial_binding"},
		"less context":         {strings.Replace(whole, `"n":1,`, ``, 1), "invalid_denial_binding"},
		"no context":           {request(denial, alice+","+write+","+pay), "invalid_denial_binding"},
		"a later end":          {strings.Replace(whole, expires, "2999-01-01T00:00:00Z", 1), "invalid_denial_binding"},
		"no end":               {strings.Replace(whole, `"expires_at":`, `"x":`, 1), "invalid_denial_binding"},
		"another evaluation":   {strings.Replace(whole, `_id":"`, `_id":"x`, 1), "invalid_denial_binding"},
		"the evaluation alone": {strings.Replace(whole, `"binding_token":`, `"x":`, 1), "invalid_denial_binding"},
		"no denial":            {strings.Replace(whole, `"denial":`, `"x":`, 1), "not_requestable"},
		"several":              {strings.Replace(whole, `"denial":`, `"items":[],"denial":`, 1), "not_requestable"},
		"a callback":           {strings.Replace(whole, `"denial":`, `"callback":{},"denial":`, 1), "not_requestable"},
	} {
		t.Run(name, func(t *testing.T) {
			of := &client{&bench{c.Bench, t, c.url}, c.key}
			of.says(of.submit(r.body), http.StatusBadRequest, r.want)
		})
	}
	if r := c.submit(strings.Replace(whole, `"evaluation_id":`, `"x":`, 1)); r.status != http.StatusAccepted {
		t.Errorf("the token alone: %d %s", r.status, r.text)
	}
	r := c.submit(`{"subject":{}}`)
	if r.status != 400 || r.header.Get("Content-Type") != "application/problem+json" || r.at("status") != 400.0 {
		t.Errorf("malformed: %d %s", r.status, r.text)
	}
}

// A request that is sent again has the same task; another one under its Idempotency-Key is refused.
func TestRepeatedRequests(t *testing.T) {
	c, other := waits(t)
	denial := c.denied(waiting)
	body := request(denial, "")
	first := c.submit(body, "Idempotency-Key", "k1")
	reordered := request(denial, write+","+alice+","+pay+`,"context":{"why":"the invoice is due","tenant":"north","n":1}`)
	for _, again := range []*reply{c.submit(body, "Idempotency-Key", "k1"), c.submit(body),
		c.submit(reordered, "Idempotency-Key", "k1"), c.submit(body, "Idempotency-Key", "k2")} {
		if again.status != http.StatusAccepted || again.str("task", "id") != first.str("task", "id") {
			t.Errorf("another task: %d %s", again.status, again.text)
		}
	}
	changed := strings.Replace(body, "is due", "was due", 1)
	c.says(c.submit(changed, "Idempotency-Key", "k1"), http.StatusConflict, "duplicate_request")
	foreign := &client{c.bench, other}
	if r := foreign.submit(request(foreign.denied(waiting), ""), "Idempotency-Key", "k1"); r.status != 202 {
		t.Errorf("keys share their Idempotency-Keys: %d %s", r.status, r.text)
	}
	c.Advance(6 * time.Minute)
	if r := c.submit(body, "Idempotency-Key", "k1"); r.str("task", "id") != first.str("task", "id") {
		t.Errorf("the task is not found any more: %d %s", r.status, r.text)
	}
}

// In a batch, what waits says so, and an approval permits its own evaluation alone.
func TestApprovalsInABatch(t *testing.T) {
	c, _ := waits(t)
	one := strings.Replace(waiting, `"context":{`, `"context":{"approval":`+jsonOf(t, c.approved())+`,`, 1)
	r := c.send(c.key, "POST", "/access/v1/evaluations", `{"evaluations":[`+one+`,`+one+`,`+waiting+`]}`)
	got := fmt.Sprint(r.at("evaluations", 0, "decision"), r.at("evaluations", 1, "decision"),
		r.at("evaluations", 2, "decision"))
	if got != "true false false" || r.at("evaluations", 1, "context", "reason") != "approval_expired" ||
		r.at("evaluations", 1, "context", "access_request") == nil ||
		r.at("evaluations", 2, "context", "access_request") == nil {
		t.Errorf("%s", r.text)
	}
}

// A gateway that starts anew knows nothing that it sealed before. The client evaluates again, and the approval that
// nobody used is found.
func TestRestart(t *testing.T) {
	c, _ := waits(t)
	at, a := c.task(c.denied(waiting)), c.approved()
	anew := &client{open(t, c.Bench), c.key}
	anew.says(anew.status(at), http.StatusNotFound, "unknown_task")
	yes, denial := anew.again(a, waiting)
	anew.advises(yes, denial, "approval_unverifiable", "request")
	r := anew.submit(request(denial, ""))
	if r.status != http.StatusCreated || r.str("task", "status") != "approved" {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if yes, r := anew.again(r.at("result", "approval"), waiting); !yes {
		t.Errorf("not permitted: %s", r.text)
	}
	yes, r = c.again(a, waiting) // the first process, were it still there
	c.advises(yes, r, "approval_expired", "request")
}
