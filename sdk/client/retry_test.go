package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// TestRetries says for each kind of failure how often each kind of operation is sent, with what, and how long is
// waited.
func TestRetries(t *testing.T) {
	authorize := func(c *Client) error {
		_, err := c.Authorize(context.Background(), Call{AgentID: "a", ToolID: "t"})
		return err
	}
	redeem := func(c *Client) error {
		_, err := c.Authorize(context.Background(), Call{AgentID: "a", ToolID: "t", DeferToken: "dfr_1"})
		return err
	}
	approve := func(c *Client) error {
		_, err := c.Approve(context.Background(), Answer{DeferToken: "dfr_1", Approved: true})
		return err
	}
	list := func(c *Client) error {
		_, err := c.Approvals(context.Background(), "", 0)
		return err
	}
	kill := func(c *Client) error {
		_, err := c.Kill(context.Background(), wire.KillRequest{AgentID: "a"})
		return err
	}
	code := func(status int, code string, headers ...string) func(testing.TB, http.ResponseWriter) {
		return func(_ testing.TB, w http.ResponseWriter) { problem(w, status, code, headers...) }
	}
	gone := func(t testing.TB, w http.ResponseWriter) { cut(t, w) }
	half := func(t testing.TB, w http.ResponseWriter) {
		answer(w, 200, "application/json", `{"effect":"PERMIT"`, "Content-Length", "400")
	}
	proxy := func(_ testing.TB, w http.ResponseWriter) { answer(w, 502, "text/html", "<h1>no</h1>") }
	for _, c := range []struct {
		name  string
		do    func(*Client) error
		fail  func(testing.TB, http.ResponseWriter)
		sends int   // until it gives up
		want  error // of the last answer
		least time.Duration
	}{
		{"authorize, nothing can be recorded", authorize, code(503, "audit_unavailable", "Retry-After", "2"), 3, ErrUnavailable, 2 * time.Second},
		{"authorize, draining", authorize, code(503, "draining"), 3, ErrUnavailable, 50 * time.Millisecond},
		{"authorize, too many", authorize, code(429, "too_many_requests", "Retry-After", "1"), 3, ErrTooMany, time.Second},
		{"authorize, a proxy's 502", authorize, proxy, 3, ErrUnavailable, 0},
		{"authorize, connection lost", authorize, gone, 3, ErrUnavailable, 0},
		{"authorize, half an answer", authorize, half, 3, ErrUnavailable, 0},
		{"authorize, longer than we wait", authorize, code(503, "draining", "Retry-After", "3600"), 1, ErrUnavailable, 0},
		{"authorize, not our key", authorize, code(401, "unauthenticated"), 1, ErrUnauthenticated, 0},
		{"authorize, missing scope", authorize, code(403, "missing_scope"), 1, ErrForbidden, 0},
		{"authorize, invalid", authorize, code(422, "invalid_field"), 1, ErrInvalid, 0},
		{"authorize, internal", authorize, code(500, "internal"), 1, ErrInternal, 0},
		{"redeem, connection lost: it may be spent", redeem, gone, 1, ErrUnavailable, 0},
		{"redeem, half an answer", redeem, half, 1, ErrUnavailable, 0},
		{"redeem, nothing can be recorded: a stalled write may land", redeem, code(503, "audit_unavailable"), 1, ErrUnavailable, 0},
		{"redeem, draining: surely not spent", redeem, code(503, "draining"), 3, ErrUnavailable, 0},
		{"redeem, too many", redeem, code(429, "too_many_requests"), 3, ErrTooMany, 0},
		{"approve, connection lost", approve, gone, 3, ErrUnavailable, 0},
		{"approve, resolved already", approve, code(409, "already_resolved"), 1, ErrConflict, 0},
		{"approve, expired", approve, code(410, "defer_expired"), 1, ErrExpired, 0},
		{"approve, oneself", approve, code(403, "self_approval"), 1, ErrForbidden, 0},
		{"approve, unknown", approve, code(404, "unknown_defer"), 1, ErrNotFound, 0},
		{"kill, connection lost", kill, gone, 3, ErrUnavailable, 0},
		{"kill, in effect but not on disk", kill, code(503, "in_effect_not_durable"), 1, ErrUnavailable, 0},
		{"a read, connection lost", list, gone, 3, ErrUnavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) { c.fail(t, w) })
			cl, p := newClient(t, Options{URL: f.URL, Retries: 2})
			err := c.do(cl)
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			got := f.requests()
			if len(got) != c.sends || len(p.all()) != c.sends-1 {
				t.Fatalf("sent %d times with %d pauses, want %d", len(got), len(p.all()), c.sends)
			}
			for _, d := range p.all() {
				if d < c.least || d > 6*time.Second {
					t.Errorf("waited %v", d)
				}
			}
			for _, r := range got { // one logical call: the same name each time
				if r.Body != got[0].Body || r.Header.Get("Idempotency-Key") != got[0].Header.Get("Idempotency-Key") {
					t.Errorf("sent again as %s %v, first %s", r.Body, r.Header, got[0].Body)
				}
				if r.Path == "/v1/authorize" && r.str("call_id") == "" ||
					r.Path == "/v1/approve" && r.Header.Get("Idempotency-Key") == "" {
					t.Errorf("nothing makes a repeat safe: %s %v", r.Body, r.Header)
				}
			}
		})
	}
}

func TestTwoCallsAreTwo(t *testing.T) {
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, r seen) { ok(w, decisionText("DENY", r.str("call_id"))) })
	c, _ := newClient(t, Options{URL: f.URL})
	for range 2 {
		if _, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.requests(); len(got) != 2 || got[0].str("call_id") == got[1].str("call_id") {
		t.Errorf("one call_id for two calls, or a DENY was asked again: %+v", got)
	}
}

func TestRefusedConnectionIsRetried(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	for _, opts := range []Options{{URL: "http://" + addr}, {Socket: "no-such-socket"}} {
		opts.Retries = 3
		c, p := newClient(t, opts)
		_, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t", DeferToken: "d"})
		if !errors.Is(err, ErrUnavailable) || len(p.all()) != 3 {
			t.Errorf("%v after %d pauses: what was never seen is sent again, even a redemption", err, len(p.all()))
		}
	}
}

func TestRetryEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := newFakeHTTP(t, func(n int, w http.ResponseWriter, _ seen) {
		if n == 1 {
			cancel()
		}
		problem(w, 503, "draining")
	})
	c, _ := newClient(t, Options{URL: f.URL, Retries: 100})
	_, err := c.Authorize(ctx, Call{AgentID: "a", ToolID: "t"})
	if !errors.Is(err, context.Canceled) || len(f.requests()) != 2 {
		t.Errorf("%v after %d requests", err, len(f.requests()))
	}
}

func TestAttemptsHaveDeadlines(t *testing.T) {
	over := make(chan struct{})
	f := newFakeHTTP(t, func(int, http.ResponseWriter, seen) { <-over })
	s := newFakeSocket(t, func(p *peer) {
		for p.read() != nil { // never answers
		}
	})
	defer close(over)
	for _, opts := range []Options{{URL: f.URL}, {Socket: s.path}} {
		opts.Timeout, opts.Retries = 20*time.Millisecond, 1
		c, p := newClient(t, opts)
		_, err := c.Authorize(context.Background(), Call{AgentID: "a", ToolID: "t"})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) || len(p.all()) != 1 {
			t.Errorf("%v after %d pauses", err, len(p.all()))
		}
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	stolen := newFakeHTTP(t, func(_ int, w http.ResponseWriter, r seen) {
		ok(w, decisionText("PERMIT", r.str("call_id")))
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, r seen) {
			http.Redirect(w, &http.Request{Method: "POST"}, stolen.URL+r.Path, status)
		})
		c, _ := newClient(t, Options{URL: f.URL})
		d, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"})
		if !errors.Is(err, ErrMalformed) || d.Permitted() || len(stolen.requests()) != 0 || len(f.requests()) != 1 {
			t.Errorf("%d: %v, %v: the key went to %d others", status, d, err, len(stolen.requests()))
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, r seen) {
		ok(w, decisionText("PERMIT", r.str("call_id"), `"pad":"`+strings.Repeat("x", maxAnswer)+`"`))
	})
	s := newFakeSocket(t, func(p *peer) {
		for m := p.read(); m != nil; m = p.read() {
			p.reply(m, decisionText("PERMIT", fmt.Sprint(m["call_id"]), `"pad":"`+strings.Repeat("x", maxAnswer)+`"`))
		}
	})
	for _, opts := range []Options{{URL: f.URL}, {Socket: s.path}} {
		c, _ := newClient(t, opts)
		if d, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"}); !errors.Is(err, ErrMalformed) ||
			d.Permitted() {
			t.Errorf("%v, %v", d, err)
		}
	}
}

func TestErrorSaysWhat(t *testing.T) {
	f := newFakeHTTP(t, func(_ int, w http.ResponseWriter, _ seen) {
		answer(w, 409, "application/problem+json",
			`{"type":"x","title":"t","status":409,"detail":"resolved by \"ops\"","code":"already_resolved","error":"already_resolved","request_id":"req_7","field":"defer_token","resolved_by":"ops"}`, "Retry-After", "7")
	})
	c, _ := newClient(t, Options{URL: f.URL})
	_, err := c.Approve(waitCtx(t), Answer{DeferToken: "d"})
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e.Status != 409 || e.Code != sdk.CodeAlreadyResolved || e.Field != "defer_token" || e.RequestID != "req_7" ||
		e.RetryAfter != 7*time.Second || e.More["resolved_by"] != "ops" {
		t.Errorf("%+v", e)
	}
	if got, want := err.Error(), `approve: already_resolved: resolved by "ops" (request req_7)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestEveryCodeHasAKind: each code of the registry is of exactly the kind that its status says, over either transport.
func TestEveryCodeHasAKind(t *testing.T) {
	kinds := []error{ErrInvalid, ErrUnauthenticated, ErrForbidden, ErrNotFound, ErrConflict, ErrExpired, ErrTooMany,
		ErrInternal, ErrUnavailable, ErrMalformed}
	want := map[int]error{400: ErrInvalid, 401: ErrUnauthenticated, 403: ErrForbidden, 404: ErrNotFound, 405: ErrInvalid,
		408: ErrInvalid, 409: ErrConflict, 410: ErrExpired, 413: ErrInvalid, 415: ErrInvalid, 422: ErrInvalid,
		429: ErrTooMany, 500: ErrInternal, 503: ErrUnavailable}
	for code, st := range wire.Statuses {
		kind := want[st.HTTP]
		if code == sdk.CodeWrongToken {
			kind = ErrForbidden
		}
		for _, e := range []*Error{{Code: code}, {Code: code, Status: st.HTTP}} {
			for _, k := range kinds {
				if errors.Is(e, k) != (k == kind) {
					t.Errorf("%s (%d): is %v: %v", code, e.Status, k, errors.Is(e, k))
				}
			}
		}
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{"": 0, "0": 0, "5": 5 * time.Second, "-1": 0, "x": 0, "99999999999": 0,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0} {
		if got := retryAfterHeader(in, now); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

func TestBackoffGrowsToALimit(t *testing.T) {
	for n := range 80 {
		top := min(100*time.Millisecond<<min(n, 10), 5*time.Second)
		for range 20 {
			if got := backoff(n, 0); got < top/2 || got > top {
				t.Fatalf("attempt %d: %v, want %v to %v", n, got, top/2, top)
			}
		}
		if got := backoff(n, time.Minute); got != time.Minute {
			t.Fatalf("attempt %d: %v although the server asked for a minute", n, got)
		}
	}
}

// A repeated PERMIT permits nothing again, unless it answers this client's own retry of an answer that was lost.
func TestRepeatPermitsNothingAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		callID string
		lost   bool // the first answer
		want   bool
	}{
		{"the caller's call_id was used before", "job-7", false, false},
		{"the caller's call_id, and an answer lost", "job-7", true, false},
		{"the client's own call_id, and an answer lost", "", true, true},
		{"the client's own call_id, never sent before", "", false, false},
	} {
		f := newFakeHTTP(t, func(n int, w http.ResponseWriter, r seen) {
			if c.lost && n == 0 {
				cut(t, w)
				return
			}
			ok(w, decisionText("PERMIT", r.str("call_id"), `"repeat":true`))
		})
		cl, _ := newClient(t, Options{URL: f.URL, Retries: 2})
		d, err := cl.Authorize(context.Background(), Call{AgentID: "a", ToolID: "t", CallID: c.callID})
		if err != nil || d.Permitted() != c.want || !d.Repeat {
			t.Errorf("%s: permitted %v, %+v, %v", c.name, d.Permitted(), d, err)
		}
	}
}
