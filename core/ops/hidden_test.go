package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// TestMaskedLater: what could not be masked when a call was asked for is shown as soon as it is asked again and can be,
// however it is asked again. It stays the same call: what was signed stands, and its digest is the same.
func TestMaskedLater(t *testing.T) {
	down := errors.New("the scanner is down")
	withCallID := func(agent string) req {
		return req{key: agent, op: "authorize", body: `{"agent_id":"a","tool_id":"defer","args":{"n":1,"s":"plain"},"context":{"c":"plain"},"call_id":"one"}`}
	}
	plain := func(agent string) req {
		return req{key: agent, op: "authorize", body: `{"agent_id":"a","tool_id":"defer","args":{"n":1,"s":"plain"},"context":{"c":"plain"}}`}
	}
	keyed := func(agent string) req {
		q := plain(agent)
		q.idem = "once"
		return q
	}
	action := func(agent string) req {
		return req{key: agent, op: "action_submit",
			body: `{"agent_id":"a","tool":"defer","operation":"","params":{"n":1,"s":"plain"},"context":{"c":"plain"}}`}
	}
	for _, c := range []struct {
		name          string
		first, second func(agent string) req
	}{
		{"joined", plain, plain}, {"the same call_id", withCallID, withCallID}, {"the same Idempotency-Key", keyed, keyed}, {"an action joins", plain, action},
		{"an action is joined", action, plain}, {"the same action", action, action},
	} {
		for _, granted := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, granted), func(t *testing.T) {
				s := newMaskingStage(t)
				s.says(sdk.Verdict{Effect: sdk.Defer, Code: "RULE_DEFER", Approvals: 2, RuleID: "two"})
				agent, boss, second := s.key("agent", "agent"), s.key("boss", "operator"), s.key("second", "operator")
				must := func(q req) string {
					t.Helper()
					text, err := s.do(q)
					if err != nil {
						t.Fatalf("%s %s: %v", q.op, q.body, err)
					}
					return text
				}
				s.scan.Store(&down)
				asked := must(c.first(agent))
				if granted { // of one issuer, so that it does not permit the call
					must(req{key: boss, op: "standing_grant_add", body: `{"agent_id":"a","tool_pattern":"**","ttl_seconds":60}`})
				}
				token := ""
				look := func(shown bool) (digest string) {
					t.Helper()
					list := must(req{key: boss, op: "approvals_list"})
					_, token, _ = strings.Cut(list, `"defer_token":"`)
					token, _, _ = strings.Cut(token, `"`)
					one := must(req{key: boss, op: "approval_get", body: fmt.Sprintf(`{"defer_token":%q}`, token)})
					texts := []string{list, one}
					if id := member(asked, "id"); strings.HasPrefix(id, "act_") {
						texts = append(texts, must(req{key: boss, op: "action_get", id: id}), must(req{key: boss, op: "action_list"}))
					}
					for _, text := range texts {
						if strings.Contains(text, `withheld`) == shown || strings.Contains(text, `{"n":1,"s":"plain"}`) != shown ||
							strings.Contains(text, `{"c":"plain"}`) != shown {
							t.Errorf("shown %v: %s", shown, text)
						}
					}
					return member(one, "digest")
				}
				digest := look(false)
				yes := func(key, more string) req {
					return req{key: key, op: "approve_defer",
						body: fmt.Sprintf(`{"defer_token":%q,"approved":true,"digest":%q%s}`, token, digest, more)}
				}
				const standing = `,"grant":{"ttl_seconds":60}`
				if why := s.refused(yes(boss, standing), sdk.CodeInvalidField); !strings.Contains(why,
					"args (error, scanner stage) and context (error, scanner stage) could not be masked") {
					t.Errorf("a grant for what is not shown: %s", why)
				}
				must(yes(boss, ""))
				must(c.second(agent))
				look(false) // the scanner is down still
				s.scan.Store(nil)
				must(c.second(agent))
				if got := look(true); got != digest {
					t.Errorf("the digest was %s and is %s", digest, got)
				}
				s.restart()
				s.scan.Store(&down)
				must(plain(agent))
				if got := look(true); got != digest {
					t.Errorf("the digest was %s and is %s", digest, got)
				}
				if got := member(must(yes(second, standing)), "status"); got != "approved" {
					t.Errorf("signed by both, it is %s", got)
				}
				if id := member(asked, "id"); strings.HasPrefix(id, "act_") {
					s.scan.Store(nil)
					if a := s.action(req{key: agent, op: "action_get", id: id}); string(a.Params) != `{"n":1,"s":"plain"}` {
						t.Errorf("approved, the action has %s", a.Params)
					}
				}
			})
		}
	}
}

// TestMaskedInPart: what is shown is never less than before, and of a call with other arguments nothing of before comes
// back.
func TestMaskedInPart(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	down := errors.New("the scanner is down")
	ask := func(on string) string {
		t.Helper()
		s.stumbles.Store(nil)
		if on != "" {
			s.stumbles.Store(&stumble{on: on, err: down})
		}
		text, err := s.do(req{key: agent, op: "authorize",
			body: `{"agent_id":"a","tool_id":"defer","args":{"s":"inargs"},"context":{"s":"incontext"}}`})
		if err != nil {
			t.Fatal(err)
		}
		return member(text, "defer_token")
	}
	var token string
	shows := func(args, context bool) {
		t.Helper()
		text, err := s.do(req{key: boss, op: "approval_get", body: fmt.Sprintf(`{"defer_token":%q}`, token)})
		if err != nil || strings.Contains(text, "inargs") != args || strings.Contains(text, "incontext") != context {
			t.Errorf("want args %v, context %v: %v %s", args, context, err, text)
		}
	}
	token = ask(`"in`)
	shows(false, false)
	ask("inargs")
	shows(false, true)
	ask("incontext")
	shows(false, true)
	ask(`"in`)
	shows(false, true)
	must := func(more string) {
		t.Helper()
		if _, err := s.do(req{key: boss, op: "approve_defer",
			body: fmt.Sprintf(`{"defer_token":%q,"approved":true%s}`, token, more)}); err != nil {
			t.Fatal(err)
		}
	}
	s.stumbles.Store(nil)
	s.says(sdk.Verdict{Effect: sdk.Defer, Code: "RULE_DEFER", Approvals: 2})
	must(`,"modified_args":{"other":1},"grant":{"ttl_seconds":60}`) // who changes them has seen them
	if got := ask(""); got != token {
		t.Fatal("it is another call")
	}
	shows(false, true)
}

// TestStartedActionKeepsWhatIsShown: once it is started, an action keeps what approvers were shown of it.
func TestStartedActionKeepsWhatIsShown(t *testing.T) {
	s := newMaskingStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
	down := errors.New("the scanner is down")
	s.scan.Store(&down)
	submitted := submit(agent, "defer", `{"s":"plain"}`)
	a := s.action(submitted)
	s.scan.Store(nil)
	if again := s.action(submitted); again.ID != a.ID {
		t.Fatalf("it is another action: %s", again.ID)
	}
	s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
	s.action(req{key: agent, op: "action_start", id: a.ID})
	s.restart()
	text, err := s.do(req{key: boss, op: "action_get", id: a.ID})
	if err != nil || member(text, "status") != "executing" || !strings.Contains(text, `"params":{"s":"plain"}`) ||
		strings.Contains(text, "withheld") {
		t.Errorf("%v %s", err, text)
	}
}
