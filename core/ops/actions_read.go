package ops

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Limits of a list of actions. They are part of the contract, not of the configuration.
const (
	defaultActions = 20
	maxActions     = 1000
	maxOffset      = 100_000
)

// The scopes that read actions, and all of them.
const (
	readActions = sdk.ScopeAuthorize | sdk.ScopeApprove | sdk.ScopeAudit
	anyScope    = sdk.AnyScope
)

// actionStates are the values of status that may be asked for; pending_decision and timeout are of the contract, and no
// action is ever in them: a decision is made before there is an action, and nothing here runs one.
var actionStates = []string{"pending_decision", store.ActionAllowed, store.ActionDenied, store.ActionPending,
	store.ActionApproved, store.ActionExecuting, store.ActionSucceeded, store.ActionFailed, "timeout"}

// GetAction reads one action.
func (s *Service) GetAction(r *Request, in *wire.ActionIDRequest) (*wire.Action, error) {
	cmd := &store.ReadAction{Key: r.Key, ID: in.ID}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	return s.shown(&cmd.Out, cmd.Out.KeyID == r.Key.ID || r.Key.Scope()&sdk.ScopeApprove != 0), nil
}

// ListActions lists actions, newest first.
func (s *Service) ListActions(r *Request, in *wire.ActionListRequest) (*wire.ActionListResponse, error) {
	before := in.Cursor
	if !actionID(before) { // an id of an action that the caller has is a place too
		var err error
		if before, err = s.pages.place("actions", in.Cursor); err != nil {
			return nil, err
		}
	}
	q := &store.ActionQuery{Agent: in.AgentID, Tool: in.Tool, Status: in.Status, Before: before, Offset: in.Offset,
		Limit: defaultActions, Sees: r.Key.Sees}
	if in.Limit != nil {
		q.Limit = *in.Limit
	}
	switch {
	case q.Limit < 1 || q.Limit > maxActions:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "limit", "limit must be 1 to %d, not %d", maxActions, q.Limit)
	case q.Offset < 0 || q.Offset > maxOffset:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "offset", "offset must be 0 to %d, not %d; use cursor to go on",
			maxOffset, q.Offset)
	case q.Status != "" && !slices.Contains(actionStates, q.Status):
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "status", "there is no such status; there are %v", actionStates)
	case q.Agent != "" && !r.Key.Sees(q.Agent):
		return nil, sdk.FieldErrf(sdk.CodeAgentNotAllowed, "agent_id", "the key %q may not see this agent", r.Key.Name)
	}
	leave, err := s.pages.enter(r)
	if err != nil {
		return nil, err
	}
	defer leave()
	page, next, err := s.set.Store.Actions(r.Ctx, q)
	if err == nil {
		// a decision that a crash could take back is shown to nobody
		err = s.commit(r, store.Barrier{Key: r.Key})
	}
	if err != nil {
		return nil, err
	}
	out := &wire.ActionListResponse{Actions: make([]wire.Action, len(page))}
	if next != "" {
		out.Next = s.pages.cursor("actions", next) // it may be the place of an action that the key must not see
	}
	for i, a := range page {
		out.Actions[i] = *s.shown(a, false)
	}
	return out, nil
}

func actionID(id string) bool {
	if len(id) != len("act_")+ulid.EncodedSize || id[:4] != "act_" {
		return false
	}
	_, err := ulid.ParseStrict(id[4:])
	return err == nil
}

// ActionEvents lists what happened to one action.
func (s *Service) ActionEvents(r *Request, in *wire.ActionIDRequest) (*wire.ActionEventsResponse, error) {
	cmd := &store.ReadAction{Key: r.Key, ID: in.ID}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	out := &wire.ActionEventsResponse{Events: make([]wire.ActionEvent, len(cmd.Out.Events))}
	prev := ""
	for i := range cmd.Out.Events {
		e := &cmd.Out.Events[i]
		o := wire.Object(nil)
		o.Int("seq", int64(e.Seq))
		o.Opt("by", e.By)
		o.Opt("reason_code", e.Code)
		o.Opt("reason", e.Reason)
		out.Events[i] = wire.ActionEvent{ID: eventID(e, cmd.Out.ID), ActionID: cmd.Out.ID, EventType: e.Type, Meta: o.Close(),
			CreatedAt: stamp(e.At), PrevHash: prev, RecordHash: e.Hash}
		prev = e.Hash
	}
	return out, nil
}

// eventID names an event: it is made of its time, record, action and type, so that it is the same whoever asks.
func eventID(e *store.ActionEvent, action string) string {
	var u ulid.ULID
	if e.At.UnixMilli() > 0 {
		_ = u.SetTime(ulid.Timestamp(e.At)) // fails in the year 10889
	}
	sum := sha256.Sum256([]byte(e.Hash + "|" + strconv.FormatUint(e.Seq, 10) + "|" + action + "|" + e.Type))
	copy(u[6:], sum[:])
	return "evt_" + u.String()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// shown is an action as clients see it. The token is for the asking key and for approvers, while the action is pending.
func (s *Service) shown(a *store.ActionRow, token bool) *wire.Action {
	out := &wire.Action{ID: a.ID, AgentID: a.AgentID, Tool: a.Tool, Operation: a.Operation, Params: []byte(a.Params),
		Context: []byte(a.Context), Status: a.Status, Reason: a.Reason, RiskLevel: a.Risk, PolicyVersion: a.Policy,
		CreatedAt: stamp(a.Created), UpdatedAt: stamp(a.Updated), ReasonCode: a.Code,
		ReasonDetails: wire.ActionDetails{DecisionID: a.DecisionID, RuleID: a.RuleID, Message: a.Message},
		RequestHash:   a.RequestHash, PolicyHash: a.Policy, RuntimeVersion: a.RuntimeVersion,
		ProvenanceID: wire.ProvenanceID(a.RequestHash, a.Policy, "", a.RuntimeVersion)}
	out.ParamsWithheld, out.ContextWithheld = a.ParamsWithheld, a.ContextWithheld
	out.Modified = a.Modified
	out.Outcome, out.Decision = wire.OutcomeOf(a.Effect)
	switch a.Status {
	case store.ActionPending:
		out.ExpiresAt = stamp(a.DeferExpires)
		if token {
			out.ApprovalToken = a.ApprovalToken()
		}
		out.PythonExample, out.JSExample = examples(a.ID, "approval", `{"token": approval_token, "approve": True}`,
			`{token: approvalToken, approve: true}`)
	case store.ActionAllowed, store.ActionApproved:
		out.ExpiresAt = stamp(a.Decided.Add(store.ActionFor))
		out.PythonExample, out.JSExample = examples(a.ID, "start", "", "")
	case store.ActionExecuting:
		out.PythonExample, out.JSExample = examples(a.ID, "result", `{"success": True, "result": result}`,
			`{success: true, result}`)
	}
	switch a.Status {
	case store.ActionPending, store.ActionAllowed, store.ActionApproved, store.ActionExecuting:
		out.Digest = s.set.Store.CallDigest(a.Stands())
	}
	if res := a.Result; res != nil {
		out.Result = &wire.ActionResult{Success: res.Success, Error: res.Error, Outcome: res.Outcome, ReasonCode: res.Code,
			Withheld: res.Withheld}
		if res.Value != "" {
			out.Result.Value = []byte(res.Value)
		}
	}
	return out
}

// examples say what to call next.
func examples(id, verb, pyBody, jsBody string) (python, js string) {
	path := "/v1/actions/" + id + "/" + verb
	if pyBody != "" {
		pyBody, jsBody = ", json="+pyBody, ", body: JSON.stringify("+jsBody+")"
	}
	return `requests.post(base_url + "` + path + `"` + pyBody + `, headers={"Authorization": "Bearer " + api_key})`,
		`await fetch(baseUrl + "` + path + `", {method: "POST"` + jsBody + `, headers: {Authorization: "Bearer " + apiKey}})`
}
