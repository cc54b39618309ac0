package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// trace is one recorded call of an agent.
type trace struct {
	ID, Agent, Tool, Session string
	Args                     json.RawMessage
	Result                   json.RawMessage
}

// calls are the requests that replay the trace.
func (r *trace) calls() (authorize, scan string) {
	authorize = text(map[string]any{"agent_id": r.Agent, "tool_id": r.Tool, "session_id": r.Session, "args": r.Args})
	if r.Result == nil || string(r.Result) == "null" {
		return authorize, ""
	}
	output := string(r.Result)
	_ = json.Unmarshal(r.Result, &output) // what is no string is sent as its JSON text
	return authorize, text(map[string]any{"agent_id": r.Agent, "tool_id": r.Tool, "session_id": r.Session,
		"output": output})
}

// replay sends every trace and gives what must be the same each time.
func replay(t *testing.T, rows []trace, workers int) []string {
	s := startDev(t, []string{"YETT__LIMITS__PENDING_PER_KEY=1000000", "YETT__DEFERS__TTL=1h"})
	out := make([]string, len(rows))
	atOnce(workers, len(rows), func(i int) {
		authorize, scan := rows[i].calls()
		a, err := s.send("POST", "/v1/authorize", s.Keys.Agent, authorize)
		if err == nil {
			err = a.wellFormed()
		}
		effect := a.str("effect")
		if err != nil || a.status != 200 || !slices.Contains([]string{"PERMIT", "DENY", "DEFER"}, effect) {
			t.Errorf("trace %s: authorize: status %d, effect %q, %v: %s", rows[i].ID, a.status, effect, err, a.body)
			return
		}
		out[i] = strings.Join([]string{effect, a.str("reason_code"), a.str("rule_id")}, " ")
		if scan == "" {
			return
		}
		a, err = s.send("POST", "/v1/scan_output", s.Keys.Agent, scan)
		if err == nil {
			err = a.wellFormed()
		}
		outcome := a.str("outcome")
		if err != nil || a.status != 200 || !slices.Contains([]string{"PASS", "WARNED", "REDACTED"}, outcome) {
			t.Errorf("trace %s: scan: status %d, outcome %q, %v: %s", rows[i].ID, a.status, outcome, err, a.body)
			return
		}
		out[i] += " " + outcome + " " + a.str("sanitized_output")
	})
	s.stop()
	return out
}

// TestTracesAreAnsweredAlike replays recorded calls on two gateways, in two orders: no errors, and the same verdicts
// and texts byte for byte.
func TestTracesAreAnsweredAlike(t *testing.T) {
	e2e.Binary(t)
	rows := dataRows[trace](t, "traces.jsonl.gz")
	first, second := replay(t, rows, 16), replay(t, rows, 5)
	count := map[string]int{}
	for i := range rows {
		effect, _, _ := strings.Cut(first[i], " ")
		count[effect]++
		if first[i] != second[i] {
			t.Errorf("trace %s: %.300q and then %.300q", rows[i].ID, first[i], second[i])
		}
	}
	t.Logf("%d traces: %v", len(rows), count)
	if count["PERMIT"] == 0 || count["DENY"] == 0 || count["DEFER"] == 0 {
		t.Errorf("the mix does not reach every effect: %v", count)
	}
}

// tarFiles reads a tar.gz of the labelled sets, by base name.
func tarFiles(t *testing.T, name string) map[string]string {
	f, err := os.Open(dataFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			files[filepath.Base(h.Name)] = string(b)
		}
	}
}

// stricter are files that the suite accepts and Yett refuses: a name twice, and NUL.
func stricter(file string) bool {
	return strings.Contains(file, "duplicated_key") || strings.Contains(file, "escaped_null") ||
		strings.Contains(file, "escaped_NULL")
}

func TestJSONTorture(t *testing.T) {
	t.Parallel()
	e2e.Binary(t)
	rows := dataRows[struct{ File, Expect string }](t, "json_torture.jsonl.gz")
	files := tarFiles(t, "json_torture.tar.gz")
	s := startDev(t, nil)
	seen := map[string]int{}
	atOnce(4, len(rows), func(i int) {
		body, ok := files[rows[i].File]
		if !ok {
			t.Errorf("%s is not in the archive", rows[i].File)
			return
		}
		expect := rows[i].Expect
		if stricter(rows[i].File) {
			expect = "reject"
		}
		for where, sent := range map[string]string{"whole": body,
			"inside": `{"agent_id":"a","tool_id":"t","args":{"v":` + body + `}}`} {
			a, err := s.send("POST", "/v1/authorize", s.Keys.Agent, sent)
			if err == nil {
				err = a.wellFormed()
			}
			if err == nil {
				err = tortured(expect, where, a)
			}
			if err != nil {
				t.Errorf("%s (%s, %s): %v", rows[i].File, rows[i].Expect, where, err)
			}
		}
	})
	for _, r := range rows {
		seen[r.Expect]++
	}
	t.Logf("%d files: %v", len(rows), seen)
}

// tortured judges one answer to a file of the suite.
func tortured(expect, where string, a answer) error {
	switch {
	case a.status >= 500:
	case expect == "reject" && (a.status != 400 || a.str("code") != "invalid_json"):
	case expect == "accept" && where == "inside" && a.status != 200:
	case expect == "accept" && where == "whole" && a.status != 422: // good JSON, but no call
	default:
		return nil
	}
	return fmt.Errorf("status %d: %s", a.status, a.body)
}

// placed is one field of a request that a hostile text can be in.
type placed struct {
	name, path string
	body       func(s string) any
}

func call(name string, value any) any {
	return map[string]any{"agent_id": "a", "tool_id": "t", name: value}
}

var hostile = []placed{
	{"agent_id", "/v1/authorize", func(s string) any { return map[string]any{"agent_id": s, "tool_id": "t"} }},
	{"tool_id", "/v1/authorize", func(s string) any { return map[string]any{"agent_id": "a", "tool_id": s} }},
	{"session_id", "/v1/authorize", func(s string) any { return call("session_id", s) }},
	{"operation", "/v1/authorize", func(s string) any { return call("operation", s) }},
	{"call_id", "/v1/authorize", func(s string) any { return call("call_id", s) }},
	{"defer_token", "/v1/authorize", func(s string) any { return call("defer_token", s) }},
	{"args value", "/v1/authorize", func(s string) any { return call("args", map[string]any{"v": []string{s}}) }},
	{"args key", "/v1/authorize", func(s string) any { return call("args", map[string]any{s: 1}) }},
	{"context", "/v1/authorize", func(s string) any { return call("context", map[string]any{s: s}) }},
	{"output", "/v1/scan_output", func(s string) any { return map[string]any{"tool_id": "t", "output": s} }},
	{"scan tool_id", "/v1/scan_output", func(s string) any { return map[string]any{"tool_id": s, "output": "x"} }},
	{"content_type", "/v1/scan_output", func(s string) any { return map[string]any{"tool_id": "t", "output": "x", "content_type": s} }},
	{"status token", "/v1/defer/status", func(s string) any { return map[string]any{"defer_token": s} }},
	{"approve token", "/v1/approve", func(s string) any { return map[string]any{"defer_token": s, "approved": true} }},
}

// TestHostileTexts puts strings that break programs into every field: no 5xx, no hang, and every answer is strict JSON.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	e2e.Binary(t)
	type row struct{ Text string }
	rows := append(dataRows[row](t, "naughty_strings.jsonl.gz"), dataRows[row](t, "xss.jsonl.gz")...)
	s := startDev(t, []string{"YETT__LIMITS__PENDING_PER_KEY=1000000"})
	atOnce(16, len(rows)*len(hostile), func(i int) {
		field, in := hostile[i%len(hostile)], rows[i/len(hostile)].Text
		key := s.Keys.Agent
		if field.path == "/v1/approve" {
			key = s.Keys.Approver
		}
		a, err := s.send("POST", field.path, key, text(field.body(in)))
		if err == nil {
			err = a.wellFormed()
		}
		if err != nil || a.status >= 500 {
			t.Errorf("%s = %.100q: status %d: %v: %.300s", field.name, in, a.status, err, a.body)
		}
		if field.name == "output" && (a.str("outcome") == "PASS" || a.str("outcome") == "WARNED") &&
			a.str("sanitized_output") != in {
			t.Errorf("output %q came back as %q", in, a.str("sanitized_output"))
		}
	})
	for i, r := range rows[:200] {
		hostileReason(t, s, i, r.Text)
	}
}

// hostileReason answers a deferred call with a text as the reason, which must come back to the asking key as it was
// given.
func hostileReason(t *testing.T, s *server, i int, in string) {
	token := s.deferred("payments/charge", fmt.Sprintf(`{"n":%d}`, i))
	a := s.post(s.Keys.Approver, "/v1/approve", text(map[string]any{"defer_token": token, "approved": true, "reason": in}))
	if a.status == 422 && len(in) > 1024 {
		return
	}
	if a.status != 200 {
		t.Errorf("reason %q: status %d: %s", in, a.status, a.body)
		return
	}
	if st := s.post(s.Keys.Agent, "/v1/defer/status", text(map[string]any{"token": token})); st.str("reason") != in ||
		st.str("status") != "approved" {
		t.Errorf("reason %q: status says %s", in, st.body)
	}
}
