//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDriveOnce checks a run with a limit: every number is sent once, each with its own token, and the run ends early.
func TestDriveOnce(t *testing.T) {
	const first, limit = 1234, 100
	var mu sync.Mutex
	got := map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Number, Token, Body string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, twice := got[in.Number]; twice {
			http.Error(w, "twice", http.StatusConflict)
			return
		}
		got[in.Number] = in.Token + in.Body
		w.Header().Set("Content-Length", "4")
		io.WriteString(w, "good")
	}))
	defer s.Close()
	var bodies [][]byte
	for i := range 7 {
		bodies = append(bodies, fmt.Appendf(nil, `{"token":"%s","number":"%s","body":"%d"}`, strings.Repeat("$", 12),
			numberMark, i))
	}
	d := &drive{addr: strings.TrimPrefix(s.URL, "http://"), path: "/", bodies: bodies, expect: "good", conns: 6, duration: time.Hour, first: first, limit: limit}
	seen := make([]int, limit)
	for i := range limit {
		d.tokens = append(d.tokens, fmt.Sprintf("token-%06d", i))
	}
	d.answer = func(n int, answer []byte) error {
		seen[n-first]++
		return nil
	}
	if err := d.all(context.Background()); err != nil {
		t.Fatal(err)
	}
	mu.Lock() // the sockets of the generator are none that the race detector follows
	for i := range limit {
		n := first + i
		if want := fmt.Sprintf("token-%06d%d", i, n%len(bodies)); got[fmt.Sprintf("%09d", n)] != want || seen[i] != 1 {
			t.Errorf("request %d brought %q, want %q; %d answers", n, got[fmt.Sprintf("%09d", n)], want, seen[i])
		}
	}
	if len(got) != limit {
		t.Errorf("%d requests, want %d", len(got), limit)
	}
	mu.Unlock()
	if err := d.all(context.Background()); err == nil || !strings.Contains(err.Error(), "100 of 100 answers were wrong") {
		t.Errorf("the same again: %v", err)
	}
	d.duration = 0
	if err := d.all(context.Background()); err == nil || !strings.Contains(err.Error(), "answers in 0s") {
		t.Errorf("without time: %v", err)
	}
	mu.Lock()
	clear(got)
	mu.Unlock()
	d.duration, d.answer = time.Hour, func(int, []byte) error { return io.ErrUnexpectedEOF }
	if err := d.all(context.Background()); err != io.ErrUnexpectedEOF {
		t.Errorf("an answer that cannot be used: %v", err)
	}
}

// TestSpentEarly checks that a run whose requests are all sent before its warm-up is over has no rate, rather than a
// wrong one.
func TestSpentEarly(t *testing.T) {
	d := answering(t, func(int64) (int, string) { return 200, "good" })
	d.bodies, d.limit, d.warm, d.duration = d.bodies[:1], 10, time.Hour, time.Hour
	out, err := d.run(context.Background())
	if err != nil || out.all != 10 || out.good != 0 || out.perSecond() != 0 {
		t.Errorf("%v: %d answers, %d of them measured, %g a second", err, out.all, out.good, out.perSecond())
	}
}

func TestTokenOf(t *testing.T) {
	for in, want := range map[string]string{
		"HTTP/1.1 200 OK\r\n\r\n" + `{"effect":"DEFER","defer_token":"dfr_01ABC","x":1}`: "dfr_01ABC",
		`{"effect":"DEFER"}`:        "",
		`{"defer_token":"dfr_01ABC`: "",
		`{"defer_token":"short"}`:   "",
	} {
		got, err := tokenOf([]byte(in))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", in, got, err)
		}
	}
}

// TestMadeBodies checks what the rows rest on: that each body is JSON with its marks, and asks for what its rules are
// about.
func TestMadeBodies(t *testing.T) {
	type call struct {
		Agent string `json:"agent_id"`
		Tool  string `json:"tool_id"`
		Token string `json:"defer_token"`
		Args  struct{ Order string }
	}
	read := func(bodies [][]byte, err error) (out []call) {
		t.Helper()
		if err != nil || len(bodies) != benchBodies {
			t.Fatalf("%d bodies, %v", len(bodies), err)
		}
		for _, b := range bodies {
			var c call
			if err := json.Unmarshal(b, &c); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			out = append(out, c)
		}
		return out
	}
	desk, err := deskBodies()
	for _, c := range read(withToken(desk, 40), err) {
		if c.Args.Order != numberMark || c.Token != strings.Repeat("$", 40) || !strings.HasPrefix(c.Tool, "desk/") {
			t.Fatalf("%+v", c)
		}
	}
	for i, c := range read(grantBodies(64)) {
		if c.Agent != holder(i%64) || !strings.HasPrefix(c.Tool, "desk/") {
			t.Fatalf("%d: %+v", i, c)
		}
	}
	for _, n := range []int{10, 512, 1000, 100_000} {
		tools := map[string]bool{}
		rules := bufio.NewScanner(strings.NewReader(ruledRules(n)))
		for rules.Scan() {
			if _, after, found := strings.Cut(rules.Text(), `tools: ["`); found {
				tools[after[:len("service-000000")]] = false
			}
		}
		if len(tools) != n {
			t.Errorf("%d rules for %d", len(tools), n)
		}
		last := ""
		for _, c := range read(ruledBodies(n)) {
			service, _, _ := strings.Cut(c.Tool, "/")
			if _, known := tools[service]; !known {
				t.Fatalf("of %d rules none is for %s", n, c.Tool)
			}
			tools[service] = true
			last = max(last, service)
		}
		used := 0
		for _, u := range tools {
			if u {
				used++
			}
		}
		if used != min(n, benchBodies) || last < fmt.Sprintf("service-%06d", n-max(n/benchBodies, 1)-1) {
			t.Errorf("%d of %d rules are used, the last is %s", used, n, last)
		}
	}
	if n := strings.Count(benchRules(), "{id: "); n != 100 {
		t.Errorf("%d rules, want 100", n)
	}
	if calls, err := authorizeBodies(); err != nil || slices.ContainsFunc(calls, func(b []byte) bool {
		return strings.Contains(string(b), "desk/") || strings.Contains(string(b), numberMark)
	}) {
		t.Errorf("plain calls would be deferred or numbered (%v)", err)
	}
}
