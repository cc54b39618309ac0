package ops_test

import "testing"

// A kill that names two agents means neither for sure: it is refused, whichever way it says so.
func TestKillOfTwoTargetsIsRefused(t *testing.T) {
	b := newBench(t, nil)
	boss := b.newKey("boss", "operator")
	for _, body := range []string{`{"agent_id":"a","target":"b"}`, `{"agent_id":"a","scope":"agent","target":"b"}`, `{"agent_id":"a","scope":"tool","target":"a"}`, `{"agent_id":"a","scope":"global"}`} {
		b.fails(boss.Value, "kill", body, "invalid_field")
	}
	b.must(boss.Value, "kill", `{"agent_id":"a","target":"a"}`)
	b.must(boss.Value, "kill", `{"agent_id":"a","scope":"agent"}`)
}
