package store

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// The states of an action.
const (
	ActionAllowed   = "allowed"
	ActionDenied    = "denied"
	ActionPending   = "pending_approval"
	ActionApproved  = "approved"
	ActionExecuting = "executing"
	ActionSucceeded = "succeeded"
	ActionFailed    = "failed"
)

// What happens to an action, as its list of events and the records name it.
const (
	EventCreated   = "created"
	EventDecision  = "decision_made"
	EventApproved  = "approved"
	EventDenied    = "denied"
	EventStarted   = "started"
	EventSucceeded = "succeeded"
	EventFailed    = "failed"
)

// How long a permit waits for its start, and how long a submission finds the action of an identical one before it.
const (
	ActionFor     = 5 * time.Minute
	ActionTwinFor = 2 * time.Second
)

// ActionExpired is the reason of an action whose approval or permit ran out.
const ActionExpired = "expired"

// ActionGone is the reason of an action whose call is no longer kept.
const ActionGone = "its call has ended and is no longer kept"

// ActionSpent is the reason of an action whose approval permitted another call.
const ActionSpent = "its approval was spent by another call"

// ActionRow is one submitted action as it is stored: wire.Action is what clients see of it. Params, context and result
// are kept without the secrets that were found in them.
type ActionRow struct {
	ID            string `json:"id"`
	KeyID         string `json:"key_id"`
	AgentID       string `json:"agent_id"`
	SessionID     string `json:"session_id,omitempty"`
	Tool          string `json:"tool"`
	Operation     string `json:"operation,omitempty"`
	ToolID        string `json:"tool_id"` // of the decision
	Params        string `json:"-"`       // JSON object; see texts
	Context       string `json:"-"`       // JSON object; see texts
	ParamsMasked  bool   `json:"params_masked,omitempty"`
	ContextMasked bool   `json:"context_masked,omitempty"`
	// an approver put other params in their place: those of its defer
	Modified       bool          `json:"modified,omitempty"`
	ModifiedCall   Hash          `json:"modified_call,omitzero"`   // the digest of the call with them
	Approval       string        `json:"approval_token,omitempty"` // since then; see ApprovalToken
	Digest         Hash          `json:"digest"`
	RequestHash    string        `json:"request_hash"`
	RuntimeVersion string        `json:"runtime_version"`
	Status         string        `json:"status"`
	Effect         string        `json:"effect"` // of the decision
	Code           string        `json:"reason_code"`
	Reason         string        `json:"reason,omitempty"`
	RuleID         string        `json:"rule_id,omitempty"`
	Message        string        `json:"message,omitempty"`
	Risk           string        `json:"risk_level"`
	Policy         string        `json:"policy_version"`
	DecisionID     string        `json:"decision_id"`
	GrantID        string        `json:"grant_id,omitempty"` // what permitted it, if a standing grant did
	Token          string        `json:"token,omitempty"`    // of the defer that it follows
	DeferExpires   time.Time     `json:"defer_expires_at,omitzero"`
	Created        time.Time     `json:"created_at"`
	Updated        time.Time     `json:"updated_at"`
	Decided        time.Time     `json:"decided_at"` // the permit or the approval that a start needs
	Events         []ActionEvent `json:"events"`
	Result         *ActionResult `json:"result,omitempty"`
	Charged        []charged     `json:"charged,omitempty"` // by the permit that allowed it: its start is charged instead

	// Why Params and Context are neither kept nor shown; nil if they are.
	ParamsWithheld  *wire.Withheld `json:"params_withheld,omitempty"`
	ContextWithheld *wire.Withheld `json:"context_withheld,omitempty"`
	// Params or Context are from the approvers' view; the action's own row does not have them
	refilled bool
}

// ActionEvent is one thing that happened to an action, and the audit record that says so.
type ActionEvent struct {
	Type   string    `json:"type"`
	Seq    uint64    `json:"seq"`
	Hash   string    `json:"hash"` // RFC 6962 leaf hash of the record, hex
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	Code   string    `json:"reason_code,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// ActionResult is how an action ended, as it was reported.
type ActionResult struct {
	Success  bool   `json:"success"`
	Error    string `json:"error,omitempty"`
	Value    string `json:"-"` // JSON, "" if none was sent or it is withheld; see texts
	Outcome  string `json:"outcome,omitempty"`
	Code     string `json:"reason_code,omitempty"`
	Withheld string `json:"withheld,omitempty"` // why Value is not kept
}

// At is the action as it is at that time: what was permitted and not started in time is denied.
func (a *ActionRow) At(now time.Time) *ActionRow {
	out := *a
	if out.waits() && now.Sub(out.Decided) >= ActionFor {
		out.Status, out.Reason = ActionDenied, ActionExpired
	}
	return &out
}

// waits reports whether the action could be started.
func (a *ActionRow) waits() bool { return a.Status == ActionAllowed || a.Status == ActionApproved }

// RiskOf is the risk_level of a decision: the rule's priority when it has one, else by its effect.
func RiskOf(v *sdk.Verdict, effect sdk.Effect) string {
	switch {
	case v.Priority != "":
		return string(v.Priority)
	case effect == sdk.Permit:
		return "low"
	case effect == sdk.Defer:
		return "medium"
	}
	return "high"
}

// applyDecision writes a decision into the action.
func (a *ActionRow) applyDecision(c *Decide, now time.Time) {
	d := &c.Out
	a.Effect, a.Code, a.Reason, a.RuleID, a.Message, a.DecisionID, a.GrantID = d.Effect.String(), d.Code, d.Reason,
		d.RuleID, d.Message, d.DecisionID, d.GrantID
	a.Policy, a.Risk = c.Policy.Version, RiskOf(&c.verdict, d.Effect)
	a.Updated, a.Decided = now, now
	switch d.Effect {
	case sdk.Permit:
		a.Status = ActionAllowed
	case sdk.Defer:
		a.Status, a.Token, a.DeferExpires = ActionPending, d.Token, d.Expires
	default:
		a.Status = ActionDenied
	}
}

// action is the action with that id as it will be after this batch, or nil, and the deferred call that it waits for, or
// nil.
func (tx *tx) action(id string) (*ActionRow, *Defer, error) {
	row, found, err := tx.pendingGet(keyAction(id))
	if err != nil {
		return nil, nil, unavailable(err)
	}
	if !found {
		return nil, nil, nil
	}
	a := &ActionRow{}
	if err := json.Unmarshal(row, a); err != nil {
		return nil, nil, &sdk.Error{Code: sdk.CodeInternal, Op: "read action", Err: err}
	}
	if !a.waitsFor() {
		return a, nil, nil
	}
	d, err := tx.find(a.Token)
	if err != nil {
		return nil, nil, err
	}
	if d == nil {
		a.follows(nil, nil)
		return a, nil, nil
	}
	shown := tx.shown(d)
	a.follow(&shown, shown.Status)
	return a, d, nil
}

func (tx *tx) putAction(a *ActionRow) {
	row, err := json.Marshal(a)
	tx.keep(err)
	tx.setFresh(keyAction(a.ID), row)
}

// setFresh writes a row that this batch may have to read again; nil deletes it.
func (tx *tx) setFresh(key, row []byte) {
	if tx.fresh == nil {
		tx.fresh = map[string][]byte{}
	}
	tx.fresh[string(key)] = row
	if row == nil {
		tx.del(key)
		return
	}
	tx.set(key, row)
}

// whole is action with its texts.
func (tx *tx) whole(id string) (*ActionRow, error) {
	a, d, err := tx.action(id)
	if err != nil || a == nil {
		return a, err
	}
	row, _, err := tx.pendingGet(keyActionTexts(id))
	if err != nil {
		return nil, unavailable(err)
	}
	if err := a.setTexts(row); err != nil {
		return nil, err
	}
	a.followParams(d)
	return a, a.unhidden(d, func() ([]byte, error) {
		view, _, err := tx.pendingGet(keyStr(prefixView, a.Token))
		if err != nil {
			return nil, unavailable(err)
		}
		return view, nil
	})
}

// texts are what of an action may be large. They have a row of their own, which is written seldom and as it is: nobody
// waits for the sequencer to encode them again at every step of the action.
func (a *ActionRow) texts() []byte {
	parts := []string{a.Params, a.Context}
	if a.Result != nil {
		parts = append(parts, a.Result.Value)
	}
	var row []byte
	for _, part := range parts {
		row = append(binary.BigEndian.AppendUint32(row, uint32(len(part))), part...)
	}
	return row
}

func (a *ActionRow) setTexts(row []byte) error {
	into := []*string{&a.Params, &a.Context}
	if a.Result != nil {
		into = append(into, &a.Result.Value)
	}
	for _, part := range into {
		if len(row) < 4 || uint64(len(row)-4) < uint64(binary.BigEndian.Uint32(row)) {
			return &sdk.Error{Code: sdk.CodeInternal, Op: "read action: its texts are cut"}
		}
		n := 4 + int(binary.BigEndian.Uint32(row))
		*part, row = string(row[4:n]), row[n:]
	}
	return nil
}

// happened adds an event that comes from the record just written.
func (tx *tx) happened(a *ActionRow, typ string, by Who, code, reason string) {
	hash := tlog.RecordHash(tx.commit.Records[tx.start+4:])
	seq := tx.q.tree.Size()
	a.Events = append(slices.Clip(a.Events), ActionEvent{Type: typ, Seq: seq, Hash: hex.EncodeToString(hash[:]),
		At: tx.now, By: by.Principal, Code: code, Reason: reason})
	a.Updated = tx.now
}
