package ops

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// SubmitAction decides a call and makes an action of it.
func (s *Service) SubmitAction(r *Request, in *wire.ActionRequest) (*wire.Action, error) {
	if err := actsAs(r.Key, in.AgentID); err != nil {
		return nil, err
	}
	if err := noKeys(r.Idempotency, in.AgentID, in.Tool, in.Operation, in.SessionID); err != nil {
		return nil, err
	}
	if err := notDry(in); err != nil {
		return nil, err
	}
	hash, err := wire.RequestHash(in.AgentID, in.Tool, in.Operation, in.Params, in.Context)
	if err != nil {
		return nil, err
	}
	raw := rawCall{params: compact(in.Params), context: compact(in.Context)}
	n := &store.NewAction{Action: store.ActionRow{ID: s.ids.id("act_"), Tool: in.Tool, Operation: in.Operation,
		RequestHash: hash, RuntimeVersion: s.set.Version}}
	s.keepCall(r, in, raw, n)
	r.End()
	if r.Idempotency != "" {
		h := hash16("action_submit", r.Key.ID, "idempotency-key", r.Idempotency)
		n.Idem = &h
	}
	d, err := s.decide(unnamed(r), &ask{AgentID: in.AgentID, ToolID: in.Tool, Operation: in.Operation,
		SessionID: in.SessionID, CallID: n.Action.ID, Args: in.Params, Context: in.Context, Action: n}, false)
	if err != nil {
		return nil, err
	}
	if n.Out.Status != store.ActionDenied && (n.Out.ParamsMasked || n.Out.ContextMasked) {
		s.raws.put(n.Out.ID, raw, r.Start, rawUntil(&n.Out, r.Start))
	}
	out := s.shown(&n.Out, n.Out.KeyID == r.Key.ID)
	out.Repeat = n.Twin
	out.Context, out.ContextWithheld = []byte(raw.context), nil // what was sent goes back to who sent it
	out.RequestHash, out.ProvenanceID = hash, wire.ProvenanceID(hash, n.Out.Policy, "", n.Out.RuntimeVersion)
	if !n.Out.Modified {
		out.Params, out.ParamsWithheld = []byte(raw.params), nil
	}
	if n.Out.Status == store.ActionDenied {
		out.ReasonDetails.Retry = d.Retry
	}
	return out, nil
}

// notDry refuses a dry run of what is recorded and charged: whoever asks for one must not get the other.
func notDry(in *wire.ActionRequest) error {
	if in.DryRun {
		return sdk.FieldErrf(sdk.CodeInvalidField, "dry_run",
			"dry_run does not go with an action; ask POST /v1/evaluate or /v1/authorize with dry_run instead")
	}
	return nil
}

// unnamed is the request without its Idempotency-Key, for operations that look after it themselves.
func unnamed(r *Request) *Request {
	out := *r
	out.Idempotency = ""
	return &out
}

// compact is an object as it was sent, without the space between its parts. Nothing and null are an empty object.
func compact(v exact.Value) string {
	if v.Kind() != exact.Object {
		return "{}"
	}
	return tight(v.Raw())
}

// keepCall fills in what of params and context is kept. What cannot be masked is withheld: what is done then depends on
// what is held in memory, and the decision does not.
func (s *Service) keepCall(r *Request, in *wire.ActionRequest, raw rawCall, n *store.NewAction) {
	gen := s.pin()
	defer gen.unpin()
	m := &masking{s: s, ctx: r.Ctx, gen: gen, call: &chain.Call{KeyID: r.Key.ID, AgentID: in.AgentID,
		ToolID: wire.ToolOf(in.Tool, in.Operation)}, turn: r.turn}
	a := &n.Action
	a.Params, a.ParamsWithheld = m.keepText(raw.params)
	a.Context, a.ContextWithheld = m.keepText(raw.context)
	a.ParamsMasked, a.ContextMasked = a.Params != raw.params, a.Context != raw.context
	if a.ParamsMasked || a.ContextMasked || gen.Args == "digest" {
		// a plain hash would let who sees the rest try out what is masked, or what the log is not to have
		a.RequestHash = s.set.Store.CallDigest(sha256.Sum256([]byte("request_hash\x00" + a.RequestHash)))
	}
}

// keepText is a JSON object as it may be kept and shown to approvers: without what the scanners find in it, and never
// with the value of an API key. Without any scanner it is kept as it is, as approvers see it then too.
func (m *masking) keepText(text string) (kept string, why *wire.Withheld) {
	if text == "{}" {
		return text, nil
	}
	out, err := m.of([]byte(text))
	switch {
	case errors.Is(err, chain.ErrNoScanner):
		kept, err = text, nil
	case err == nil:
		kept, err = out.Shown()
	}
	var doc exact.Doc
	switch {
	case err != nil:
		why = whyOf(err)
	case doc.Parse(kept, storedLimits) != nil || doc.Root().Kind() != exact.Object:
		why = &wire.Withheld{Cause: chain.CauseMalformed}
	case HoldsKey(string(doc.Root().AppendCanonical(nil))):
		why = &wire.Withheld{Cause: causeKey}
	default:
		return kept, nil
	}
	m.s.withheld(keptInAction, why)
	return string(why.Stand()), why
}

// storedLimits let everything through that was within the limits of its request, masked or not.
var storedLimits = exact.Limits{Depth: 1 << 12, Tokens: 1 << 24}

// StartAction starts an action that is allowed or approved: kill, redemption and chain run again on the real call.
func (s *Service) StartAction(r *Request, in *wire.ActionStartRequest) (*wire.Action, error) {
	if err := noKeys(r.Idempotency); err != nil {
		return nil, err
	}
	r.End() // what follows waits for the store
	read := &store.ReadAction{Key: r.Key, ID: in.ID, Mine: true}
	if err := s.commit(r, read); err != nil {
		return nil, denied(err)
	}
	a := &read.Out
	if r.Idempotency == "" {
		if err := a.Startable(r.Key, r.Start); err != nil {
			return nil, err
		}
	}
	var doc exact.Doc
	if err := s.realCall(a, r.Start, &doc); err != nil {
		return nil, err
	}
	n := &store.StartAction{ID: a.ID, Shown: in.Digest}
	if r.Idempotency != "" {
		h := hash16("action_start", r.Key.ID, a.ID, "idempotency-key", r.Idempotency)
		n.Idem = &h
	}
	q := &ask{AgentID: a.AgentID, ToolID: a.Tool, Operation: a.Operation, SessionID: a.SessionID, CallID: a.ID,
		Args: doc.Root().Get("params"), Context: doc.Root().Get("context"), Action: n}
	if a.Status == store.ActionApproved {
		q.DeferToken = a.Token
	} else {
		q.Started = true
	}
	if _, err := s.decide(unnamed(r), q, false); err != nil {
		return nil, err
	}
	out := s.shown(&n.Out, true)
	out.Repeat = n.Again
	return out, nil
}

// realCall parses the call that was submitted: what is kept, or what of it is in memory because it was masked.
func (s *Service) realCall(a *store.ActionRow, now time.Time, doc *exact.Doc) error {
	call := rawCall{params: a.Params, context: a.Context}
	if a.ParamsMasked || a.ContextMasked {
		raw, ok := s.raws.get(a.ID, now)
		if !ok {
			return sdk.Errf(sdk.CodeConflict, "the action's params hold something that is not kept, and what was sent is no "+
				"longer in memory (it is held for some minutes, and not across a restart); submit the action again")
		}
		call.context = raw.context
		if !a.Modified {
			call.params = raw.params
		}
	}
	o := wire.Object(nil)
	o.Raw("params", []byte(call.params))
	o.Raw("context", []byte(call.context))
	if err := doc.Parse(string(o.Close()), storedLimits); err != nil {
		return &sdk.Error{Code: sdk.CodeInternal, Op: "read a kept action", Err: err}
	}
	return nil
}

// ApproveAction answers an action that waits for an approval.
func (s *Service) ApproveAction(r *Request, in *wire.ActionApprovalRequest) (*wire.Action, error) {
	if len(in.Reason) > reasonBytes {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "reason", "reason is %d bytes long, more than the limit of %d",
			len(in.Reason), reasonBytes)
	}
	if err := noKeys(in.Reason, r.Idempotency); err != nil {
		return nil, err
	}
	yes, err := answerOf("approve", in.Approve, in.Withdraw)
	if err != nil {
		return nil, err
	}
	cmd := &store.ApproveAction{ID: in.ID, Idem: idempotency(r, "action_approval/"+in.ID),
		Approve: store.Approve{ApproveCall: store.ApproveCall{Token: in.Token, Key: r.Key, By: r.Who, Yes: yes,
			Withdraw: in.Withdraw, Digest: in.Digest, Reason: in.Reason, ApprovedTTL: s.set.Defers.ApprovedTTL.Std(),
			Told: toldOf}},
		Answer: func(a *store.ActionRow) []byte { return s.shown(a, true).AppendJSON(nil) }}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	if cmd.Idem != nil && cmd.Idem.Replay != nil {
		return nil, &Replay{cmd.Idem.Replay}
	}
	return s.shown(&cmd.Out, true), nil
}

// GateDecide decides a call as an action of it would be decided, and makes neither an action nor a defer.
func (s *Service) GateDecide(r *Request, in *wire.ActionRequest) (*wire.GateResponse, error) {
	if err := noKeys(r.Idempotency, in.Operation); err != nil {
		return nil, err
	}
	if err := notDry(in); err != nil {
		return nil, err
	}
	hash, err := wire.RequestHash(in.AgentID, in.Tool, in.Operation, in.Params, in.Context)
	if err != nil {
		return nil, err
	}
	d, err := s.decide(scoped(r, "gate_decide"),
		&ask{AgentID: in.AgentID, ToolID: in.Tool, Operation: in.Operation, SessionID: in.SessionID, Args: in.Params,
			Context: in.Context, NoDefer: true}, false)
	if err != nil {
		return nil, err
	}
	outcome, _ := wire.OutcomeOf(d.Effect)
	return &wire.GateResponse{Outcome: outcome, ReasonCode: d.ReasonCode, Reason: d.Reason, RequestHash: hash,
		PolicyVersion: d.PolicyVersion, PolicyHash: d.PolicyVersion,
		RuntimeVersion: s.set.Version, ProvenanceID: wire.ProvenanceID(hash, d.PolicyVersion, "", s.set.Version),
		DecisionID: d.DecisionID, Repeat: d.Repeat, Retry: haltRetry(d)}, nil
}

// scoped keeps the Idempotency-Keys of operations apart that decide by the same repeat rule.
func scoped(r *Request, operation string) *Request {
	if r.Idempotency == "" {
		return r
	}
	out := *r
	out.Idempotency = operation + " " + r.Idempotency
	return &out
}

// Evaluate is Authorize as the remote clients ask it.
func (s *Service) Evaluate(r *Request, in *wire.EvaluateRequest) (*wire.AuthorizeResponse, error) {
	return s.decide(scoped(r, "evaluate"), &ask{AgentID: in.AgentID, ToolID: in.ToolID, Operation: in.Operation,
		SessionID: in.SessionID, CallID: in.CallID, Args: in.Args, Context: in.Context,
		DeferToken: in.DeferToken, DryRun: in.DryRun}, in.Explain)
}
