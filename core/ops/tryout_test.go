package ops_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// TestNoPlainHashOfWhatIsMasked: who sees a call with its secrets masked sees no hash of it without a key, which would
// let them try values out until one fits.
func TestNoPlainHashOfWhatIsMasked(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	params := fmt.Sprintf(`{"pass":%q}`, secret)
	asked := s.action(req{key: agent, op: "action_submit", body: `{"agent_id":"a","tool":"defer","params":` + params +
		`,"context":{}}`})
	value := func(text string) exact.Value {
		var doc exact.Doc
		if err := doc.Parse(text, exact.Limits{Depth: 9, Tokens: 99}); err != nil {
			t.Fatal(err)
		}
		return doc.Root()
	}
	plain, err := wire.RequestHash("a", "defer", "", value(params), value("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if asked.RequestHash != plain {
		t.Errorf("who submits gets %s, want the hash of what was sent, %s", asked.RequestHash, plain)
	}
	canonical := fmt.Sprintf(`{"agent_id":"a","args":%s,"context":{},"key":%q,"session_id":"","tool_id":"defer"}`, params,
		member(s.lastRecord("decision"), "principal_id"))
	sum := sha256.Sum256([]byte(canonical))
	seen := s.action(req{key: boss, op: "action_get", id: asked.ID})
	if strings.Contains(string(seen.Params), secret) || seen.RequestHash == "" {
		t.Fatalf("an approver sees %+v", seen)
	}
	view, err := s.do(req{key: boss, op: "approvals_list"})
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.do(req{key: boss, op: "action_events", id: asked.ID})
	if err != nil {
		t.Fatal(err)
	}
	record := s.lastRecord("decision")
	for name, text := range map[string]string{"action": fmt.Sprintf("%+v", seen), "list": view, "events": events,
		"record": record} {
		for what, hash := range map[string]string{"request_hash": plain, "digest": hex.EncodeToString(sum[:]),
			"provenance_id": asked.Provenance} {
			if strings.Contains(text, hash) {
				t.Errorf("%s: the plain %s is there: %s", name, what, text)
			}
		}
	}
	if d := member(view, "digest"); d == "" || d != member(record, "digest") {
		t.Errorf("the view has the digest %s, the record %s", d, member(record, "digest"))
	}
}

// TestSpellingsOfOneCall: tool and operation, apart or joined, are one call, and rules see the same operation in it.
func TestSpellingsOfOneCall(t *testing.T) {
	for _, c := range []struct{ tool, operation, want, apart string }{
		{"fs", "delete", "delete", ""}, {"fs/delete", "", "delete", ""}, {"fs/delete", "delete", "delete", ""},
		{"fs/delete", "read", "read", "read"}, {"mcp/github", "create", "create", "create"}, {"mcp/github", "", "github", ""},
		{"fs", "a/b", "a/b", ""}, {"fs/a/b", "", "a/b", ""}, {"fs", "", "", ""}, {"fs/", "", "", ""},
		{"fs/a/delete", "", "a/delete", ""}, {"fs/a/delete", "delete", "a/delete", ""}, {"fs/a/delete", "a/delete", "a/delete", ""},
	} {
		tool := wire.ToolOf(c.tool, c.operation)
		got := wire.OperationOf(tool, c.operation)
		if got != c.want || wire.Apart(tool, got) != c.apart {
			t.Errorf("%s %q: operation %q, apart %q; want %q, %q", c.tool, c.operation, got, wire.Apart(tool, got), c.want,
				c.apart)
		}
	}
	s := newStage(t)
	agent := s.key("agent", "agent")
	seen := ""
	fn := func(c *chain.Call) (sdk.Verdict, error) {
		seen = c.Operation
		return sdk.Verdict{Effect: sdk.Defer, Code: "TEST"}, nil
	}
	s.verdict.Store(&fn)
	token := ""
	for _, call := range []string{`"tool_id":"fs","operation":"delete"`, `"tool_id":"fs/delete"`,
		`"tool_id":"fs/delete","operation":"delete"`} {
		text, err := s.do(req{key: agent, op: "authorize", body: `{"agent_id":"a",` + call + `}`})
		if err != nil || seen != "delete" || token != "" && member(text, "defer_token") != token {
			t.Errorf("%s: rules see %q, %v: %s", call, seen, err, text)
		}
		token = member(text, "defer_token")
	}
}

// TestNoPlainHashOfWhatTheLogLacks: where the log keeps a digest of args, that cannot be tried out either, nor can that
// of the arguments which an approver has put in their place.
func TestNoPlainHashOfWhatTheLogLacks(t *testing.T) {
	s := newStage(t) // audit.args is digest
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	asked := s.action(req{key: agent, op: "action_submit", body: `{"agent_id":"a","tool":"defer","params":{"pin":1234}}`})
	if _, err := s.do(req{key: boss, op: "approve_defer", body: `{"defer_token":"` + asked.Token +
		`","approved":true,"modified_args":{"pin":5678}}`}); err != nil {
		t.Fatal(err)
	}
	plain := map[string]string{"request_hash": asked.RequestHash, "provenance_id": asked.Provenance}
	for _, args := range []string{`{"pin":1234}`, `{"pin":5678}`} {
		sum := sha256.Sum256([]byte(args))
		plain[args] = hex.EncodeToString(sum[:])
	}
	seen, modified := 0, false
	if err := s.store.Records(1, func(_ uint64, record []byte) error {
		seen++
		modified = modified || strings.Contains(string(record), `"modified_digest":"`)
		for what, hash := range plain {
			if strings.Contains(string(record), hash) {
				t.Errorf("the plain hash of %s is in %s", what, record)
			}
		}
		return nil
	}); err != nil || seen < 3 || !modified {
		t.Errorf("%d records, modified %v: %v", seen, modified, err)
	}
}
