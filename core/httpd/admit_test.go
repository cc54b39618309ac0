package httpd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/testkit/limits"
)

// talk is one connection on which a test writes bytes and reads answers.
type talk struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (g *gate) talk() *talk {
	g.t.Helper()
	c := dial(g.t, g.addr)
	return &talk{g.t, c, bufio.NewReader(c)}
}

func (c *talk) write(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.Conn, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one answer, whose body is JSON.
func (c *talk) answer() (*http.Response, map[string]any) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var m map[string]any
	if resp.StatusCode != 100 {
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
			c.t.Fatalf("%d: %v", resp.StatusCode, err)
		}
	}
	return resp, m
}

func (c *talk) end() {
	c.t.Helper()
	if n, err := io.Copy(io.Discard, c.r); err != nil || n > 0 {
		c.t.Errorf("%d bytes behind the answer, %v; want a clean end", n, err)
	}
}

// None of these sends its body: each is answered by its head alone, and the connection ends.
func TestHeadIsJudgedBeforeTheBody(t *testing.T) {
	g := newGate(t, nil)
	scan, other := g.key("scanner", "scan"), g.key("other", "kill")
	for _, c := range []struct {
		name, method, target, key, head string
		status                          int
		code                            string
	}{
		{"no key", "POST", "/v1/scan_output", "", "Content-Length: 4000000", 401, "unauthenticated"},
		{"no key, chunks", "POST", "/v1/scan_output", "", "Transfer-Encoding: chunked", 401, "unauthenticated"},
		{"no key, asks first", "POST", "/v1/scan_output", "", "Content-Length: 4000000\r\nExpect: 100-continue", 401, "unauthenticated"},
		{"no key, a short body", "POST", "/v1/authorize", "", "Content-Length: 5", 401, "unauthenticated"},
		{"a wrong key", "POST", "/v1/scan_output", scan[:len(scan)-1] + "~", "Content-Length: 4000000", 401, "unauthenticated"},
		{"no scope", "POST", "/v1/scan_output", other, "Content-Length: 4000000", 403, "missing_scope"},
		{"no scope, asks first", "POST", "/v1/scan_output", other, "Content-Length: 4000000\r\nExpect: 100-continue", 403, "missing_scope"},
		{"no path", "POST", "/v1/nothing", "", "Content-Length: 4000000", 404, "not_found"},
		{"no method", "PUT", "/v1/scan_output", "", "Content-Length: 4000000", 405, "method_not_allowed"},
		{"an open page", "GET", "/healthz", "", "Content-Length: 4000000", 400, "bad_request"},
		{"GET with a body", "GET", "/v1/kill", other, "Content-Length: 4000000", 400, "bad_request"},
		{"too long for the operation", "POST", "/v1/kill", other, "Content-Length: 1048577", 413, "too_large"},
		{"a coding", "POST", "/v1/scan_output", scan, "Content-Encoding: gzip\r\nContent-Length: 4000000", 415, "unsupported_coding"},
		{"a coding, asks first", "POST", "/v1/scan_output", scan, "Content-Encoding: gzip\r\nExpect: 100-continue\r\nContent-Length: 4000000", 415, "unsupported_coding"},
		{"a coding behind identity", "POST", "/v1/scan_output", scan, "Content-Encoding: identity\r\ncontent-encoding: gzip\r\nContent-Length: 4000000", 415, "unsupported_coding"},
		{"a long Idempotency-Key", "POST", "/v1/kill", other, "Idempotency-Key: " + strings.Repeat("k", 257) + "\r\nContent-Length: 4000", 422, "invalid_field"},
		{"two Idempotency-Keys", "POST", "/v1/kill", other, "Idempotency-Key: a\r\nidempotency-key: b\r\nTransfer-Encoding: chunked", 422, "invalid_field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, part := range []string{"", `{"x`} {
				co := g.talk()
				co.write("%s %s HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", c.method,
					c.target, c.key, c.head)
				if part != "" && !strings.Contains(c.head, "chunked") {
					co.write("%s", part)
				}
				resp, m := co.answer()
				if resp.StatusCode != c.status || m["code"] != c.code || resp.Header.Get("X-Request-Id") != "mine" || !resp.Close {
					t.Errorf("%d %v %v, want %d %s", resp.StatusCode, resp.Header, m, c.status, c.code)
				}
				if c.status == 401 && resp.Header.Get("WWW-Authenticate") != "Bearer" ||
					c.status == 405 && resp.Header.Get("Allow") != "POST" {
					t.Errorf("%v", resp.Header)
				}
				co.end()
			}
		})
	}
	if n := g.server.bodies.Used(); n != 0 {
		t.Errorf("%d bytes are held by requests that were refused", n)
	}
}

func TestContinueComesAfterTheKey(t *testing.T) {
	g := newGate(t, nil)
	co := g.talk()
	const body = `{"agent_id":"a","tool_id":"permit"}`
	for range 2 {
		co.write("POST /v1/authorize HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nExpect: "+
			"100-continue\r\nContent-Length: %d\r\n\r\n", g.key("k"+time.Now().String(), "authorize"), len(body))
		if resp, _ := co.answer(); resp.StatusCode != 100 {
			t.Fatal(resp.StatusCode)
		}
		co.write("%s", body)
		if resp, m := co.answer(); resp.StatusCode != 200 || m["effect"] != "PERMIT" {
			t.Errorf("%d %v", resp.StatusCode, m)
		}
	}
}

func TestBodiesInFlightAreBounded(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Limits.Bodies, s.Limits.BodiesPerKey = 4<<20, 2<<20 })
	a, b, c := g.key("a", "scan"), g.key("b", "scan"), g.key("c", "scan", "authorize")
	begin := func(key, head string) *talk {
		co := g.talk()
		co.write("POST /v1/scan_output HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", key, head)
		return co
	}
	holds := func(n int64) {
		t.Helper()
		until(t, fmt.Sprintf("%d bytes are held", n), func() bool { return g.server.bodies.Used() == n })
	}
	first := begin(a, "Content-Length: 2000000")
	holds(2_000_000)
	refused := func(co *talk, status int, code, names string) {
		t.Helper()
		resp, m := co.answer()
		if resp.StatusCode != status || m["code"] != code || !strings.Contains(m["detail"].(string), names) ||
			resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v", resp.StatusCode, m)
		}
	}
	refused(begin(a, "Content-Length: 200000"), 429, "too_many_requests", "limits.bodies_per_key")
	second := begin(b, "Transfer-Encoding: chunked")
	second.write("%x\r\n", 1_000_000)
	holds(3_000_000)
	refused(begin(c, "Content-Length: 200000"), 503, "overloaded", "limits.bodies")
	second.write("%s\r\n%x\r\n", strings.Repeat("x", 1_000_000), 200_000)
	refused(second, 503, "overloaded", "limits.bodies")
	holds(2_000_000)
	if x := g.send(c, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"permit"}`); x.StatusCode != 200 {
		t.Errorf("a small call beside large ones: %d %s", x.StatusCode, x.body)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	holds(0)
	whole := `{"tool_id":"t","output":"` + strings.Repeat("x", 1<<20) + `"}`
	if x := g.send(a, "POST", "/v1/scan_output", whole); x.StatusCode != 200 {
		t.Errorf("%d %s", x.StatusCode, x.body)
	}
	holds(0)
}

// Announcing a body takes no memory: not without a key, not with a wrong one, not where nothing is served, and not once
// a key holds all that it may.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Limits.Bodies, s.Limits.BodiesPerKey = 16<<20, 4<<20 })
	valid := g.key("a", "scan")
	for _, c := range []struct {
		name, path, key string
		status          int
	}{
		{"without a key", "/v1/scan_output", "", 401},
		{"with a wrong key", "/v1/scan_output", "Authorization: Bearer nonsense\r\n", 401},
		{"where nothing is served", "/x", "", 404},
		{"by a key that holds all it may", "/v1/scan_output", "Authorization: Bearer " + valid + "\r\n", 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.status == 429 {
				holds := g.talk()
				holds.write("POST /v1/scan_output HTTP/1.1\r\nHost: h\r\n%sContent-Length: 4000000\r\n\r\n", c.key)
				until(t, "it is held", func() bool { return g.server.bodies.Used() == 4_000_000 })
			}
			const each = 50
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range each {
				co := g.talk()
				co.write("POST %s HTTP/1.1\r\nHost: h\r\n%sContent-Length: 4000000\r\n\r\n", c.path, c.key)
				if resp, m := co.answer(); resp.StatusCode != c.status {
					t.Fatalf("%d %v", resp.StatusCode, m)
				}
			}
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > each*200_000 {
				t.Errorf("%d bytes of memory for each announcement", took/each)
			}
		})
	}
}

// Many short values need far more memory than their text: that counts too. One body alone always fits.
func TestParsedBodiesInFlightAreBounded(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Limits.Bodies, s.Limits.BodiesPerKey = 4<<20, 2<<20 })
	agent, other := g.key("agent", "authorize", "scan"), g.key("other", "authorize")
	holds := func(n int64) {
		t.Helper()
		until(t, fmt.Sprintf("%d bytes are held", n), func() bool { return g.server.bodies.Used() == n })
	}
	ask := func(key string, values int) answerOf {
		return g.send(key, "POST", "/v1/authorize",
			`{"agent_id":"a","tool_id":"permit","args":{"a":[0`+strings.Repeat(",0", values)+`]}}`)
	}
	if x := ask(agent, 60_000); x.StatusCode != 200 {
		t.Errorf("alone: %d %s", x.StatusCode, x.body)
	}
	holds(0)
	first := g.talk()
	first.write("POST /v1/scan_output HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n",
		agent)
	holds(1_000_000)
	if x := ask(agent, 60_000); x.StatusCode != 429 || x.m["code"] != "too_many_requests" ||
		!strings.Contains(x.m["detail"].(string), "limits.bodies_per_key") || x.Header.Get("Retry-After") == "" {
		t.Errorf("beside a long body: %d %s", x.StatusCode, x.body)
	}
	holds(1_000_000)
	if x := ask(other, 10_000); x.StatusCode != 200 {
		t.Errorf("of another key: %d %s", x.StatusCode, x.body)
	}
	if x := ask(agent, 10_000); x.StatusCode != 200 {
		t.Errorf("fewer of them: %d %s", x.StatusCode, x.body)
	}
	holds(1_000_000)
	exponents := func(n int) answerOf {
		return g.send(agent, "POST", "/v1/authorize",
			`{"agent_id":"a","tool_id":"permit","args":{"a":[0`+strings.Repeat(",1e308", n)+`]}}`)
	}
	if x := exponents(4000); x.StatusCode != 429 || !strings.Contains(x.m["detail"].(string), "limits.bodies_per_key") {
		t.Errorf("numbers that are longer when they are written out: %d %s", x.StatusCode, x.body)
	}
	if x := exponents(1000); x.StatusCode != 200 {
		t.Errorf("fewer of them: %d %s", x.StatusCode, x.body)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	holds(0)
	if x := exponents(40_000); x.StatusCode != 200 {
		t.Errorf("alone: %d %s", x.StatusCode, x.body)
	}
	holds(0)
}

// A body that comes in one piece with its head was never asked about, but its parsed form counts like any other.
func TestParsedBodiesThatComeWithTheirHeads(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Limits.Bodies, s.Limits.BodiesPerKey = 4<<20, 2<<20 })
	agent := g.key("agent", "authorize", "scan")
	holds := func(n int64) {
		t.Helper()
		until(t, fmt.Sprintf("%d bytes are held", n), func() bool { return g.server.bodies.Used() == n })
	}
	ask := func(values int) (*http.Response, map[string]any) {
		body := `{"agent_id":"a","tool_id":"permit","args":{"a":[0` + strings.Repeat(",0", values) + `]}}`
		c := g.talk()
		defer c.Close()
		c.write("%s", fmt.Sprintf("POST /v1/authorize HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: "+
			"%d\r\n\r\n%s", agent, len(body), body))
		return c.answer()
	}
	first := g.talk()
	first.write("POST /v1/scan_output HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: 2000000\r\n\r\n",
		agent)
	holds(2_000_000)
	for range 3 {
		if resp, m := ask(6_000); resp.StatusCode != 429 || m["code"] != "too_many_requests" {
			t.Errorf("beside a long body: %d %v", resp.StatusCode, m)
		}
		if resp, m := ask(1_000); resp.StatusCode != 200 {
			t.Errorf("fewer values: %d %v", resp.StatusCode, m)
		}
	}
	holds(2_000_000)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	holds(0)
	for range 3 {
		if resp, m := ask(6_000); resp.StatusCode != 200 {
			t.Errorf("alone: %d %v", resp.StatusCode, m)
		}
	}
	holds(0)
}

// Who asks for long lists and does not read them holds a share of what bodies may hold, and no more.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	// unread: small buffers
	g := newGate(t, func(s *Settings) { s.Limits.Bodies, s.Limits.BodiesPerKey, s.unread = 4<<20, 1<<20, time.Minute })
	agent, boss := g.key("agent", "authorize"), g.key("boss", "approve")
	x := g.send(agent, "POST", "/v1/authorize",
		fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"text":"%s"}}`, strings.Repeat("x", 900<<10)))
	token, _ := x.m["defer_token"].(string)
	if token == "" {
		t.Fatalf("%d %.200s", x.StatusCode, x.body)
	}
	show := func() *talk {
		co := g.talk()
		co.write("GET /v1/approvals/call?defer_token=%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", token, boss)
		return co
	}
	held := func() bool { return g.server.bodies.Used() > 512<<10 }
	none := func() bool { return g.server.bodies.Used() == 0 }
	until(t, "nothing is held", none)
	unread := show()
	until(t, "the answer is held", held)
	if resp, m := show().answer(); resp.StatusCode != 429 || m["code"] != "too_many_requests" ||
		!strings.Contains(m["detail"].(string), "limits.bodies_per_key") {
		t.Errorf("%d %.300v", resp.StatusCode, m)
	}
	if resp, m := unread.answer(); resp.StatusCode != 200 || m["defer_token"] != token {
		t.Errorf("%d %.300v", resp.StatusCode, m)
	}
	until(t, "it is given back", none)
	gone := show()
	until(t, "the next is held", held)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "it is given back when its reader goes", none)
	for range 3 { // one after another they fit
		if resp, _ := show().answer(); resp.StatusCode != 200 {
			t.Error(resp.StatusCode)
		}
		until(t, "it is given back", none)
	}
}

// until waits for something that another goroutine does.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if at := <-tick.C; at.After(deadline) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	for name, keyless := range map[string]int{"one address has all places": 20, "one address has some": 8} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, func(s *Settings) { s.Limits.Connections, s.Limits.KeylessPer = 20, keyless })
			agent := g.key("agent", "authorize")
			kept := g.talk()
			ask := func(c *talk) {
				t.Helper()
				const body = `{"agent_id":"a","tool_id":"permit"}`
				c.write("POST /v1/authorize HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", agent,
					len(body), body)
				if resp, m := c.answer(); resp.StatusCode != 200 || m["effect"] != "PERMIT" {
					t.Errorf("%d %v", resp.StatusCode, m)
				}
			}
			ask(kept)
			for i := range 100 {
				silent := g.talk()
				if i%3 == 0 {
					silent.write("POST /v1/scan")
				}
				if i%10 == 0 {
					ask(g.talk())
				}
			}
			ask(kept)
		})
	}
}

func TestFirstByteHasItsOwnLimit(t *testing.T) {
	for _, c := range []struct{ first, idle, want time.Duration }{{0, 0, 10 * time.Second},
		{3 * time.Second, 0, 3 * time.Second}, {0, 2 * time.Second, 2 * time.Second}} {
		script := &scriptConn{end: io.EOF}
		conn := newStrictConn(script, StrictLimits{Idle: c.idle, FirstByte: c.first}.withDefaults())
		before := time.Now()
		_, _ = conn.Read(make([]byte, 4096))
		if wait := script.deadline.Sub(before); wait < c.want || wait > c.want+time.Minute/2 {
			t.Errorf("first byte within %v, want %v", wait, c.want)
		}
	}
}

func TestPeerBehindATrustedProxyIsTheClient(t *testing.T) {
	for _, c := range []struct {
		proxies []string
		want    string
	}{{nil, "10.0.0.1:7"}, {[]string{"10.0.0.0/8"}, "198.51.100.7"}, {[]string{"127.0.0.0/8"}, "10.0.0.1:7"}} {
		s := New(Settings{Server: config.Server{TrustedProxies: c.proxies}, Limits: limits.Default(t)})
		var req fasthttp.Request
		req.Header.Add("X-Forwarded-For", "203.0.113.1, 198.51.100.7")
		var ctx fasthttp.RequestCtx
		ctx.Init(&req, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}, nil)
		if got := s.peer(&ctx, clientOf(&ctx)); got != c.want {
			t.Errorf("%v: peer %q, want %s", c.proxies, got, c.want)
		}
	}
}
