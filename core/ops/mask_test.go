package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// newMaskingStage is a stage whose policy keeps args masked.
func newMaskingStage(t *testing.T) *stage {
	s := newStage(t)
	s.args = "redacted"
	s.restart()
	return s
}

// lastRecord is the newest record of a type.
func (s *stage) lastRecord(typ string) (last string) {
	s.t.Helper()
	if err := s.store.Records(1, func(_ uint64, rec []byte) error {
		if strings.Contains(string(rec), `"type":"`+typ+`"`) {
			last = string(rec)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return last
}

// A scanner's health changes what is kept of a call's args and context, never what is decided about it, whatever
// surface asked.
func TestScannerOutageChangesNoDecision(t *testing.T) {
	s := newMaskingStage(t)
	agent := s.key("agent", "agent")
	down := errors.New("the scanner is down")
	n := 0
	for _, c := range []struct{ op, body, effect string }{
		{"authorize", `{"agent_id":"a","tool_id":%q,"args":%s,"context":%s}`, "effect"},
		{"authorize", `{"agent_id":"a","tool_id":%q,"args":%s,"context":%s,"dry_run":true}`, "effect"},
		{"govern", `{"agent_id":"a","tool_id":%q,"args":%s,"context":%s}`, "effect"},
		{"evaluate", `{"agent_id":"a","tool_id":%q,"args":%s,"context":%s}`, "effect"},
		{"gate_decide", `{"agent_id":"a","tool":%q,"params":%s,"context":%s}`, "outcome"},
		{"action_submit", `{"agent_id":"a","tool":%q,"params":%s,"context":%s}`, "outcome"},
	} {
		for _, tool := range []string{"permit", "deny", "defer"} {
			n++
			ask := func(part string) (effect, code, record string) {
				params := fmt.Sprintf(`{"pass":"%s","n":%d,"part":%q}`, secret, n, part)
				text, err := s.do(req{key: agent, op: c.op, body: fmt.Sprintf(c.body, tool, params, params)})
				if err != nil {
					t.Fatalf("%s %s: %v", c.op, tool, err)
				}
				return member(text, c.effect), member(text, "reason_code"), s.lastRecord("decision")
			}
			effect, code, record := ask("sound")
			if effect == "" || !strings.Contains(record, `"args":{"n":`) || strings.Contains(record, "withheld") {
				t.Errorf("%s %s: %s, recorded %s", c.op, tool, effect, record)
			}
			s.scan.Store(&down)
			effect2, code2, record := ask("broken")
			s.scan.Store(nil)
			if effect2 != effect || code2 != code {
				t.Errorf("%s %s: %s %s with a sound scanner, %s %s with a broken one", c.op, tool, effect, code, effect2, code2)
			}
			if !strings.Contains(record, `"args_withheld":{"cause":"error","scanner":"stage"}`) ||
				strings.Contains(record, `"args":`) {
				t.Errorf("%s %s: recorded %s", c.op, tool, record)
			}
		}
	}
	s.nowhere(secret)
}

// A call that waits shows its approvers that it cannot be shown, and why; and shows of a secret what it looks like.
func TestWaitingCallShowsWhatItMay(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	down := errors.New("the scanner is down")
	ask := func(note string) string {
		text, err := s.do(req{key: agent, op: "authorize",
			body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"pass":"%s"},"context":{"note":"%s","pass":"%s"}}`,
				secret, note, secret)})
		if err != nil || member(text, "effect") != "DEFER" {
			t.Fatalf("%v %s", err, text)
		}
		list, err := s.do(req{key: boss, op: "approvals_list"})
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(list, member(text, "defer_token"))
		return after
	}
	s.scan.Store(&down)
	got := ask("broken")
	for _, want := range []string{`"args":{"withheld":"error","scanner":"stage"},"args_withheld":{"cause":"error","scanner":"stage"}`, `"context_withheld":{"cause":"error","scanner":"stage"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("the approver sees %s, without %s", got, want)
		}
	}
	s.scan.Store(nil)
	if got, want := ask("sound"), `"args":{"pass":"[SECRET_TEST: 9 characters (6 letters, 2 digits, 1 sign), begins SE…]"}`; !strings.Contains(got, want) {
		t.Errorf("the approver sees %s, without %s", got, want)
	}
	if rec := s.lastRecord("decision"); !strings.Contains(rec, `"args":{"pass":"[SECRET_TEST]"}`) {
		t.Errorf("recorded %s", rec)
	}
	s.nowhere(secret)
}

// Where there is more to mask than a scanner can name, nobody is shown, and nothing keeps, a call of which the rest is
// gone unsaid.
func TestTooMuchToMaskIsSaid(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	args := `{"p":"` + strings.Repeat(secret+" ", 300) + `","to":"Mallory"}`
	text, err := s.do(req{key: agent, op: "authorize",
		body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":%s}`, args)})
	if err != nil || member(text, "effect") != "DEFER" {
		t.Fatalf("%v %s", err, text)
	}
	list, err := s.do(req{key: boss, op: "approvals_list"})
	if want := `"args":{"withheld":"too_many"},"args_withheld":{"cause":"too_many"}`; err != nil ||
		!strings.Contains(list, want) {
		t.Errorf("the approver sees %v %s", err, list)
	}
	if rec := s.lastRecord("decision"); !strings.Contains(rec, `"args_withheld":{"cause":"too_many"}`) ||
		strings.Contains(rec, `"args":`) {
		t.Errorf("recorded %s", rec)
	}
	a := s.action(submit(agent, "defer", args))
	if got := s.action(req{key: agent, op: "action_get", id: a.ID}); string(got.Params) != `{"withheld":"too_many"}` {
		t.Errorf("the action keeps %s", got.Params)
	}
	s.nowhere(secret)
}
