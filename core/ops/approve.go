package ops

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Approve signs a deferred call off, or denies it.
func (s *Service) Approve(r *Request, in *wire.ApproveRequest) (*wire.ApproveResponse, error) {
	if len(in.Reason) > reasonBytes {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "reason", "reason is %d bytes long, more than the limit of %d",
			len(in.Reason), reasonBytes)
	}
	if err := noKeys(in.Reason, in.ApproverID, r.Idempotency); err != nil {
		return nil, err
	}
	yes, err := answerOf("approved", in.Approved, in.Withdraw)
	if err != nil {
		return nil, err
	}
	if !yes && (in.ModifiedArgs.Exists() || in.Grant.Exists()) {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "approved",
			"modified_args and grant belong to an approval, not to a denial")
	}
	cmd := &store.Approve{ApproveCall: store.ApproveCall{Token: in.DeferToken, Key: r.Key, By: r.Who, Yes: yes,
		Withdraw: in.Withdraw, Digest: in.Digest, Reason: in.Reason, ApprovedTTL: s.set.Defers.ApprovedTTL.Std(),
		MostGrants: s.set.Limits.Grants, EachGrants: s.set.Limits.GrantsPerKey, Told: toldOf,
		Answer: func(a *store.Approval) []byte { return approval(a).AppendJSON(nil) }}}
	if in.ApproverID != "" {
		cmd.By.Note = in.ApproverID
	}
	cmd.Idem = idempotency(r, "approve_defer")
	if err := s.askGrant(r, in, cmd); err != nil {
		return nil, err
	}
	if err := s.modify(r, in, cmd); err != nil {
		return nil, err
	}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	if cmd.Idem != nil && cmd.Idem.Replay != nil {
		return nil, &Replay{cmd.Idem.Replay}
	}
	return approval(&cmd.Out), nil
}

// toldOf reads what was answered to an approval.
func toldOf(answer []byte) (status, grant string) {
	var told struct {
		Status  string `json:"status"`
		GrantID string `json:"grant_id"`
	}
	if err := json.Unmarshal(answer, &told); err != nil {
		return "", "" // taken for an approval
	}
	return told.Status, told.GrantID
}

// answerOf is whether an answer signs the call off; field is the member that says so. One that withdraws an approval is
// a denial.
func answerOf(field string, yes *bool, withdraw bool) (bool, error) {
	switch {
	case yes == nil && !withdraw:
		return false, sdk.FieldErrf(sdk.CodeMissingField, field, "%s is required, unless withdraw is true", field)
	case yes != nil && *yes && withdraw:
		return false, sdk.FieldErrf(sdk.CodeInvalidField, "withdraw",
			"withdraw takes an approval back, so %s must be false or absent", field)
	}
	return yes != nil && *yes, nil
}

// idempotency is what the request's Idempotency-Key asks for; nil without one.
func idempotency(r *Request, operation string) *store.Idempotency {
	if r.Idempotency == "" {
		return nil
	}
	return &store.Idempotency{Hash: hash16(operation, r.Key.ID, "idempotency-key", r.Idempotency),
		Body: sha256.Sum256([]byte(r.Raw))}
}

func approval(a *store.Approval) *wire.ApproveResponse {
	return &wire.ApproveResponse{OK: true, Status: a.Status, DeferToken: a.Token, Approvals: len(a.Signed),
		ApprovalsRequired: a.Required, GrantID: a.Granted, GrantNote: a.GrantNote}
}

// askGrant reads the standing grant that an approval asks for.
func (s *Service) askGrant(r *Request, in *wire.ApproveRequest, cmd *store.Approve) error {
	if !in.Grant.Exists() {
		return nil
	}
	if r.Key.Scope()&sdk.ScopeGrants == 0 {
		return sdk.Errf(sdk.CodeMissingScope, "the key %q lacks scope grants, which an approval with a grant needs; "+
			"nothing was approved", r.Key.Name)
	}
	var g wire.ApproveGrant
	if err := wire.Decode(in.Grant, &g, s.set.Limits.Name); err != nil {
		var e *sdk.Error
		if errors.As(err, &e) && e.Field != "" {
			within := *e
			within.Field = "grant." + e.Field
			return &within
		}
		return err
	}
	ttl, err := grantTTL("grant.ttl_seconds", g.TTLSeconds)
	if err != nil {
		return err
	}
	if err := usesInRange("grant.max_uses", g.MaxUses); err != nil {
		return err
	}
	cmd.Grant, cmd.NewGrant = &store.GrantAsk{TTL: ttl, MaxUses: uint64(g.MaxUses), SessionID: g.SessionID},
		s.ids.id("stg_")
	return nil
}

// modify works out an approval with other arguments: the rules see the call as it would be, before anything is signed.
func (s *Service) modify(r *Request, in *wire.ApproveRequest, cmd *store.Approve) error {
	if !in.ModifiedArgs.Exists() {
		return nil
	}
	look := &store.LookAt{Token: in.DeferToken, Key: r.Key}
	if err := s.commit(r, look); err != nil {
		return err
	}
	d, gen := &look.Out, s.pin()
	defer gen.unpin()
	call, view, err := s.deferredCall(d)
	if err != nil {
		return err
	}
	call.Args, call.Now = in.ModifiedArgs, r.Start
	cmd.Modified = in.ModifiedArgs.AppendCanonical(nil)
	cmd.ModifiedHash, cmd.NewToken = sha256.Sum256(cmd.Modified), s.ids.token("apr_")
	_, call.Digest = digest(nil, call)
	cmd.ModifiedCall = call.Digest
	m := masking{s: s, ctx: r.Ctx, gen: gen, call: call}
	switch found, err := m.of(cmd.Modified); {
	case errors.Is(err, chain.ErrNoScanner):
	case err != nil:
		return sdk.FieldErrf(sdk.CodeConflict, "modified_args",
			"modified_args could not be scanned now (%v), so nothing was approved; try again", whyOf(err))
	case !found.Clean():
		return sdk.FieldErrf(sdk.CodeInvalidField, "modified_args",
			"modified_args hold something that the scanners would redact; it would be kept until the call is redeemed, so "+
				"nothing was approved")
	}
	if HoldsKey(string(cmd.Modified)) {
		return sdk.FieldErrf(sdk.CodeInvalidField, "modified_args",
			"modified_args hold the value of an API key; nothing was approved")
	}
	call.Generation = gen.Policy
	res := gen.Authorize.Run(r.Ctx, call, nil)
	s.nameRules(&res)
	if res.Verdict.Effect == sdk.Deny {
		return &sdk.Error{Code: sdk.CodeModifiedDenied, Field: "modified_args",
			Msg:  "the rules deny the call with these arguments; nothing was approved",
			More: map[string]string{"effect": sdk.Deny.String(), "reason_code": res.Verdict.Code, "rule_id": res.Verdict.RuleID}}
	}
	cmd.Quorums, cmd.DigestOnly = res.Quorums, gen.Args == "digest"
	cmd.Verdict, cmd.Policy, cmd.TTL = res.Verdict, gen.Policy, min(res.Verdict.Expires, s.deferTTL(&res))
	cmd.View = viewOf(call, cmd.Modified, []byte(view.Get("context").Raw()), nil, nil)
	return nil
}

// deferredCall is a deferred call as the chain sees it, but for its args. Its context is kept with secrets masked; one
// that had some is not known any more, and rules cannot be asked about it.
func (s *Service) deferredCall(d *store.Defer) (*chain.Call, exact.Value, error) {
	text, err := s.set.Store.View(d.Token)
	if err != nil || text == nil {
		return nil, exact.Value{}, &sdk.Error{Code: sdk.CodeInternal, Op: "read a deferred call", Err: err}
	}
	var doc exact.Doc
	if err := doc.Parse(string(text), exact.Limits{Depth: 1 << 16, Tokens: 1 << 30}); err != nil {
		return nil, exact.Value{}, &sdk.Error{Code: sdk.CodeInternal, Op: "read a deferred call", Err: err}
	}
	view := doc.Root()
	call := &chain.Call{KeyID: d.KeyID, AgentID: d.AgentID, SessionID: d.SessionID, ToolID: d.ToolID,
		Operation: wire.OperationOf(d.ToolID, d.Operation), CallID: d.CallID, Context: view.Get("context")}
	if k := s.set.Store.Key(d.KeyID); k != nil {
		call.KeyName = k.Name
	}
	if sha256.Sum256(orEmpty(nil, call.Context)) != d.ContextHash {
		return nil, exact.Value{}, sdk.FieldErrf(sdk.CodeInvalidField, "modified_args",
			"the call's context held secrets, which are not kept, so the rules cannot be asked about other arguments; "+
				"approve or deny it as it is")
	}
	return call, view, nil
}

// ApprovalsList lists the pending calls that the key may answer. A call that is too long for a list is shown without
// its long members; ApprovalGet has it whole.
func (s *Service) ApprovalsList(r *Request, in *wire.ApprovalListRequest) (*wire.ApprovalListResponse, error) {
	limit, err := pageSize(in.Limit)
	if err != nil {
		return nil, err
	}
	after, err := s.pages.place("approvals", in.Cursor)
	if err != nil {
		return nil, err
	}
	leave, err := s.pages.enter(r)
	if err != nil {
		return nil, err
	}
	defer leave()
	cmd := &store.ListPending{Key: r.Key, Agent: in.AgentID, Most: limit, After: after}
	s.set.Store.FindPending(cmd)
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	page := &cmd.Out
	out, read, size, more := &wire.ApprovalListResponse{Total: page.Total}, 0, 0, page.More
	for i := range page.Calls {
		runtime.Gosched() // decisions are not kept from a processor
		d := &page.Calls[i]
		a, long, err := s.approval(d, true)
		if err != nil {
			return nil, err
		}
		if a == nil {
			continue // answered and forgotten meanwhile
		}
		read, size = read+long, size+len(a.Call)+len(exact.AppendString(nil, a.Note))+memberBytes
		if i > 0 && (read > pageReads || size > pageBytes) {
			more = true
			break
		}
		out.Approvals, after = append(out.Approvals, *a), store.PendingPlace(d)
	}
	if more {
		out.Next = s.pages.cursor("approvals", after)
	}
	return out, nil
}

// ApprovalGet shows one pending call that the key may answer, whole.
func (s *Service) ApprovalGet(r *Request, in *wire.ApprovalGetRequest) (*wire.Approval, error) {
	if in.DeferToken == "" {
		return nil, sdk.FieldErrf(sdk.CodeMissingField, "defer_token", "defer_token is required")
	}
	if err := s.pages.takePlace(r.Ctx); err != nil {
		return nil, err
	}
	defer s.pages.leave()
	cmd := &store.LookAt{Token: in.DeferToken, Key: r.Key}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	a, _, err := s.approval(&cmd.Out, false)
	if err == nil && a.Digest == "" {
		err = sdk.Errf(sdk.CodeConflict, "another approver is changing the deferred call; look at it again")
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// approval is a deferred call as approvers see it, and how long its view is; nil when there is no view any more.
func (s *Service) approval(d *store.Defer, short bool) (*wire.Approval, int, error) {
	view, err := s.set.Store.View(d.Token)
	switch {
	case err != nil:
		return nil, 0, &sdk.Error{Code: sdk.CodeInternal, Op: "read a deferred call", Err: err}
	case view == nil && short:
		return nil, 0, nil
	case view == nil:
		return nil, 0, &sdk.Error{Code: sdk.CodeInternal, Op: "read a deferred call", Err: errors.New("it has no view")}
	}
	a := &wire.Approval{DeferToken: d.Token, Status: d.Status, KeyID: d.KeyID, KeyName: s.keyName(d.KeyID),
		AgentID: d.AgentID, SessionID: d.SessionID, ToolID: d.ToolID, RuleID: d.RuleID, ReasonCode: d.Code,
		Reason: d.Reason, Priority: string(d.Priority), Call: view, Modified: d.Modified != nil,
		CreatedAt: rfc3339(d.Created), ExpiresAt: rfc3339(d.Expires), Approvals: len(d.Signed), Required: d.Required}
	if short {
		if a.Call, a.Omitted = listed(view); a.Omitted != nil {
			a.Bytes = len(view)
		}
	}
	// what is not shown whole, or is being changed at this moment, cannot be signed off from this
	if a.Omitted == nil && shows(view, d) {
		a.Digest = s.set.Store.CallDigest(d.Stands())
	}
	note, err := s.set.Store.AgentNote(d)
	if err != nil {
		return nil, 0, &sdk.Error{Code: sdk.CodeInternal, Op: "read an agent's note", Err: err}
	}
	a.Note, a.NoteWithheld = note.Text, note.Withheld
	a.Rules, a.Steps = d.Rules()
	for _, q := range d.Quorums {
		for _, f := range q.From {
			if !slices.Contains(a.From, f) {
				a.From = append(a.From, f)
			}
		}
	}
	return a, len(view), nil
}

// pageSize reads a limit of a list, 1 to 1000, 100 if none is given.
func pageSize(n int) (int, error) {
	switch {
	case n == 0:
		return 100, nil
	case n < 0 || n > 1000:
		return 0, sdk.FieldErrf(sdk.CodeInvalidField, "limit", "limit must be 1 to 1000, not %d", n)
	}
	return n, nil
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
