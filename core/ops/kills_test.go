package ops_test

import "testing"

// A kill that names two agents means neither for sure: it is refused, whichever way it says so.
func TestKillOfTwoTargetsIsRefused(t *testing.T) {
	b := newBench(t, nil)
	boss := b.newKey("boss", "operator")
	for _, body := range []string{`{"agent_id":"a","target":"b"}`, `{"agent_id":"a","scope":"agent","target":"b"}`,
		`{"agent_id":"a","scope":"tool","target":"a"}`, `{"agent_id":"a","scope":"global"}`} {
		b.fails(boss.Value, "kill", body, "invalid_field")
	}
	b.must(boss.Value, "kill", `{"agent_id":"a","target":"a"}`)
	b.must(boss.Value, "kill", `{"agent_id":"a","scope":"agent"}`)
}

// A kill of sessions takes patterns, as those of agents and tools do: "*" stops every call that is of a session.
func TestKillOfSessionsByPattern(t *testing.T) {
	b := newBench(t, nil)
	bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
	ask := func(session, want string) {
		t.Helper()
		if got := b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"permit"`+session+`}`); member(got, "effect") !=
			want {
			t.Errorf("session %s: %s", session, got)
		}
	}
	for _, c := range [][2]string{{"*", `,"session_id":"s"`}, {"job/*", `,"session_id":"job/1"`},
		{"a*b", `,"session_id":"a*b"`}} {
		b.must(boss.Value, "kill", `{"scope":"session","target":"`+c[0]+`"}`)
		ask(c[1], "DENY")
		ask("", "PERMIT")
		b.must(boss.Value, "kill", `{"scope":"session","target":"`+c[0]+`","undo":true}`)
		ask(c[1], "PERMIT")
	}
}
