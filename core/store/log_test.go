package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// The bytes of every kind of record this package writes: readers of the log rely on them.
func TestRecordBytes(t *testing.T) {
	r := newRig(t)
	agent, boss := r.key("agent", []string{"billing-*"}, "authorize", "scan"), r.key("boss", nil, "approve")
	full := r.call(agent, "refund", sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", Reason: "reads change nothing",
		RuleID: "reads", Message: "go on"})
	full.By = Who{Principal: "agent", Method: "api_key", Surface: "http", Peer: "192.0.2.1:1", RequestID: "req_1",
		Trace: "4bf92f3577b34da6a3ce929d0e0e4736"}
	full.Operation = "read"
	full.Record = CallRecord{Args: []byte(`{"path":"[SECRET]"}`), LatencyUS: 123, TimeoutMS: 5000}
	full.Policy.Checks = []wire.Check{{Name: "rules", Kind: "rules", Mode: "enforce", Effect: "PERMIT",
		ReasonCode: "RULE_PERMIT", Micros: 7},
		{Name: "pilot", Kind: "wasm", Mode: "shadow", Effect: "DENY", ReasonCode: "STEP_ERROR", Error: "trap"}}
	r.must(full)
	dry := r.call(agent, "refund", deny)
	dry.DryRun = true
	r.must(dry)
	r.must(&Scanned{Key: agent, By: system, ScanID: "scn_1", AgentID: "billing-1", ToolID: "t", Bytes: 9,
		Outcome: "REDACTED", Code: "OUTPUT_X", Reason: "X found", Policy: "p",
		Findings: []ScannedFinding{{Kind: "X", Scanner: "s", Severity: "high", Action: "redact", Start: 1, End: 3,
			Hash: "ff"}}, Receipts: []wire.Receipt{{Scanner: "s", Outcome: "ok", Bytes: 9}}})
	r.must(&Scanned{Key: agent, By: system, ScanID: "scn_2", AgentID: "billing-1", Bytes: 12,
		Outcome: "REDACTED", Code: "OUTPUT_X", Reason: "X found", Policy: "p",
		Outputs: []ScannedOutput{{ToolID: "t", Bytes: 3, Hash: "ee", Outcome: "PASS", Code: "SCAN_OK"},
			{ToolID: "u", Bytes: 9, JSON: true, Hash: "dd", Outcome: "REDACTED", Code: "OUTPUT_X", Reason: "X found"}},
		Findings: []ScannedFinding{{Output: 1, Kind: "X", Scanner: "s", Severity: "high", Action: "redact", Start: 1, End: 3,
			Hash: "ff"}}, Receipts: []wire.Receipt{{Scanner: "s", Outcome: "ok", Bytes: 12}}})
	token := r.deferred(agent, "x", waits)
	r.must(r.call(agent, "x", waits))
	r.must(r.answer(boss, token, true))
	r.must(r.redeem(agent, "x", token, waits))
	r.must(r.answer(boss, r.deferred(agent, "y", waits), false))
	r.deferred(agent, "z", waits)
	r.clock.advance(5 * time.Minute)
	r.must(&Note{Type: "config_applied", By: system, Fields: [][2]string{{"policy_version", "p"}}})
	r.must(&RollKey{ID: "agent", New: &Key{ID: "agent2"}, Grace: time.Hour, By: system})
	r.must(&RevokeKey{ID: "boss", By: Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin", Peer: "0"}})
	var got bytes.Buffer
	if err := r.s.Records(1, func(_ uint64, rec []byte) error { got.Write(rec); return got.WriteByte('\n') }); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "log.golden")
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g, w := bytes.Split(got.Bytes(), []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || !bytes.Equal(g[i], w[i]) {
			t.Fatalf("%s, line %d:\n got %s\nwant %s", path, i+1, at(g, i), at(w, i))
		}
	}
}

func at(lines [][]byte, i int) []byte {
	if i < len(lines) {
		return lines[i]
	}
	return []byte("nothing")
}

// Records starts anywhere, also inside a group that one commit has written.
func TestRecordsFromAnywhere(t *testing.T) {
	s, g := openGated(t)
	k := newKey(t, s, "k", "authorize")
	for i := range 3 {
		var cmds []Command
		for j := range i + 2 {
			cmds = append(cmds, ask(k, string(rune('a'+10*i+j)), sdk.Permit))
		}
		for _, err := range g.together(t, s, cmds...) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	n := s.Seq()
	for from := range n + 3 {
		next := max(from, 1)
		if err := s.Records(from, func(seq uint64, rec []byte) error {
			if seq != next || !bytes.Contains(rec, appendUint([]byte(`"seq":`), seq)) {
				t.Errorf("from %d: got %d, want %d: %s", from, seq, next, rec)
			}
			next++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if next != max(n+1, from) && from > 0 {
			t.Errorf("from %d: ended before %d of %d", from, next, n)
		}
	}
}

// What a command that only reads finds no store in stays no store.
func TestOpenWithoutAnIDMakesNoStore(t *testing.T) {
	r := newRig(t)
	fs := r.fs
	r.close()
	set := settings(fs, r.clock, nil)
	set.NewID = func() string { return "" }
	s, err := Open(set)
	if err != nil {
		t.Fatal(err) // there is a store, its id is known
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	set.Dir = "elsewhere"
	if s, err := Open(set); err == nil {
		t.Errorf("a store without an id was made: %q", s.ID())
	}
	r.open()
}
