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

// newOutsideStage is a stage whose step is somebody else's code.
func newOutsideStage(t *testing.T) *stage {
	s := newStage(t)
	s.outside = true
	s.restart()
	return s
}

// What a step says may quote the call that it was asked about. No record, approver, action or answer has what the
// scanners find in it, nor the value of an API key, whatever surface asked.
func TestStepsWordsAreMasked(t *testing.T) {
	s := newOutsideStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	leaked, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "leaked", Preset: "agent"}, admin)
	if err != nil {
		t.Fatal(err)
	}
	quoting := func(c *chain.Call) string { return "cannot read token " + c.Args.Get("pass").Str() }
	says := map[string]func(*chain.Call) (sdk.Verdict, error){
		"a verdict": func(c *chain.Call) (sdk.Verdict, error) {
			v, err := toolName{}.Check(context.Background(), c)
			v.Reason, v.Message, v.RuleID = quoting(c), "told: "+quoting(c), "rule "+quoting(c)
			return v, err
		},
		"an error": func(c *chain.Call) (sdk.Verdict, error) { return sdk.Verdict{}, errors.New(quoting(c)) },
		"words": func(c *chain.Call) (sdk.Verdict, error) {
			return sdk.Verdict{}, &chain.Spoken{Err: errors.New("it failed"), Words: quoting(c)}
		},
		"an error with a verdict": func(c *chain.Call) (sdk.Verdict, error) {
			return sdk.Verdict{Effect: sdk.Defer, RuleID: quoting(c)}, errors.New(quoting(c))
		},
	}
	n := 0
	for name, fn := range says {
		s.verdict.Store(&fn)
		for _, pass := range []string{secret, leaked.Value} {
			for _, tool := range []string{"permit", "deny", "defer"} {
				n++
				for op, body := range map[string]string{
					"authorize":     `{"agent_id":"a","tool_id":%q,"args":{"pass":%q,"n":%d},"explain":true}`,
					"govern":        `{"agent_id":"a","tool_id":%q,"args":{"pass":%q,"n":%d},"explain":true}`,
					"gate_decide":   `{"agent_id":"a","tool":%q,"params":{"pass":%q,"n":%d}}`,
					"action_submit": `{"agent_id":"a","tool":%q,"params":{"pass":%q,"n":%d}}`,
				} {
					answer, err := s.do(req{key: agent, op: op, body: fmt.Sprintf(body, tool, pass, n)})
					if err != nil {
						t.Fatalf("%s, %s: %v", name, op, err)
					}
					if reason := member(answer, "reason"); strings.Contains(reason, pass) {
						t.Errorf("%s, %s of %s: the reason is %s", name, op, tool, reason)
					}
				}
			}
		}
	}
	for _, q := range []req{{key: boss, op: "approvals_list"}, {key: agent, op: "action_list"}} {
		if list, err := s.do(q); err != nil || strings.Contains(list, secret) || strings.Contains(list, leaked.Value) {
			t.Errorf("%s: %v %s", q.op, err, list)
		}
	}
	if rec := s.lastRecord("defer_created"); !strings.Contains(rec, "cannot read token [") {
		t.Errorf("recorded %s", rec)
	}
	s.nowhere(secret)
	s.nowhere(leaked.Value)
}

// While the scanners cannot say what is in a step's words, these are kept and shown nowhere; the decision stands.
func TestStepsWordsAreWithheldUnscanned(t *testing.T) {
	s := newOutsideStage(t)
	agent := s.key("agent", "agent")
	down := errors.New("the scanner is down")
	s.scan.Store(&down)
	for name, fn := range map[string]func(*chain.Call) (sdk.Verdict, error){
		"a verdict": func(*chain.Call) (sdk.Verdict, error) {
			return sdk.Verdict{Effect: sdk.Deny, Code: "D", Reason: secret, Message: secret}, nil
		},
		"an error": func(*chain.Call) (sdk.Verdict, error) { return sdk.Verdict{}, errors.New(secret) },
		"words": func(*chain.Call) (sdk.Verdict, error) {
			return sdk.Verdict{}, &chain.Spoken{Err: errors.New("it failed"), Words: secret}
		},
	} {
		s.verdict.Store(&fn)
		answer, err := s.do(req{key: agent, op: "authorize", body: `{"agent_id":"a","tool_id":"t","explain":true}`})
		if err != nil || member(answer, "effect") != "DENY" || strings.Contains(answer, secret) {
			t.Errorf("%s: %v %s", name, err, answer)
		}
		if rec := s.lastRecord("decision"); strings.Contains(rec, secret) ||
			!strings.Contains(rec, "withheld: it could not be masked (error of scanner stage)") {
			t.Errorf("%s: recorded %s", name, rec)
		}
	}
}

// What a scanner says of its failure may quote the text that it was given: the record of the scan does not.
func TestScannersWordsAreMasked(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	for name, err := range map[string]error{
		"an error": errors.New("no idea what " + secret + " is"),
		"words":    &chain.Spoken{Err: errors.New("it failed"), Words: "no idea what " + secret + " is"},
	} {
		s.stumbles.Store(&stumble{on: "stumble", err: err})
		for _, body := range []string{
			`{"agent_id":"a","tool_id":"t","output":"stumble over %s"}`,
			`{"agent_id":"a","tool_id":"t","stream_id":"` + strings.ReplaceAll(name, " ", "") +
				`","offset":0,"output":"stumble over %s","final":true}`,
		} {
			answer, err := s.do(req{key: agent, op: "scan_output", body: fmt.Sprintf(body, secret)})
			if err != nil || member(answer, "outcome") != "DENIED" || strings.Contains(answer, secret) {
				t.Errorf("%s: %v %s", name, err, answer)
			}
			if rec := s.lastRecord("scan"); strings.Contains(rec, secret) ||
				!strings.Contains(rec, "no idea what [SECRET_TEST] is") {
				t.Errorf("%s: recorded %s", name, rec)
			}
		}
	}
	s.nowhere(secret)
}

// A grant for one rule lifts no other one, also where the names of both read the same: while the scanners cannot say
// what is in them, or because what does not print was escaped.
func TestGrantsKnowRulesThatAreNotShown(t *testing.T) {
	for name, c := range map[string]struct {
		mine, other string
		asked, then bool // the scanners fail on the names when the grant is made, and when the others call
	}{
		"the scanners are down":           {mine: "the small", other: "the large", asked: true, then: true},
		"they were up when it was made":   {mine: "the small", other: "the large", then: true},
		"what does not print was escaped": {mine: "a\nb", other: `a\nb`},
		"the other way round":             {mine: `a\nb`, other: "a\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newOutsideStage(t)
			agent, boss := s.key("agent", "agent"), s.key("boss", "operator")
			rules := map[string]string{"mine": c.mine, "other": c.other}
			names := func(c *chain.Call) (sdk.Verdict, error) {
				return sdk.Verdict{Effect: sdk.Defer, Code: "D", RuleID: rules[c.Args.Get("rule").Str()]}, nil
			}
			s.verdict.Store(&names)
			n := 0
			ask := func(rule string, isDown bool) string {
				t.Helper()
				if s.stumbles.Store(nil); isDown { // on the names alone: what approvers are not shown whole, they give no grant for
					s.stumbles.Store(&stumble{on: "the ", err: errors.New("the scanner is down")})
				}
				n++
				answer, err := s.do(req{key: agent, op: "authorize",
					body: fmt.Sprintf(`{"agent_id":"a","tool_id":"t","args":{"rule":%q,"n":%d}}`, rule, n)})
				if err != nil {
					t.Fatal(err)
				}
				return answer
			}
			token := member(ask("mine", c.asked), "defer_token")
			if _, err := s.do(req{key: boss, op: "approve_defer",
				body: fmt.Sprintf(`{"defer_token":%q,"approved":true,"grant":{"ttl_seconds":60}}`, token)}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := ask("mine", c.then); member(got, "effect") != "PERMIT" {
					t.Errorf("its own rule: %s", got)
				}
				if got := ask("other", c.then); member(got, "effect") != "DEFER" {
					t.Errorf("another rule: %s", got)
				}
				s.restart()
				s.verdict.Store(&names)
			}
		})
	}
}
