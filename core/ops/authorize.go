package ops

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// scratch is what one authorize needs and gives back.
type scratch struct {
	call   chain.Call
	rows   []chain.Row
	canon  []byte
	cmd    store.Decide
	checks []wire.Check
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// ask is one call to be decided, as every surface that decides hands it over.
type ask struct {
	AgentID, ToolID string // of the request; with an operation the tool is what wire.ToolOf makes of both
	Operation       string
	SessionID       string
	CallID          string // the caller's, or ""
	Args, Context   exact.Value
	DeferToken      string
	Redeem          string // how an approval is redeemed: redeemAuto, or explicitly
	Note            string // what the agent says about the call: kept and shown, and no part of what is decided
	TimeoutMS       int
	DryRun          bool
	NoDefer         bool               // decide and charge, but make no defer and spend no grant or approval
	Started         bool               // it is the start of an action that was permitted before
	Action          store.ActionChange // what happens to an action in the same write; nil for a plain call
}

// Authorize decides one call.
func (s *Service) Authorize(r *Request, in *wire.AuthorizeRequest) (*wire.AuthorizeResponse, error) {
	return s.decide(r, &ask{AgentID: in.AgentID, ToolID: in.ToolID, Operation: in.Operation, SessionID: in.SessionID,
		CallID: in.CallID, Args: in.Args, Context: in.Context, DeferToken: in.DeferToken, Redeem: in.Redeem,
		Note: in.Note, TimeoutMS: in.ExecutionTimeoutMS, DryRun: in.DryRun}, in.Explain)
}

// Govern is Authorize as the socket's clients ask it.
func (s *Service) Govern(r *Request, in *wire.GovernRequest) (*wire.GovernResponse, error) {
	tool := in.ToolID
	switch {
	case tool == "":
		tool = in.Tool
	case in.Tool != "" && in.Tool != tool:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "tool", "tool and tool_id differ")
	}
	if tool == "" {
		return nil, sdk.FieldErrf(sdk.CodeMissingField, "tool_id", "tool_id is required")
	}
	d, err := s.decide(r, &ask{AgentID: in.AgentID, ToolID: tool, Operation: in.Operation, SessionID: in.SessionID,
		CallID: in.CallID, Args: in.Args, Context: in.Context, DeferToken: in.DeferToken, Redeem: in.Redeem,
		Note: in.Note, TimeoutMS: in.ExecutionTimeoutMS, DryRun: in.DryRun}, in.Explain)
	if err != nil {
		return nil, err
	}
	return &wire.GovernResponse{Decision: d, Denial: wire.DenialOf(d)}, nil
}

// toolOf is the tool's full name, as wire.ToolOf makes it: what kills, steps and scanners are matched with.
func (s *Service) toolOf(id, operation string) (string, error) {
	tool := wire.ToolOf(id, operation)
	if len(tool) > s.set.Limits.Name {
		return "", sdk.FieldErrf(sdk.CodeInvalidField, "operation",
			"tool_id and operation together are %d bytes long, more than the limit of %d (limits.name)", len(tool),
			s.set.Limits.Name)
	}
	return tool, nil
}

// decide is the one decision function. Whatever surface asked, this is the way: shape, digest, kill, chain, and then
// the store settles kill again, redemption, repeats, limits, grants and defers in the same write that records the
// decision.
func (s *Service) decide(r *Request, in *ask, explain bool) (*wire.AuthorizeResponse, error) {
	if err := actsAs(r.Key, in.AgentID); err != nil {
		return nil, err
	}
	tool, err := s.toolOf(in.ToolID, in.Operation)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := noKeys(r.Idempotency, in.AgentID, tool, in.Operation, in.SessionID, in.CallID); err != nil {
		return nil, err
	}
	sc := scratches.Get().(*scratch)
	gen := s.pin()
	defer gen.unpin()
	sc.call = chain.Call{KeyID: r.Key.ID, KeyName: r.Key.Name, AgentID: in.AgentID, SessionID: in.SessionID, ToolID: tool,
		Operation: wire.OperationOf(tool, in.Operation), CallID: in.CallID, Args: in.Args, Context: in.Context, Now: r.Start,
		Generation: gen.Policy}
	sc.canon, sc.call.Digest = digest(sc.canon[:0], &sc.call)
	var res chain.Result
	began := s.set.Store.Began()
	if k := s.set.Store.Killed(r.Key, in.AgentID, in.SessionID, tool); k != nil {
		// the store says the same again, and which kill it was
		res = chain.Result{Verdict: sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonKillSwitch}, Rows: sc.rows[:0]}
	} else {
		sc.call.Turn = r.turn
		res = gen.Authorize.Run(r.Ctx, &sc.call, sc.rows)
	}
	r.End()
	s.nameRules(&res)
	sc.rows = res.Rows

	cmd := &sc.cmd
	cmd.DecideCall = store.DecideCall{ID: s.ids.id("dec_"), DryRun: in.DryRun, NoDefer: in.NoDefer, Action: in.Action,
		Call: store.Call{Key: r.Key, By: r.Who, AgentID: in.AgentID, SessionID: in.SessionID, ToolID: tool,
			Operation: in.Operation, CallID: in.CallID, Digest: sc.call.Digest, Began: began},
		Policy: store.PolicyOutcome{Version: gen.Policy, Verdict: res.Verdict},
		Redeem: store.Redemption{Token: in.DeferToken, Auto: in.Redeem == redeemAuto},
		Defer:  store.NewDefer{TTL: s.deferTTL(&res)},
		Limits: store.CallLimits{MaxPending: s.set.Limits.PendingPerKey, MaxJoined: s.set.Limits.ActionsPerApproval},
		Record: store.CallRecord{TimeoutMS: in.TimeoutMS}}
	var shadow []wire.Shadow
	sc.checks, shadow = s.checks(r, sc.checks[:0], res.Rows)
	cmd.Policy.Checks = sc.checks
	s.weigh(r, in, &sc.call, &res, cmd)
	keep := masking{s: s, ctx: r.Ctx, gen: gen, call: &sc.call, said: in.Note}
	s.kept(&keep, cmd)
	s.callIdentity(r, in, cmd)
	cmd.Record.LatencyUS = s.set.Now().Sub(r.Start).Microseconds()
	if r.Flight != nil {
		r.Flight.TakeOff() // before the commit looks at kills: one that it does not see waits for this answer
	}
	err = s.commit(r, cmd)
	if err == nil && cmd.Out.NeedsView { // what would have permitted it is gone: it waits for a person after all
		keep.defers(&cmd.Defer)
		err = s.commit(r, cmd)
	}
	if err != nil {
		return nil, denied(err) // sc is not used again: a stalled write may still be reading the command
	}
	out := s.decision(r, explain, cmd, sc.rows)
	out.Shadow = shadow
	if cmd.Out.Effect == sdk.Permit && !in.DryRun {
		r.permitted = permitted{true, began, in.AgentID, in.SessionID, tool, out.DecisionID}
	}
	clear(sc.rows)
	clear(sc.checks)
	sc.call, sc.cmd = chain.Call{}, store.Decide{}
	scratches.Put(sc)
	return out, nil
}

// check refuses what is out of bounds and no part of the call itself.
func (in *ask) check() error {
	switch {
	case in.TimeoutMS < 0:
		return sdk.FieldErrf(sdk.CodeInvalidField, "execution_timeout_ms", "execution_timeout_ms must not be negative")
	case in.Redeem != "" && in.Redeem != redeemAuto && in.Redeem != redeemExplicit:
		return sdk.FieldErrf(sdk.CodeInvalidField, "redeem", "redeem must be %s or %s, got %q", redeemAuto, redeemExplicit,
			in.Redeem)
	case len(in.Note) > noteBytes:
		return sdk.FieldErrf(sdk.CodeInvalidField, "note", "note is %d bytes long, more than the limit of %d", len(in.Note),
			noteBytes)
	}
	return nil
}

// weigh hands the store what beside the verdict decides: limits, quorums, grants, and what an approval is bound to.
func (s *Service) weigh(r *Request, in *ask, c *chain.Call, res *chain.Result, cmd *store.Decide) {
	if cmd.DryRun {
		return
	}
	if cmd.Redeem.Token != "" || strings.HasSuffix(cmd.CallID, resumeSuffix) || res.Verdict.Effect == sdk.Defer {
		cmd.ArgsHash, cmd.ContextHash = sha256.Sum256(orEmpty(nil, c.Args)), sha256.Sum256(orEmpty(nil, c.Context))
	}
	if res.Verdict.Effect == sdk.Defer {
		cmd.Policy.Quorums = res.Quorums
		if !cmd.NoDefer && cmd.Redeem.Token == "" {
			var late int
			if cmd.Grants, late = s.candidates(r, c, res, cmd.Policy.Version); late > 0 {
				cmd.Policy.Verdict.Reason = strings.TrimPrefix(cmd.Policy.Verdict.Reason+
					fmt.Sprintf(" (%d standing grants were left out: their args_match took longer than %v in all)", late,
						matchTime), " ")
			}
		}
	}
	for i := range res.Limits {
		l := &res.Limits[i]
		cmd.Limits.Charges = append(cmd.Limits.Charges,
			store.Charge{Step: l.Step, Limit: l.Limit, Counter: counterOf(r.Key, c, l)})
	}
}

// nameRules keeps rules apart whose names read the same once they are masked or withheld: a grant for one must not
// cover the other.
func (s *Service) nameRules(res *chain.Result) {
	for i := range res.Quorums {
		if q := &res.Quorums[i]; q.Named != "" {
			q.Rule += " #" + s.set.Store.CallDigest(sha256.Sum256([]byte("rule\x00" + q.Named)))[:16]
		}
	}
}

// counterOf names what a limit is counted on: the rule, and whom it concerns. A session belongs to its agent, and a key
// that is rolled goes on with what was counted.
func counterOf(k *store.Key, c *chain.Call, l *chain.StepLimit) [16]byte {
	kind, window := strconv.Itoa(int(l.Kind)), l.Window.String()
	switch l.Per {
	case "agent":
		return hash16(l.Step, l.Rule, kind, window, "agent", c.AgentID)
	case "session":
		return hash16(l.Step, l.Rule, kind, window, "session", c.AgentID, c.SessionID)
	case "key":
		return hash16(l.Step, l.Rule, kind, window, "key", k.Line())
	}
	line := *c
	line.KeyID = k.Line()
	_, same := digest(nil, &line)
	return hash16(l.Step, l.Rule, kind, window, "call", string(same[:]))
}

// How the approval of a deferred call is redeemed: with its token, or by whoever asks for exactly that call.
const (
	redeemExplicit = "explicit"
	redeemAuto     = "auto"
)

// resumeSuffix makes the call_id of a deferred call the one that redeems its approval.
const resumeSuffix = "-resume"

// denied marks an error of recording as what it is to an agent: a DENY.
func denied(err error) error {
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.CodeAuditUnavailable {
		marked := *e
		marked.More = map[string]string{"effect": sdk.Deny.String(), "reason_code": sdk.ReasonAuditUnavailable}
		maps.Copy(marked.More, e.More) // outcome
		return &marked
	}
	return err
}

// callIdentity works out what the call may be a repeat or a resumption of. A call_id belongs to the key and the agent,
// an Idempotency-Key to the key.
func (s *Service) callIdentity(r *Request, in *ask, cmd *store.Decide) {
	operation := "authorize"
	if in.NoDefer {
		operation = "gate"
	}
	named := func(id string) [16]byte { return hash16(operation, r.Key.ID, "agent", in.AgentID, "call_id", id) }
	if id, ok := strings.CutSuffix(in.CallID, resumeSuffix); ok && in.DeferToken == "" && id != "" && !in.NoDefer {
		cmd.Redeem.CallID, cmd.Redeem.CallHash = id, named(id)
	}
	switch {
	case in.Started:
		return // the start of an action is no repeat: what permitted it is looked at again
	case in.CallID != "":
		cmd.Names.Hashes = append(cmd.Names.Hashes, named(in.CallID))
	default:
		cmd.CallID = s.ids.id("call_")
		if cmd.Policy.Verdict.Effect == sdk.Defer && !in.NoDefer {
			cmd.Names.Made = named(cmd.CallID)
		}
	}
	if r.Idempotency != "" && in.Action == nil { // an action finds its repeats itself
		keyed := hash16(operation, r.Key.ID, "idempotency-key", r.Idempotency)
		cmd.Names.Hashes, cmd.Names.Keyed = append(cmd.Names.Hashes, keyed), true
	}
}

// deferTTL is how long the call may wait: the shortest time of all steps that defer it.
func (s *Service) deferTTL(res *chain.Result) time.Duration {
	wait := min(res.Verdict.Expires, s.set.Defers.MaxTTL.Std())
	if wait <= 0 || res.Usual && s.set.Defers.TTL.Std() < wait {
		return s.set.Defers.TTL.Std()
	}
	return wait
}

// digest appends the call's canonical form and hashes it: {key, agent_id, session_id, tool_id, args, context} as RFC
// 8785, and the operation where it is no part of the tool.
func digest(dst []byte, c *chain.Call) ([]byte, [32]byte) {
	dst = exact.AppendString(append(dst, `{"agent_id":`...), c.AgentID)
	dst = append(dst, `,"args":`...)
	dst = orEmpty(dst, c.Args)
	dst = append(dst, `,"context":`...)
	dst = orEmpty(dst, c.Context)
	dst = exact.AppendString(append(dst, `,"key":`...), c.KeyID)
	// rules may look at it, so an approval of one operation is none of another
	if op := wire.Apart(c.ToolID, c.Operation); op != "" {
		dst = exact.AppendString(append(dst, `,"operation":`...), op)
	}
	dst = exact.AppendString(append(dst, `,"session_id":`...), c.SessionID)
	dst = exact.AppendString(append(dst, `,"tool_id":`...), c.ToolID)
	dst = append(dst, '}')
	return dst, sha256.Sum256(dst)
}

// orEmpty appends the canonical form; no args are the same call as empty args.
func orEmpty(dst []byte, v exact.Value) []byte {
	if !v.Exists() {
		return append(dst, '{', '}')
	}
	return v.AppendCanonical(dst)
}

// kept fills in what of the call is kept: masked args for the log, and for a defer the call as approvers see it. It
// never changes what was decided.
func (s *Service) kept(m *masking, cmd *store.Decide) {
	cmd.Record.Args, cmd.Record.ArgsWithheld = m.record()
	cmd.Record.Note = m.recordNote()
	if cmd.Policy.Verdict.Effect != sdk.Defer || cmd.DryRun || cmd.NoDefer {
		return
	}
	cmd.Defer.Token = s.ids.token("dfr_")
	if len(cmd.Grants) == 0 && cmd.Redeem.Token == "" { // else hardly anybody looks at it: Out.NeedsView asks for it
		m.defers(&cmd.Defer)
	}
}

// checks appends the rows as the log has them, and counts them.
func (s *Service) checks(req *Request, out []wire.Check, rows []chain.Row) ([]wire.Check, []wire.Shadow) {
	var shadow []wire.Shadow
	for i := range rows {
		r := &rows[i]
		s.set.Observer.Asked("authorize", r.Step.Name, r.Step.Plugin, r.Err != nil, r.Took)
		if req.Trace != nil {
			req.Trace.Stepped("authorize", r.Step.Name, r.Step.Plugin, r.Verdict.Effect.String(), r.Err != nil, r.Began, r.Took)
		}
		c := wire.Check{Name: r.Step.Name, Kind: r.Step.Kind, Mode: "enforce", Effect: r.Verdict.Effect.String(),
			ReasonCode: r.Verdict.Code, Micros: r.Took.Microseconds()}
		if r.Step.Version != nil {
			c.Version = r.Step.Version()
		}
		if r.Err != nil {
			c.Error = chain.WithWords(r.Err.Error(), chain.Words(r.Err))
		}
		if r.Step.Shadow {
			c.Mode = "shadow"
			shadow = append(shadow, wire.Shadow{Step: r.Step.Name, Effect: r.Verdict.Effect.String(),
				ReasonCode: r.Verdict.Code})
		}
		out = append(out, c)
	}
	return out, shadow
}

func (s *Service) decision(r *Request, explain bool, cmd *store.Decide, rows []chain.Row) *wire.AuthorizeResponse {
	d := &cmd.Out
	out := &wire.AuthorizeResponse{Effect: d.Effect.String(), ReasonCode: d.Code, Reason: d.Reason, RuleID: d.RuleID,
		DeferToken: d.Token, DecisionID: d.DecisionID,
		CallID: cmd.CallID, PolicyVersion: cmd.Policy.Version, LatencyMS: s.set.Now().Sub(r.Start).Milliseconds(),
		Retry: wire.RetryFor(d.Effect, d.Code), Message: d.Message, Repeat: d.Repeat, DryRun: cmd.DryRun,
		GrantID: d.GrantID}
	retryIn(out, d.RetryAfter, rows)
	if d.Approved {
		out.Status = store.Approved
	}
	if !d.Expires.IsZero() {
		out.DeferExpiresAt = d.Expires.UTC().Format(time.RFC3339Nano)
	}
	if explain { // without what plugins say of their failures: that is in the record
		out.Checks = slices.Clone(cmd.Policy.Checks)
		for i := range out.Checks {
			if err := rows[i].Err; err != nil {
				out.Checks[i].Error = err.Error()
			}
		}
	}
	return out
}
