package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// pieceBody is one piece of a stream as a request's members.
func pieceBody(id string, offset int, output string, final bool) map[string]any {
	return map[string]any{"tool_id": "files/read", "stream_id": id, "offset": offset, "output": output, "final": final}
}

// TestScanStreams sends one text in pieces over HTTP, over the socket, and changing between them: joined, the answers
// are what one scan gives.
func TestScanStreams(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	secret := "gh" + "p_" + strings.Repeat("aB3dE6gH9", 4)
	whole := strings.Repeat("é plain text\n", 4000) + "token=" + secret + " 🙂 " + strings.Repeat("more of it\n", 3000) +
		secret
	a := s.post(s.Keys.Agent, "/v1/scan_output", text(map[string]any{"tool_id": "files/read", "output": whole}))
	a.want(t, 200, "")
	want := a.str("sanitized_output")
	if strings.Contains(want, secret) || !strings.Contains(want, "[SECRET_") {
		t.Fatal("one scan does not redact the secret")
	}
	conn := dialSocket(t, socketOf(t, s))
	overHTTP := func(body map[string]any) map[string]any {
		a := s.post(s.Keys.Agent, "/v1/scan_output", text(body))
		a.want(t, 200, "")
		var v map[string]any
		if err := json.Unmarshal([]byte(a.body), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	overSocket := func(body map[string]any) map[string]any {
		body["type"], body["api_key"] = "scan_output", s.Keys.Agent
		if _, err := fmt.Fprintf(conn, "%s\n", text(body)); err != nil {
			t.Fatal(err)
		}
		return conn.line()
	}
	for name, send := range map[string]func(int, map[string]any) map[string]any{
		"http":   func(_ int, b map[string]any) map[string]any { return overHTTP(b) },
		"socket": func(_ int, b map[string]any) map[string]any { return overSocket(b) },
		"both": func(i int, b map[string]any) map[string]any {
			if i%2 == 0 {
				return overHTTP(b)
			}
			return overSocket(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			findings := 0
			runes, at := []rune(whole), 0
			for i := 0; len(runes) > 0; i++ {
				n := min(len(runes), 7001)
				piece := string(runes[:n])
				runes = runes[n:]
				v := send(i, pieceBody(name, at, piece, len(runes) == 0))
				again := send(i+1, pieceBody(name, at, piece, len(runes) == 0)) // as if the answer had been lost
				if v["scan_id"] == nil || again["scan_id"] != v["scan_id"] {
					t.Fatalf("the same piece again: %v and %v", v["scan_id"], again)
				}
				at += len(piece)
				got, ok := v["sanitized_output"].(string)
				if !ok {
					t.Fatalf("piece %d: %v", i, v)
				}
				out.WriteString(got)
				findings += len(v["findings"].([]any))
			}
			if out.String() != want || findings != 2 {
				t.Errorf("joined: %d bytes with %d findings, want %d", out.Len(), findings, len(want))
			}
		})
	}
}

// TestScanStreamLostByRestart wants a stream that a crash has lost refused by name, and not taken for the beginning of
// one.
func TestScanStreamLostByRestart(t *testing.T) {
	testkit.Slow(t, "restarts gateways")
	data := t.TempDir()
	s := startDev(t, nil, "--data", data)
	key := s.Keys.Agent
	send := func(offset int) answer {
		return s.post(key, "/v1/scan_output", text(pieceBody("lost", offset, "piece", false)))
	}
	send(0).want(t, 200, "")
	send(5).want(t, 200, "")
	s.kill()
	s = startDev(t, nil, "--data", data)
	send(10).want(t, 409, "stream_unknown")
	if a := send(10); !strings.Contains(a.str("detail"), "started again") || strings.Contains(a.body, "sanitized_output") {
		t.Error(a.body)
	}
	send(0).want(t, 200, "")
}

// TestScanStreamLimits reaches each limit that the configuration sets, and what a kill does.
func TestScanStreamLimits(t *testing.T) {
	s := startDev(t, []string{"YETT__LIMITS__SCAN_STREAMS_PER_KEY=2", "YETT__LIMITS__SCAN_STREAM_HELD=20KiB",
		"YETT__LIMITS__SCAN_STREAMS_MEMORY=200KiB"})
	send := func(id string, offset int, output string, final bool) answer {
		return s.post(s.Keys.Agent, "/v1/scan_output", text(pieceBody(id, offset, output, final)))
	}
	send("a", 0, "x", false).want(t, 200, "")
	send("b", 0, "x", false).want(t, 200, "")
	if a := send("c", 0, "x", false); a.status != 429 || !strings.Contains(a.body, "limits.scan_streams_per_key") {
		t.Errorf("a third stream: %s", a.body)
	}
	if a := send("a", 1, strings.Repeat("y", 23<<10), false); a.str("outcome") != "DENIED" ||
		a.str("reason_code") != "OUTPUT_SIZE_EXCEEDED" || !strings.Contains(a.body, `"released":0`) {
		t.Errorf("more than may be held back: %.300s", a.body)
	}
	if a := send("b", 1, strings.Repeat("y", 150<<10), false); a.status != 429 ||
		!strings.Contains(a.body, "limits.scan_streams_memory") {
		t.Errorf("more than all streams may hold: %.300s", a.body)
	}
	send("b", 2, "z", false).want(t, 409, "stream_offset")
	send("b", 1, "z", false).want(t, 200, "")
	s.post(s.Keys.Operator, "/v1/kill", `{"scope":"tool","target":"files"}`).want(t, 200, "")
	if a := send("b", 2, "z", true); a.str("outcome") != "DENIED" || a.str("reason_code") != "KILL_SWITCH_ACTIVE" {
		t.Errorf("after a kill of its tool: %s", a.body)
	}
	send("b", 3, "z", true).want(t, 409, "stream_ended")
}
