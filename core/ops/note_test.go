package ops_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
)

// noted asks for a call with a note, and gives the answer.
func (s *stage) noted(key, op, tool, note, more string) string {
	s.t.Helper()
	text, err := s.do(req{key: key, op: op,
		body: fmt.Sprintf(`{"agent_id":"a","tool_id":%q,"args":{"n":1},"note":%q%s}`, tool, note, more)})
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// whole reads one call that waits, and the list's row of it.
func (s *stage) waiting(key, token string) (whole, listed string) {
	s.t.Helper()
	whole, err := s.do(req{key: key, op: "approval_get", body: fmt.Sprintf(`{"defer_token":%q}`, token)})
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := s.do(req{key: key, op: "approvals_list"})
	if err != nil {
		s.t.Fatal(err)
	}
	_, listed, _ = strings.Cut(list, token)
	return whole, listed
}

// has checks that a text has all of these parts.
func has(t *testing.T, where, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s is %s, without %s", where, text, p)
		}
	}
}

// The note of the request that began the wait is shown to approvers, whatever later requests say. Each record has the
// note of its own request. Another note is no other call: the digest, the token and the repeat stay the same.
func TestNoteIsShownAndRecorded(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	first := s.noted(agent, "authorize", "defer", "refund for the broken lamp", `,"call_id":"c1"`)
	token, record := member(first, "defer_token"), s.lastRecord("decision")
	if strings.Contains(first, "lamp") {
		t.Errorf("the answer is %s", first)
	}
	has(t, "the record", record, `"agent_note":"refund for the broken lamp"`)
	again := s.noted(agent, "govern", "defer", "another text", "")
	if member(again, "defer_token") != token {
		t.Errorf("another note makes another call: %s", again)
	}
	second := s.lastRecord("decision")
	has(t, "the second record", second, `"agent_note":"another text"`, `"joined":true`,
		`"digest":"`+member(record, "digest")+`"`)
	has(t, "the repeat", s.noted(agent, "authorize", "defer", "a third", `,"call_id":"c1"`), `"repeat":true`)
	check := func() {
		t.Helper()
		whole, listed := s.waiting(boss, token)
		has(t, "the call", whole, `"agent_note":"refund for the broken lamp"`)
		has(t, "the row", listed, `"agent_note":"refund for the broken lamp"`)
		if _, call, _ := strings.Cut(whole, `"call":{`); strings.Contains(strings.Split(call, `"digest"`)[0], "lamp") {
			t.Errorf("the note is in the call: %s", whole)
		}
	}
	check()
	s.restart()
	check()
	d, err := s.svc.Deferral(context.Background(), member(record, "decision_id"))
	if err != nil || d.Note.Text != "refund for the broken lamp" {
		t.Errorf("an operator sees %+v %v", d, err)
	}
	if _, err := s.do(req{key: boss, op: "approve_defer",
		body: fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"n":2}}`, token)}); err != nil {
		t.Fatal(err)
	}
	d, err = s.svc.Deferral(context.Background(), member(record, "decision_id"))
	if err != nil || d.Note.Text != "refund for the broken lamp" {
		t.Errorf("after a change of the args an operator sees %+v %v", d, err)
	}
	for _, tool := range []string{"permit", "deny"} {
		s.noted(agent, "authorize", tool, "for "+tool, "")
		has(t, "the record", s.lastRecord("decision"), `"agent_note":"for `+tool+`"`)
	}
	s.noted(agent, "authorize", "permit", "a try", `,"dry_run":true`)
	has(t, "the record", s.lastRecord("decision"), `"agent_note":"a try"`, `"dry_run":true`)
}

// A call without a note has none in its record, nor where it is shown, also when it is asked again with one.
func TestNoNote(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	token := member(s.noted(agent, "authorize", "defer", "", ""), "defer_token")
	if rec := s.lastRecord("decision"); strings.Contains(rec, "note") {
		t.Errorf("recorded %s", rec)
	}
	s.noted(agent, "authorize", "defer", "now it says something", "")
	if whole, listed := s.waiting(boss, token); strings.Contains(whole+listed, "note") {
		t.Errorf("shown as %s and %s", whole, listed)
	}
}

// An approval is redeemed by the same call with another note: with its token, and without it.
func TestRedeemWithAnotherNote(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	for _, by := range []string{"token", "auto"} {
		token := member(s.noted(agent, "authorize", "defer", "one", ""), "defer_token")
		if _, err := s.do(req{key: boss, op: "approve_defer",
			body: fmt.Sprintf(`{"defer_token":%q,"approved":true}`, token)}); err != nil {
			t.Fatal(err)
		}
		more := `,"redeem":"auto"`
		if by == "token" {
			more = fmt.Sprintf(`,"defer_token":%q`, token)
		}
		has(t, "the answer", s.noted(agent, "authorize", "defer", "two", more), `"effect":"PERMIT"`, `"APPROVAL_CONSUMED"`)
	}
}

// Secrets in a note are masked as those in args are, for records and for approvers, and so is an API key.
func TestNoteIsMasked(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	leaked, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "leaked", Preset: "agent"}, admin)
	if err != nil {
		t.Fatal(err)
	}
	token := member(s.noted(agent, "authorize", "defer", "log in with "+secret+" or "+leaked.Value, ""), "defer_token")
	has(t, "the record", s.lastRecord("decision"), `"agent_note":"log in with [SECRET_TEST] or [YETT_API_KEY]"`)
	whole, listed := s.waiting(boss, token)
	for _, shown := range []string{whole, listed} {
		has(t, "the note", shown, `"agent_note":"log in with [SECRET_TEST: 9 characters (6 letters, 2 digits, 1 sign), `+
			`begins SE…] or [YETT_API_KEY`)
	}
	down := errors.New("the scanner is down")
	s.scan.Store(&down)
	effect := member(s.noted(agent, "authorize", "defer/down", "it is "+secret, ""), "effect")
	record := s.lastRecord("decision")
	has(t, "the record", record, `"agent_note_withheld":{"cause":"error","scanner":"stage"}`)
	whole, listed = s.waiting(boss, member(record, "defer_token"))
	for _, shown := range []string{whole, listed} {
		has(t, "the note", shown, `"agent_note_withheld":{"cause":"error","scanner":"stage"}`)
	}
	if effect != "DEFER" || strings.Contains(record+whole+listed, `"agent_note":`) {
		t.Errorf("a broken scanner gives %s, %s, %s", effect, record, whole)
	}
	s.nowhere(secret)
	s.nowhere(leaked.Value)
}

// A note is recorded as the audit policy keeps args; approvers see it masked whatever the policy.
func TestNoteFollowsTheAuditPolicy(t *testing.T) {
	for policy, want := range map[string]string{"digest": "", "redacted": "it is [SECRET_TEST]",
		"full": "it is " + secret} {
		s := newStage(t)
		s.args = policy
		s.restart()
		agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
		token := member(s.noted(agent, "authorize", "defer", "it is "+secret, ""), "defer_token")
		if got := member(s.lastRecord("decision"), "agent_note"); got != want {
			t.Errorf("%s: recorded %q, want %q", policy, got, want)
		}
		whole, _ := s.waiting(boss, token)
		has(t, policy, whole, `"agent_note":"it is [SECRET_TEST: 9 characters`)
		leaked, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "leaked"}, admin)
		if err != nil {
			t.Fatal(err)
		}
		s.noted(agent, "authorize", "permit", "it is "+leaked.Value, "")
		s.nowhere(leaked.Value)
	}
}

// A note that is too long is refused by name and limit, over every operation that takes one.
func TestNoteIsBounded(t *testing.T) {
	s := newMaskingStage(t)
	agent := s.key("agent", "agent")
	for _, op := range []string{"authorize", "govern"} {
		s.noted(agent, op, "permit", strings.Repeat("é", 512), "")
		_, err := s.do(req{key: agent, op: op,
			body: `{"agent_id":"a","tool_id":"permit","note":"` + strings.Repeat("é", 512) + `x"}`})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.CodeInvalidField || e.Field != "note" ||
			e.Msg != "note is 1025 bytes long, more than the limit of 1024" {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// No step of the chain gets the note: neither what it is asked about, nor what it masks of args.
func TestNoteIsNotDecidedOn(t *testing.T) {
	s := newMaskingStage(t)
	agent := s.key("agent", "agent")
	fn := func(c *chain.Call) (sdk.Verdict, error) {
		if text := fmt.Sprintf("%+v %s %s", *c, c.Args.Raw(), c.Context.Raw()); strings.Contains(text, "xyzzy") {
			t.Errorf("the chain sees %s", text)
		}
		return sdk.Verdict{Effect: sdk.Permit, Code: "X"}, nil
	}
	s.verdict.Store(&fn)
	s.noted(agent, "authorize", "permit", "xyzzy", "")
	s.noted(agent, "govern", "permit", "xyzzy", "")
	has(t, "the record", s.lastRecord("decision"), "xyzzy")
}

// A list of calls with long notes ends its page in time: what a note takes when it is escaped counts.
func TestNotesCountInAPage(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	note := strings.Repeat(`\u0001`, 1024)
	for i := range 200 {
		if _, err := s.do(req{key: agent, op: "authorize",
			body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":%d},"note":"%s"}`, i, note)}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.do(req{key: boss, op: "approvals_list", query: [][2]string{{"limit", "1000"}}})
	if err != nil || len(list) > 1<<20 || !strings.Contains(list, `"next_cursor"`) {
		t.Errorf("%v: a page of %d bytes", err, len(list))
	}
}

// Without any scanner, approvers see a note as it is and the log keeps none of it, as with args; an API key is in
// neither.
func TestNoteWithoutScanners(t *testing.T) {
	b := newBench(t, nil)
	b.gen.Args, b.gen.Scan.Steps = "redacted", nil
	agent, boss := b.newKey("agent", "agent"), b.newKey("boss", "approver")
	for note, want := range map[string]string{
		"it is needed":         `"agent_note":"it is needed"`,
		"take " + agent.Value:  `"agent_note_withheld":{"cause":"api_key"}`,
		"take\n" + agent.Value: `"agent_note_withheld":{"cause":"api_key"}`,
	} {
		text, err := b.run(agent.Value, "authorize", fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":%d},"note":%q}`,
			len(note)*len(want), note))
		if err != nil {
			t.Fatal(err)
		}
		shown, err := b.run(boss.Value, "approval_get", fmt.Sprintf(`{"defer_token":%q}`, member(text, "defer_token")))
		if err != nil || !strings.Contains(shown, want) || strings.Contains(shown, agent.Value) {
			t.Errorf("%v: shown as %s, without %s", err, shown, want)
		}
	}
	n := 0
	err := b.store.Records(1, func(_ uint64, rec []byte) error {
		if strings.Contains(string(rec), `"type":"decision"`) {
			n++
			has(t, "the record", string(rec), `"agent_note_withheld":{"cause":"no_scanner"}`)
		}
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("%v, %d records", err, n)
	}
}
