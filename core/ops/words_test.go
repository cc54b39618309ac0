package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// TestFailuresWords: why a plugin failed is in its own words, which may tell of what is behind it. The record has them;
// agents, who may ask for an explanation, read that it failed.
func TestFailuresWords(t *testing.T) {
	const words = "no route to db.internal as user yett"
	s := newStage(t)
	agent := s.key("agent", "agent")
	failed := fmt.Errorf("plugin entitle: %w", &chain.Spoken{Err: errors.New("its answer is an error"), Words: words})
	for _, c := range []struct {
		name   string
		scan   bool
		q      req
		record string // the type of the one that has them
	}{
		{"authorize", false, req{key: agent, op: "authorize", body: `{"agent_id":"a","tool_id":"permit","explain":true}`}, "decision"},
		{"an action", false, req{key: agent, op: "action_submit", body: `{"agent_id":"a","tool":"permit","explain":true}`}, "decision"},
		{"a scan", true, req{key: agent, op: "scan_output", body: `{"agent_id":"a","tool_id":"t","output":"x"}`}, "scan"},
		{"a piece", true, req{key: agent, op: "scan_output", body: `{"agent_id":"a","session_id":"s","tool_id":"t","stream_id":"1","offset":0,"output":"x","final":true}`}, "scan"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.stumbles.Store(nil)
			if c.scan {
				s.stumbles.Store(&stumble{on: "x", err: failed})
			}
			check := func(*chain.Call) (sdk.Verdict, error) { return sdk.Verdict{}, failed }
			s.verdict.Store(&check)
			from := s.store.Seq() + 1
			answer, err := s.do(c.q)
			if err != nil || !strings.Contains(answer, "plugin entitle: its answer is an error") ||
				strings.Contains(answer, words) {
				t.Errorf("an agent reads %s, %v", answer, err)
			}
			got := ""
			if err := s.store.Records(from, func(_ uint64, record []byte) error {
				got += string(record) + "\n"
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, `"type":"`+c.record) ||
				strings.Count(got, "its answer is an error; it says: "+words+`"`) != 1 {
				t.Errorf("recorded is %s", got)
			}
		})
	}
}
