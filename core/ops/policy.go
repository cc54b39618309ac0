package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// PolicyFault is one thing wrong with a policy text. Line and Column count from 1; 0 says nothing.
type PolicyFault struct {
	Line, Column int
	Msg          string
}

// PolicyError is what Settings.Policy says of a text that does not compile.
type PolicyError struct{ Faults []PolicyFault }

// Error names the first faults.
func (e *PolicyError) Error() string {
	out := ""
	for i, f := range e.Faults {
		if i == policyFaults {
			return out + fmt.Sprintf("; and %d more", len(e.Faults)-i)
		}
		if i > 0 {
			out += "; "
		}
		if f.Line > 0 {
			out += fmt.Sprintf("line %d, column %d: ", f.Line, f.Column)
		}
		out += f.Msg
	}
	return out
}

// Limits of what is compiled for clients.
const (
	policyFaults   = 10 // faults that an error names
	policyCompiles = 1  // policies compiled or evaluated at once: one processor is left to decisions
	policyBytes    = 64 << 10
)

// compiles counts the policies that are being compiled or evaluated, so that their senders cannot take the machine from
// decisions.
type compiles struct{ n atomic.Int32 }

// enter takes a place for compiling and evaluating one policy, which leave gives back.
func (c *compiles) enter() error {
	if c.n.Add(1) > policyCompiles {
		c.leave()
		return sdk.Errf(sdk.CodeTooManyRequests, "%d policies are being compiled or tested already; ask again in a second",
			policyCompiles)
	}
	return nil
}

func (c *compiles) leave() { c.n.Add(-1) }

// compile gives the chain of a policy that a client sent: nothing of it is kept or put in force. The caller has entered
// s.compiles.
func (s *Service) compile(v exact.Value) (*chain.Authorizer, string, error) {
	if s.set.Policy == nil {
		return nil, "", &sdk.Error{Code: sdk.CodeInternal, Op: "compile policy", Err: errors.New("there is no compiler")}
	}
	text := ""
	switch v.Kind() {
	case exact.String:
		text = v.Str()
	case exact.Object:
		text = v.Raw() // JSON is YAML too
	default:
		return nil, "", sdk.FieldErrf(sdk.CodeInvalidField, "policy",
			"policy must be the text of a rules file or an object, not %v", v.Kind())
	}
	if len(text) > policyBytes {
		return nil, "", sdk.FieldErrf(sdk.CodeTooLarge, "policy",
			"policy is %d bytes long, more than the limit of %d; yett rules test takes larger ones", len(text), policyBytes)
	}
	a, err := s.set.Policy(text)
	if err != nil {
		return nil, "", invalidPolicy(err)
	}
	sum := sha256.Sum256([]byte(text))
	return a, hex.EncodeToString(sum[:]), nil
}

func invalidPolicy(err error) error {
	var p *PolicyError
	if !errors.As(err, &p) || len(p.Faults) == 0 {
		return &sdk.Error{Code: sdk.CodeInternal, Op: "compile policy", Err: err}
	}
	out := &sdk.Error{Code: sdk.CodeInvalidPolicy, Field: "policy", Msg: p.Error()}
	if f := p.Faults[0]; f.Line > 0 {
		out.More = map[string]string{"line": strconv.Itoa(f.Line), "column": strconv.Itoa(f.Column)}
	}
	return out
}

// once answers an operation that changes nothing. Another body under the same Idempotency-Key is refused; the same body
// is answered anew, since an answer may repeat what the policy and the action hold, and none of that is kept.
func once[Resp any](s *Service, r *Request, operation string, fn func() (Resp, error)) (resp Resp, err error) {
	if err := noKeys(r.Idempotency); err != nil {
		return resp, err
	}
	idem := idempotency(r, operation)
	if idem != nil {
		if err := s.commit(r, &store.AnswerOnce{Key: r.Key, Idem: idem}); err != nil {
			return resp, err
		}
	}
	if err := s.compiles.enter(); err != nil {
		return resp, err
	}
	out, err := fn()
	s.compiles.leave()
	if err != nil || idem == nil || idem.Replay != nil {
		return out, err
	}
	if err := s.commit(r, &store.AnswerOnce{Key: r.Key, Idem: idem, Answer: []byte("{}")}); err != nil {
		return resp, err // such as another body that was faster
	}
	return out, nil
}

// PolicyValidate says whether a list of rules compiles.
func (s *Service) PolicyValidate(r *Request, in *wire.PolicyValidateRequest) (*wire.PolicyValidateResponse, error) {
	return once(s, r, "policy_validate", func() (*wire.PolicyValidateResponse, error) {
		_, hash, err := s.compile(in.Policy)
		if err != nil {
			return nil, err
		}
		return &wire.PolicyValidateResponse{Valid: true, PolicyHash: hash}, nil
	})
}

// PolicyTest says what a list of rules would make of an action. Nothing is recorded, spent or changed, and no limit is
// looked at.
func (s *Service) PolicyTest(r *Request, in *wire.PolicyTestRequest) (*wire.PolicyTestResponse, error) {
	return once(s, r, "policy_test", func() (*wire.PolicyTestResponse, error) { return s.policyTest(r, in) })
}

func (s *Service) policyTest(r *Request, in *wire.PolicyTestRequest) (*wire.PolicyTestResponse, error) {
	var act wire.ActionRequest
	if err := wire.Decode(in.Action, &act, s.set.Limits.Name); err != nil {
		var e *sdk.Error
		if errors.As(err, &e) && e.Field != "" {
			within := *e
			within.Field = "action." + e.Field
			return nil, &within
		}
		return nil, err
	}
	request, err := wire.RequestHash(act.AgentID, act.Tool, act.Operation, act.Params, act.Context)
	if err != nil {
		return nil, err
	}
	a, hash, err := s.compile(in.Policy)
	if err != nil {
		return nil, err
	}
	call := &chain.Call{KeyID: r.Key.ID, KeyName: r.Key.Name, AgentID: act.AgentID, SessionID: act.SessionID,
		ToolID:    wire.ToolOf(act.Tool, act.Operation),
		Operation: wire.OperationOf(wire.ToolOf(act.Tool, act.Operation), act.Operation),
		Args:      act.Params, Context: act.Context, Now: r.Start}
	_, call.Digest = digest(nil, call)
	v := a.Run(r.Ctx, call, nil).Verdict
	out := &wire.PolicyTestResponse{Valid: true, Effect: v.Effect.String(), ReasonCode: v.Code, Reason: v.Reason,
		RuleID: v.RuleID, RiskLevel: store.RiskOf(&v, v.Effect), RequestHash: request, PolicyHash: hash}
	out.Outcome, out.Decision = wire.OutcomeOf(out.Effect)
	return out, nil
}

// PolicyInfo says which rules are in force.
func (s *Service) PolicyInfo(*Request, *wire.PolicyInfoRequest) (*wire.PolicyInfoResponse, error) {
	policy := s.set.Generation().Policy
	return &wire.PolicyInfoResponse{PolicyVersion: policy, PolicyHash: policy, RuntimeVersion: s.set.Version}, nil
}
