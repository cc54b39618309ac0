package ops_test

import (
	"fmt"
	"strings"
	"testing"
)

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

// TestKillDeniesScans: a text of a killed agent is denied in one piece as it is in a stream, and let through again once
// the kill is undone.
func TestKillDeniesScans(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	for _, c := range []struct{ undo, want string }{{"", "DENIED KILL_SWITCH_ACTIVE"}, {`,"undo":true`, "PASS SCAN_OK"}} {
		if _, err := s.do(req{key: boss, op: "kill", body: `{"agent_id":"a","reason":"test"` + c.undo + `}`}); err != nil {
			t.Fatal(err)
		}
		for _, more := range []string{"", `,"stream_id":"s` + c.want[:4] + `","final":true`} {
			text, err := s.do(req{key: agent, op: "scan_output", body: `{"agent_id":"a","tool_id":"t","output":"x"` + more + `}`})
			if got := member(text, "outcome") + " " + member(text, "reason_code"); err != nil || got != c.want {
				t.Errorf("%s%s: %s, %v; want %s", c.undo, more, got, err, c.want)
			}
		}
	}
}

// TestKillOvertakesScans: a kill that comes while a text is scanned denies it, also when it is undone by then, and what
// was found stays out of the answer. Another agent's kill does not.
func TestKillOvertakesScans(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	for _, c := range []struct {
		name, target string
		undone       bool
		want         string
	}{
		{"killed", "a", false, "DENIED KILL_SWITCH_ACTIVE"},
		{"killed and undone", "b", true, "DENIED KILL_SWITCH_ACTIVE"},
		{"another agent", "other", false, "WARNED OUTPUT_SECRET_TEST"},
	} {
		pull := func() {
			for _, undo := range []string{"", `,"undo":true`} {
				if undo != "" && !c.undone {
					continue
				}
				body := fmt.Sprintf(`{"agent_id":%q,"reason":"test"%s}`, c.target, undo)
				if _, err := s.do(req{key: boss, op: "kill", body: body}); err != nil {
					t.Error(err)
				}
			}
		}
		s.during.Store(&pull)
		who := c.target
		if who == "other" {
			who = "c"
		}
		text, err := s.do(req{key: agent, op: "scan_output", body: fmt.Sprintf(
			`{"agent_id":%q,"tool_id":"t","output":%q}`, who, secret)})
		record := s.lastRecord("scan")
		got := member(text, "outcome") + " " + member(text, "reason_code")
		if got != c.want || err != nil || !strings.Contains(record, `"outcome":"`+member(text, "outcome")+`"`) {
			t.Errorf("%s: %s, %v, recorded %s; want %s", c.name, got, err, record, c.want)
		}
		if strings.HasPrefix(c.want, "DENIED") && (strings.Contains(text, "sanitized_output") ||
			strings.Contains(text, "SECRET_TEST")) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}
