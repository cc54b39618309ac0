package ops_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

func policyStage(t *testing.T) (s *stage, texts *[]string) {
	s, texts = newStage(t), new([]string)
	s.policy = func(text string) (*chain.Authorizer, error) {
		*texts = append(*texts, text)
		switch {
		case strings.Contains(text, "bad"):
			return nil, &ops.PolicyError{Faults: []ops.PolicyFault{{Line: 3, Column: 7, Msg: "no such effect"},
				{Line: 9, Column: 1, Msg: "id: missing"}}}
		case strings.Contains(text, "crash"):
			return nil, errors.New("the compiler has a fault")
		}
		return &chain.Authorizer{Budget: 1 << 40, Now: s.clock, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "t", Inline: true, OnError: sdk.Deny, Checker: toolName{}}}}, nil
	}
	return s, texts
}

func TestPolicyValidate(t *testing.T) {
	s, texts := policyStage(t)
	agent, auditor, boss := s.key("agent", "agent"), s.key("auditor", "auditor"), s.key("boss", "approver")
	for _, b := range []string{`{"policy":"rules: []\n"}`, `{"policy":{"rules":[ ]}}`} {
		for _, key := range []string{agent, auditor} {
			if text, err := s.do(req{key: key, op: "policy_validate", body: b}); err != nil ||
				!strings.HasPrefix(text, `{"valid":true,"policy_hash":"`) {
				t.Errorf("%s: %v %s", b, err, text)
			}
		}
	}
	if strings.Join(*texts, "|") != "rules: []\n|rules: []\n|"+`{"rules":[ ]}|{"rules":[ ]}` {
		t.Errorf("compiled %q", *texts)
	}
	for _, c := range []struct {
		key, body string
		want      sdk.Code
	}{{boss, `{"policy":""}`, sdk.CodeMissingScope}, {agent, `{}`, sdk.CodeMissingField},
		{agent, `{"policy":7}`, sdk.CodeInvalidField}, {agent, `{"policy":"crash"}`, sdk.CodeInternal}} {
		s.refused(req{key: c.key, op: "policy_validate", body: c.body}, c.want)
	}
	_, err := s.do(req{key: agent, op: "policy_validate", body: `{"policy":"bad"}`})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.CodeInvalidPolicy || e.Field != "policy" || e.More["line"] != "3" ||
		e.More["column"] != "7" || e.Msg != "line 3, column 7: no such effect; line 9, column 1: id: missing" {
		t.Errorf("a bad policy: %#v", err)
	}
	for range 2 {
		if text, err := s.do(req{key: agent, op: "policy_validate", body: `{"policy":"rules: []"}`, idem: "v"}); err != nil ||
			!strings.Contains(text, `"valid":true`) {
			t.Errorf("%v %s", err, text)
		}
	}
	s.refused(req{key: agent, op: "policy_validate", body: `{"policy":"rules: [] "}`, idem: "v"},
		sdk.CodeIdempotencyReused)
}

func TestPolicyTest(t *testing.T) {
	s, _ := policyStage(t)
	agent := s.key("agent", "agent")
	before := s.store.Seq()
	for _, c := range []struct{ tool, effect, outcome, decision, risk string }{{"permit", "PERMIT", "EXECUTE", "allow",
		"low"}, {"defer", "DEFER", "ABSTAIN", "require_approval", "medium"}, {"x", "DENY", "HALT", "deny", "high"}} {
		text, err := s.do(req{key: agent, op: "policy_test",
			body: `{"policy":"ok","action":{"agent_id":"someone","tool":"` + c.tool + `","params":{}}}`})
		if err != nil || member(text, "effect") != c.effect || member(text, "outcome") != c.outcome ||
			member(text, "decision") != c.decision || member(text, "risk_level") != c.risk {
			t.Errorf("%s: %v %s", c.tool, err, text)
		}
	}
	if s.store.Seq() != before {
		t.Error("a test of a policy is recorded")
	}
	_, err := s.do(req{key: agent, op: "policy_test", body: `{"policy":"ok","action":{"tool":"x"}}`})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Field != "action.agent_id" {
		t.Errorf("an action without agent_id: %#v", err)
	}
	s.refused(req{key: agent, op: "policy_test", body: `{"policy":"bad","action":{"agent_id":"a","tool":"x"}}`},
		sdk.CodeInvalidPolicy)
	s.refused(req{key: agent, op: "policy_test", body: `{"policy":"ok"}`}, sdk.CodeMissingField)
}

func TestPolicyInfo(t *testing.T) {
	s, _ := policyStage(t)
	text, err := s.do(req{key: s.key("boss", "approver"), op: "policy_info"})
	if want := `{"policy_version":"policy-1","policy_hash":"policy-1","runtime_version":"9.9","profile_id":null,"profile_version":null,"profile_hash":null}`; err != nil || text != want {
		t.Errorf("%v %s", err, text)
	}
}

// A policy and an action are the sender's own words, and so is the reason that a rule gives: none of it is written, not
// even where a repeat is remembered.
func TestPolicyTestWritesNothingOfWhatItIsSent(t *testing.T) {
	s, _ := policyStage(t)
	agent := s.key("agent", "agent")
	other, err := s.svc.CreateKey(t.Context(), ops.KeySpec{Name: "other", Preset: "agent"},
		store.Who{Principal: "admin:0"})
	if err != nil {
		t.Fatal(err)
	}
	secret := "gh" + "p_" + strings.Repeat("Ab3", 12)
	compile := s.policy
	s.policy = func(text string) (*chain.Authorizer, error) {
		a, err := compile(text)
		if err == nil {
			a.Steps[0].Checker = says(text)
		}
		return a, err
	}
	body := func(word string) string {
		return `{"policy":"` + word + `","action":{"agent_id":"a","tool":"x","params":{"t":"` + word + `"}}}`
	}
	for _, word := range []string{other.Value, secret} {
		for range 2 {
			text, err := s.do(req{key: agent, op: "policy_test", idem: "k" + word[:3], body: body(word)})
			if err != nil || member(text, "reason") != word {
				t.Fatalf("%v %s", err, text)
			}
		}
		s.refused(req{key: agent, op: "policy_test", idem: "k" + word[:3], body: body("else")}, sdk.CodeIdempotencyReused)
	}
	s.close()
	err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, word := range []string{other.Value, secret} {
			if bytes.Contains(data, []byte(word)) {
				t.Errorf("%s holds what was sent: %.6s…", filepath.Base(path), word)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s.open()
}

// says denies with that reason.
type says string

func (s says) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	return sdk.Verdict{Effect: sdk.Deny, Code: "NO", Reason: string(s)}, nil
}

// Evaluation takes the place that compilation does.
func TestOnePolicyIsEvaluatedAtOnce(t *testing.T) {
	s, _ := policyStage(t)
	agent := s.key("agent", "agent")
	inside, leave := make(chan struct{}), make(chan struct{})
	compile := s.policy
	s.policy = func(text string) (*chain.Authorizer, error) {
		a, err := compile(text)
		if text == "slow" {
			a.Steps[0].Checker = waits{inside, leave}
		}
		return a, err
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.do(req{key: agent, op: "policy_test",
			body: `{"policy":"slow","action":{"agent_id":"a","tool":"permit"}}`})
		done <- err
	}()
	<-inside
	s.refused(req{key: agent, op: "policy_test", body: `{"policy":"ok","action":{"agent_id":"a","tool":"permit"}}`},
		sdk.CodeTooManyRequests)
	s.refused(req{key: agent, op: "policy_validate", body: `{"policy":"ok"}`}, sdk.CodeTooManyRequests)
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := s.do(req{key: agent, op: "policy_validate", body: `{"policy":"ok"}`}); err != nil {
		t.Error(err)
	}
}

type waits struct{ inside, leave chan struct{} }

func (w waits) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	close(w.inside)
	<-w.leave
	return sdk.Verdict{Effect: sdk.Permit}, nil
}
