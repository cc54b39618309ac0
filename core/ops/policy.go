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
	policyCompiles = 1  // policies compiled at once: one processor is left to decisions
	policyBytes    = 64 << 10
)

// compiles counts the policies that are being compiled, so that their senders cannot take the machine from decisions.
type compiles struct{ n atomic.Int32 }

// compile gives the chain of a policy that a client sent: nothing of it is kept or put in force.
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
		return nil, "", sdk.FieldErrf(sdk.CodeInvalidField, "policy", "policy must be the text of a rules file or an object, not %v", v.Kind())
	}
	if len(text) > policyBytes {
		return nil, "", sdk.FieldErrf(sdk.CodeTooLarge, "policy", "policy is %d bytes long, more than the limit of %d; yett rules test takes larger ones", len(text), policyBytes)
	}
	if s.compiles.n.Add(1) > policyCompiles {
		s.compiles.n.Add(-1)
		return nil, "", sdk.Errf(sdk.CodeTooManyRequests, "%d policies are being compiled already; ask again in a second", policyCompiles)
	}
	defer s.compiles.n.Add(-1)
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

// once answers an operation that changes nothing, and the same again to the same Idempotency-Key and body.
func (s *Service) once(r *Request, operation string, fn func() (Response, error)) (Response, error) {
	if err := noKeys(r.Idempotency); err != nil {
		return nil, err
	}
	idem := idempotency(r, operation)
	if idem == nil {
		return fn()
	}
	if err := s.set.Store.Commit(r.Ctx, &store.AnswerOnce{Key: r.Key, Idem: idem}); err != nil {
		return nil, err
	}
	if idem.Replay != nil {
		return nil, &Replay{idem.Replay}
	}
	resp, err := fn()
	if err != nil {
		return nil, err
	}
	if err := s.set.Store.Commit(r.Ctx, &store.AnswerOnce{Key: r.Key, Idem: idem, Answer: resp.AppendJSON(nil)}); err != nil {
		return nil, err
	}
	if idem.Replay != nil { // another request with the key was faster
		return nil, &Replay{idem.Replay}
	}
	return resp, nil
}

// PolicyValidate says whether a list of rules compiles.
func (s *Service) PolicyValidate(r *Request, in *wire.PolicyValidateRequest) (*wire.PolicyValidateResponse, error) {
	resp, err := s.once(r, "policy_validate", func() (Response, error) {
		_, hash, err := s.compile(in.Policy)
		if err != nil {
			return nil, err
		}
		return &wire.PolicyValidateResponse{Valid: true, PolicyHash: hash}, nil
	})
	if err != nil {
		return nil, err
	}
	return resp.(*wire.PolicyValidateResponse), nil
}

// PolicyTest says what a list of rules would make of an action. Nothing is recorded, spent or changed, and no limit is
// looked at.
func (s *Service) PolicyTest(r *Request, in *wire.PolicyTestRequest) (*wire.PolicyTestResponse, error) {
	resp, err := s.once(r, "policy_test", func() (Response, error) { return s.policyTest(r, in) })
	if err != nil {
		return nil, err
	}
	return resp.(*wire.PolicyTestResponse), nil
}

func (s *Service) policyTest(r *Request, in *wire.PolicyTestRequest) (*wire.PolicyTestResponse, error) {
	var act wire.ActionRequest
	if err := wire.Decode(in.Action, &act, s.set.NameBytes); err != nil {
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
	call := &chain.Call{KeyID: r.Key.ID, KeyName: r.Key.Name, AgentID: act.AgentID, SessionID: act.SessionID, ToolID: wire.ToolOf(act.Tool, act.Operation), Operation: act.Operation,
		Args: act.Params, Context: act.Context, Now: r.Start}
	_, call.Digest = digest(nil, call)
	v := a.Run(r.Ctx, call, nil).Verdict
	out := &wire.PolicyTestResponse{Valid: true, Effect: v.Effect.String(), ReasonCode: v.Code, Reason: v.Reason, RuleID: v.RuleID, RiskLevel: store.RiskOf(&v, v.Effect), RequestHash: request, PolicyHash: hash}
	out.Outcome, out.Decision = wire.OutcomeOf(out.Effect)
	return out, nil
}

// PolicyInfo says which rules are in force.
func (s *Service) PolicyInfo(*Request, *wire.PolicyInfoRequest) (*wire.PolicyInfoResponse, error) {
	policy := s.set.Generation().Policy
	return &wire.PolicyInfoResponse{PolicyVersion: policy, PolicyHash: policy, RuntimeVersion: s.set.Version}, nil
}
