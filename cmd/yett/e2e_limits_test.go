package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
)

// dial opens a bare connection to the server.
func (s *server) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err == nil {
		err = c.SetDeadline(time.Now().Add(patience)) // a hang fails the test instead of stopping it
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// rawPost is one whole request as bytes.
func rawPost(path, key, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path,
		key, len(body), body)
}

// readAnswers reads answers until the server closes the connection. head says that the first request was a HEAD: its
// answer has no body, unless it was refused before anybody knew the method.
func readAnswers(c net.Conn, head bool) ([]answer, error) {
	var out []answer
	for br := bufio.NewReader(c); ; {
		start, err := br.Peek(len("HTTP/1.1 400"))
		if err == io.EOF && len(start) == 0 {
			return out, nil
		}
		method := http.MethodPost
		if head && len(out) == 0 && !strings.HasSuffix(string(start), " 400") {
			method = http.MethodHead
		}
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return out, err
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return out, err
		}
		out = append(out, answer{status: resp.StatusCode, header: resp.Header, body: string(body)})
	}
}

// padded is a call whose body is exactly n bytes long.
func padded(before, after string, n int) string {
	return before + strings.Repeat("x", n-len(before)-len(after)) + after
}

func TestSizeLimits(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	agent := s.Keys.Agent
	authorize := func(n int) string { return padded(`{"agent_id":"a","tool_id":"read","args":{"v":"`, `"}}`, n) }
	scan := func(n int) string { return padded(`{"tool_id":"t","output":"`, `"}`, n) }
	nested := func(n int) string { // the body itself is one level
		return `{"agent_id":"a","tool_id":"read","args":` + strings.Repeat(`{"v":`, n-2) + `{}` + strings.Repeat(`}`, n-2) +
			`}`
	}
	tokens := func(n int) string { // the body, 3 names and 2 texts, args, v and the list are 9
		return `{"agent_id":"a","tool_id":"read","args":{"v":[` + strings.Repeat("0,", n-10) + `0]}}`
	}
	for _, c := range []struct {
		name, path, body, code, says string
		status                       int
		headers                      []string
	}{
		{name: "authorize body", path: "/v1/authorize", body: authorize(1 << 20), status: 200},
		{name: "authorize body + 1", path: "/v1/authorize", body: authorize(1<<20 + 1), status: 413, code: "too_large", says: "1048576 (limits.authorize_body)"},
		{name: "authorize body as large as a scan", path: "/v1/authorize", body: authorize(4 << 20), status: 413, code: "too_large", says: "limits.authorize_body"},
		{name: "action body + 1", path: "/v1/actions", body: authorize(1<<20 + 1), status: 413, code: "too_large", says: "limits.authorize_body"},
		{name: "a body that the key has no scope for", path: "/v1/approve", body: authorize(1<<20 + 1), status: 403, code: "missing_scope", says: "approve"},
		{name: "scan body", path: "/v1/scan_output", body: scan(4 << 20), status: 200},
		{name: "depth", path: "/v1/authorize", body: nested(64), status: 200},
		{name: "depth + 1", path: "/v1/authorize", body: nested(65), status: 400, code: "invalid_json", says: "64 (limits.depth)"},
		{name: "tokens", path: "/v1/authorize", body: tokens(100_000), status: 200},
		{name: "tokens + 1", path: "/v1/authorize", body: tokens(100_001), status: 400, code: "invalid_json", says: "100000 tokens (limits.tokens)"},
		{name: "headers", path: "/v1/authorize", body: permitted, headers: []string{"X-Much", strings.Repeat("x", 15<<10)}, status: 200},
		{name: "too many headers", path: "/v1/authorize", body: permitted, headers: []string{"X-Much", strings.Repeat("x", 16<<10)}, status: 413, code: "too_large", says: "limits.headers"},
		{name: "idempotency key", path: "/v1/authorize", body: permitted, headers: []string{"Idempotency-Key", strings.Repeat("k", 256)}, status: 200},
		{name: "idempotency key + 1", path: "/v1/authorize", body: permitted, headers: []string{"Idempotency-Key", strings.Repeat("k", 257)}, status: 422, code: "invalid_field", says: "limits.name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.post(agent, c.path, c.body, c.headers...)
			a.want(t, c.status, c.code)
			if !strings.Contains(a.str("detail"), c.says) {
				t.Errorf("the detail does not name %q: %s", c.says, a.body)
			}
		})
	}
	// refused at its head: the server does not wait for what the client still sends
	t.Run("scan body + 1", func(t *testing.T) {
		c := s.dial()
		_, writeErr := io.WriteString(c, rawPost("/v1/scan_output", agent, scan(4<<20+1)))
		got := make([]byte, 4<<10)
		n, err := io.ReadAtLeast(c, got, 12)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 413 ") ||
			!strings.Contains(string(got), "4194304 bytes (limits.scan_body)") {
			t.Errorf("write: %v, read: %v: %s", writeErr, err, got[:n])
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	unseen := map[string]string{"control": "\x07", "delete": "\x7f", "line end": "\n", "right-to-left override": "\u202e",
		"isolate": "\u2066", "zero width": "\u200b",
		"joiner": "\u200d", "byte order mark": "\ufeff", "soft hyphen": "\u00ad", "no-break space": "\u00a0",
		"filler": "\u3164", "tag": "\U000e0041", "variation": "\ufe0f"}
	for _, field := range []string{"agent_id", "tool_id", "session_id", "call_id"} {
		ask := func(v string) answer {
			body := map[string]any{"agent_id": "a", "tool_id": "read", field: v}
			return s.post(s.Keys.Agent, "/v1/authorize", text(body))
		}
		ask(strings.Repeat("n", 256)).want(t, 200, "")
		ask(strings.Repeat("é", 128)).want(t, 200, "")
		for name, v := range map[string]string{"257 bytes": strings.Repeat("n", 257),
			"257 bytes, 129 characters": strings.Repeat("é", 128) + "n"} {
			a := ask(v)
			a.want(t, 422, "invalid_field")
			if a.str("field") != field || !strings.Contains(a.str("detail"), "256 (limits.name)") {
				t.Errorf("%s of %s: %s", field, name, a.body)
			}
		}
		for name, v := range unseen {
			if a := ask("a" + v + "b"); a.status != 422 || a.str("field") != field {
				t.Errorf("%s with %s: %d %s", field, name, a.status, a.body)
			}
		}
	}
	joined := `{"agent_id":"a","tool_id":"` + strings.Repeat("t", 200) + `","operation":"` + strings.Repeat("o", 100) +
		`"}`
	s.post(s.Keys.Agent, "/v1/authorize", joined).want(t, 422, "invalid_field")
}

// TestSlowClients sends parts of requests and waits for the server to lose its patience, which is set small.
func TestSlowClients(t *testing.T) {
	s := startDev(t, []string{"YETT__LIMITS__HEADER_READ=2s", "YETT__LIMITS__WHOLE_READ=4s", "YETT__LIMITS__IDLE=1s"})
	whole := rawPost("/v1/authorize", s.Keys.Agent, permitted)
	for _, c := range []struct {
		name, sent, says string
		statuses         []int
	}{
		{"a slow head", whole[:20], "headers: not read within the limit of 2s (limits.header_read)", []int{408}},
		{"a slow body", whole[:len(whole)-3], "request: not read within the limit of 4s (limits.whole_read)", []int{408}},
		{"nothing at all", "", "", nil},
		{"idle after an answer", whole, "", []int{200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := s.dial()
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			got, err := readAnswers(conn, false)
			if err != nil || len(got) != len(c.statuses) {
				t.Fatalf("%v: %v", err, got)
			}
			for i, a := range got {
				if a.status != c.statuses[i] || !strings.Contains(a.body, c.says) {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
}

func TestCountLimits(t *testing.T) {
	testkit.Slow(t, "opens hundreds of connections")
	t.Run("pending", func(t *testing.T) {
		s := startDev(t, []string{"YETT__LIMITS__PENDING_PER_KEY=3"})
		first := s.deferred("payments/refund", `{"n":0}`)
		for i := 1; i < 3; i++ {
			s.deferred("payments/refund", fmt.Sprintf(`{"n":%d}`, i))
		}
		a := s.post(s.Keys.Agent, "/v1/authorize", `{"agent_id":"a","tool_id":"payments/refund","args":{"n":3}}`)
		a.wantDecision(t, "DENY", "RATE_EXCEEDED")
		if !strings.Contains(a.str("reason"), "3 calls pending") ||
			!strings.Contains(a.str("reason"), "limits.pending_per_key") {
			t.Errorf("the reason does not name the limit: %s", a.body)
		}
		if again := s.deferred("payments/refund", `{"n":0}`); again != first {
			t.Error("at the limit a pending call is not joined")
		}
		s.post(s.Keys.Approver, "/v1/approve", `{"defer_token":"`+first+`","approved":false}`).want(t, 200, "")
		s.deferred("payments/refund", `{"n":4}`)
	})
	t.Run("in flight", func(t *testing.T) {
		s := startDev(t, []string{"YETT__LIMITS__IN_FLIGHT=1"})
		s.holdPoll(s.deferred("payments/refund", `{}`))
		s.until429(func() answer { return s.post(s.Keys.Agent, "/v1/authorize", permitted) }, "limits.in_flight")
	})
	t.Run("rate", func(t *testing.T) {
		s := startDev(t, []string{"YETT__LIMITS__RATE_PER_KEY=2"})
		s.until429(func() answer { return s.post(s.Keys.Agent, "/v1/authorize", permitted) }, "limits.rate_per_key")
		for range 8 { // what stops agents waits for no rate
			s.post(s.Keys.Operator, "/v1/kill", `{"agent_id":"rogue","reason":"r"}`).want(t, 200, "")
		}
	})
	t.Run("connections", func(t *testing.T) {
		s := startDev(t, []string{"YETT__LIMITS__CONNECTIONS=2"})
		token := s.deferred("payments/refund", `{}`)
		poll := rawPost("/v1/defer/status", s.Keys.Agent, `{"token":"`+token+`","wait_seconds":60}`)
		s.client.CloseIdleConnections()
		tooMany(t, s, poll)
	})
}

// tooMany opens connections that stay busy until one is refused, and looks at how.
func tooMany(t *testing.T, s *server, busy string) {
	for range 10 {
		c := s.dial()
		if _, err := io.WriteString(c, busy); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		got, err := readAnswers(c, false)
		if len(got) == 0 {
			continue // it is being served
		}
		a := got[0]
		if err != nil || a.status != 429 || !strings.Contains(a.body, "limits.connections") ||
			a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Retry-After") == "" {
			t.Errorf("%v: %d %v %s", err, a.status, a.header, a.body)
		}
		return
	}
	t.Error("ten connections at once, with a limit of 2")
}
