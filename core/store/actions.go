package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// ActionChange is what happens to an action in the write that records a decision. Its implementations are in this file.
type ActionChange interface {
	// begin looks before anything else. An error refuses the command; done means that nothing is to be decided.
	begin(tx *tx, c *Decide) (done bool, err error)
	// members adds what the decision's record says about the action.
	members(o *wire.Writer)
	// decided learns the decision, c.Out, once it is recorded.
	decided(tx *tx, c *Decide)
	// id is the action that follows a defer of this decision, "" for none.
	id() string
}

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

// Action is one submitted action. Params, context and result are kept without the secrets that were found in them.
type Action struct {
	ID             string        `json:"id"`
	KeyID          string        `json:"key_id"`
	AgentID        string        `json:"agent_id"`
	SessionID      string        `json:"session_id,omitempty"`
	Tool           string        `json:"tool"`
	Operation      string        `json:"operation,omitempty"`
	ToolID         string        `json:"tool_id"` // of the decision
	Params         string        `json:"-"`       // JSON object; see texts
	Context        string        `json:"-"`       // JSON object; see texts
	ParamsMasked   bool          `json:"params_masked,omitempty"`
	ContextMasked  bool          `json:"context_masked,omitempty"`
	Modified       bool          `json:"modified,omitempty"` // the approver put other params in their place
	Digest         [32]byte      `json:"digest"`
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
	Token          string        `json:"token,omitempty"` // of the defer that it follows
	DeferExpires   time.Time     `json:"defer_expires_at,omitzero"`
	Created        time.Time     `json:"created_at"`
	Updated        time.Time     `json:"updated_at"`
	Decided        time.Time     `json:"decided_at"` // the permit or the approval that a start needs
	Events         []ActionEvent `json:"events"`
	Moved          bool          `json:"moved,omitempty"` // its defer has changed and the record of that is still to come
	Result         *ActionResult `json:"result,omitempty"`
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
func (a *Action) At(now time.Time) *Action {
	out := *a
	if out.waits() && now.Sub(out.Decided) >= ActionFor {
		out.Status, out.Reason = ActionDenied, ActionExpired
	}
	return &out
}

// waits reports whether the action could be started.
func (a *Action) waits() bool { return a.Status == ActionAllowed || a.Status == ActionApproved }

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

// take writes a decision into the action.
func (a *Action) take(c *Decide, now time.Time) {
	d := &c.Out
	a.Effect, a.Code, a.Reason, a.RuleID, a.Message, a.DecisionID = d.Effect.String(), d.Code, d.Reason, d.RuleID, d.Message, d.DecisionID
	a.Policy, a.Risk = c.Policy, RiskOf(&c.Verdict, d.Effect)
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

// action is the action with that id as it will be after this batch, or nil.
func (tx *tx) action(id string) (*Action, error) {
	row, found, err := tx.pendingGet(keyAction(id))
	if err != nil {
		return nil, unavailable(err)
	}
	if !found {
		return nil, nil
	}
	a := &Action{}
	if err := json.Unmarshal(row, a); err != nil {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "read action", Err: err}
	}
	return a, nil
}

func (tx *tx) putAction(a *Action) {
	row, err := json.Marshal(a)
	tx.keep(err)
	tx.setFresh(keyAction(a.ID), row)
}

// setFresh writes a row that this batch may have to read again.
func (tx *tx) setFresh(key, row []byte) {
	if tx.fresh == nil {
		tx.fresh = map[string][]byte{}
	}
	tx.fresh[string(key)] = row
	tx.set(key, row)
}

// whole is action with its texts.
func (tx *tx) whole(id string) (*Action, error) {
	a, err := tx.action(id)
	if err != nil || a == nil {
		return a, err
	}
	row, _, err := tx.pendingGet(keyActionTexts(id))
	if err != nil {
		return nil, unavailable(err)
	}
	return a, a.setTexts(row)
}

// texts are what of an action may be large. They have a row of their own, which is written seldom and as it is: nobody
// waits for the sequencer to encode them again at every step of the action.
func (a *Action) texts() []byte {
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

func (a *Action) setTexts(row []byte) error {
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
func (tx *tx) happened(a *Action, typ string, by Who, code, reason string) {
	hash := tlog.RecordHash(tx.records[tx.start+4:])
	seq := tx.q.tree.Size()
	a.Events = append(slices.Clip(a.Events), ActionEvent{Type: typ, Seq: seq, Hash: hex.EncodeToString(hash[:]), At: tx.now, By: by.Principal, Code: code, Reason: reason})
	a.Updated = tx.now
}

func unknownAction() *sdk.Error {
	return sdk.Errf(sdk.CodeUnknownAction, "there is no such action, or it is not this key's to see; ids are looked up whole")
}

// NewAction makes an action of a decision. A submission that equals one of the same key within ActionTwinFor, or has its
// Idempotency-Key, makes none: it gives that one, unless the call is denied by now.
type NewAction struct {
	Action   Action    // what is known before the decision
	Withheld string    // why params or context cannot be kept; the call is denied then
	Idem     *[16]byte // hash of key and Idempotency-Key

	Out  Action
	Twin bool // Out is the action of an earlier submission

	sum   [32]byte
	texts []byte
}

func (n *NewAction) id() string { return n.Action.ID }

// identity is what two submissions must share to be one: the call, tool and operation as they were sent, and the
// Idempotency-Key or that there is none.
func (n *NewAction) identity(c *Decide) [32]byte {
	var b []byte
	if n.Idem != nil {
		b = append(b, n.Idem[:]...)
	}
	for _, part := range []string{n.Action.Tool, n.Action.Operation} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return sha256.Sum256(append(b, c.Digest[:]...))
}

func (n *NewAction) twinHash() (out [16]byte) {
	sum := sha256.Sum256(append([]byte("action twin\x00"), n.sum[:]...)) // the digest in it holds the key's id
	copy(out[:], sum[:])
	return out
}

func (n *NewAction) begin(tx *tx, c *Decide) (bool, error) {
	n.sum = n.identity(c)
	if n.texts == nil {
		n.texts = n.Action.texts()
	}
	if n.Withheld != "" && c.Verdict.Effect != sdk.Deny {
		c.Verdict = sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonScanUnavailable, Priority: c.Verdict.Priority}
		c.deny(sdk.ReasonScanUnavailable, "the params could not be masked for keeping: "+n.Withheld)
	}
	if n.Idem != nil {
		if done, err := n.earlier(tx, c, *n.Idem, RepeatFor); done || err != nil {
			return done, err
		}
	}
	return n.earlier(tx, c, n.twinHash(), ActionTwinFor)
}

// earlier finds the action of an earlier submission. A denial of today wins over an action that was not denied.
func (n *NewAction) earlier(tx *tx, c *Decide, hash [16]byte, within time.Duration) (bool, error) {
	sum, answer, found, err := tx.remembered(prefixRepeat, hash, RepeatFor)
	if err != nil || !found || len(answer) < 8 {
		return false, err
	}
	if tx.now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(answer)))) >= within {
		return false, nil
	}
	if sum != n.sum {
		c.Verdict = sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonCallIDConflict}
		c.deny(sdk.ReasonCallIDConflict, "the Idempotency-Key was used for another action within 10 minutes")
		return false, nil
	}
	a, err := tx.whole(string(answer[8:]))
	if err != nil || a == nil {
		return false, err
	}
	denied := c.Verdict.Effect == sdk.Deny || tx.s.Killed(c.Key, c.AgentID, c.SessionID, c.ToolID) != nil
	if denied && a.Status != ActionDenied {
		return false, nil
	}
	tx.touch(c.Key)
	n.Out, n.Twin = *a.At(tx.now), true
	return true, nil
}

func (n *NewAction) members(o *wire.Writer) {
	o.Str("action_id", n.Action.ID)
	o.Str("action_event", EventCreated)
	o.Str("tool_name", n.Action.Tool)
	o.Str("request_hash", n.Action.RequestHash)
}

func (n *NewAction) decided(tx *tx, c *Decide) {
	a := n.Action
	a.KeyID, a.AgentID, a.SessionID, a.ToolID, a.Digest, a.Created = c.Key.ID, c.AgentID, c.SessionID, c.ToolID, c.Digest, tx.now
	a.take(c, tx.now)
	tx.happened(&a, EventCreated, c.By, "", "")
	tx.happened(&a, EventDecision, c.By, a.Code, a.Reason)
	tx.putAction(&a)
	tx.setFresh(keyActionTexts(a.ID), n.texts)
	tx.set(keyAgentAction(a.AgentID, a.ID), nil)
	answer := append(binary.BigEndian.AppendUint64(nil, uint64(tx.now.UnixNano())), a.ID...)
	tx.remember(prefixRepeat, n.twinHash(), RepeatFor, n.sum, answer)
	if n.Idem != nil && a.Code != sdk.ReasonCallIDConflict {
		tx.remember(prefixRepeat, *n.Idem, RepeatFor, n.sum, answer)
	}
	n.Out = a
}

// StartAction starts an allowed or approved action: it becomes executing by a permit that is recorded in the same write,
// and by nothing else.
type StartAction struct {
	ID   string
	Idem *[16]byte // hash of key, action and Idempotency-Key

	Out Action
	a   *Action
	c   *Decide
}

func (n *StartAction) id() string { return n.ID }

func (n *StartAction) begin(tx *tx, c *Decide) (bool, error) {
	a, err := tx.whole(n.ID)
	if err != nil {
		return false, err
	}
	if again, err := n.again(tx, c, a); again || err != nil {
		return again, err
	}
	if err := a.Startable(c.Key, tx.now); err != nil {
		return false, err
	}
	if !a.Modified && c.Digest != a.Digest {
		return false, &sdk.Error{Code: sdk.CodeInternal, Op: "start action: the call to start is not the one that was decided"}
	}
	n.a, n.c = a, c
	return false, nil
}

// again finds the start that had the same Idempotency-Key. A denial of today wins over it.
func (n *StartAction) again(tx *tx, c *Decide, a *Action) (bool, error) {
	if n.Idem == nil || a == nil || a.KeyID != c.Key.ID || a.Status != ActionExecuting {
		return false, nil
	}
	_, _, found, err := tx.remembered(prefixRepeat, *n.Idem, RepeatFor)
	if err != nil || !found || c.Verdict.Effect == sdk.Deny || tx.s.Killed(c.Key, c.AgentID, c.SessionID, c.ToolID) != nil {
		return false, err
	}
	tx.touch(c.Key)
	n.Out = *a
	return true, nil
}

// Startable says why a key may not start the action at that time. The action may be nil.
func (a *Action) Startable(k *Key, now time.Time) error {
	if a == nil || a.KeyID != k.ID || !k.Sees(a.AgentID) {
		return unknownAction()
	}
	if shown := a.At(now); a.waits() && !shown.waits() {
		return sdk.Errf(sdk.CodeActionExpired, "the action was %s at %s and not started within %v; submit it again", a.Status, a.Decided.UTC().Format(time.RFC3339), ActionFor)
	}
	switch {
	case a.waits():
		return nil
	case a.Status == ActionDenied && a.Reason == ActionExpired:
		return sdk.Errf(sdk.CodeActionExpired, "the action's approval expired; submit it again")
	}
	return sdk.Errf(sdk.CodeConflict, "the action is %s; only an allowed or approved action can be started, and only once", a.Status)
}

func (n *StartAction) members(o *wire.Writer) {
	o.Str("action_id", n.ID)
	o.Str("action_event", startEvent(n.c.Out.Effect))
	o.Str("tool_name", n.a.Tool)
}

// startEvent is what a decision at the start means for the action.
func startEvent(e sdk.Effect) string {
	switch e {
	case sdk.Permit:
		return EventStarted
	case sdk.Defer:
		return EventDecision
	}
	return EventDenied
}

func (n *StartAction) decided(tx *tx, c *Decide) {
	a := n.a
	switch c.Out.Effect {
	case sdk.Permit:
		a.Status, a.Updated = ActionExecuting, tx.now // the decision that it shows is the one that it was submitted with
		if n.Idem != nil {
			tx.remember(prefixRepeat, *n.Idem, RepeatFor, c.Digest, nil)
		}
	default:
		a.take(c, tx.now)
	}
	tx.happened(a, startEvent(c.Out.Effect), c.By, c.Out.Code, c.Out.Reason)
	tx.putAction(a)
	n.Out = *a
}

// actionsMoved lets the actions that follow a defer go on with it: d has just changed its state.
func (tx *tx) actionsMoved(d *Defer) {
	for _, id := range d.Actions {
		a, err := tx.action(id)
		if err != nil || a == nil {
			tx.keep(err)
			continue
		}
		if a.Token != d.Token || a.Status != ActionPending && a.Status != ActionApproved {
			continue
		}
		switch d.Status {
		case Pending:
			a.Status = ActionPending
		case Approved:
			a.Status, a.Decided = ActionApproved, tx.now
			if d.Modified != nil {
				tx.modify(a, string(d.Modified))
			}
		case Denied:
			a.Status, a.Reason = ActionDenied, d.EndReason
			if a.Reason == "" {
				a.Reason = "denied by " + d.ResolvedBy
			}
		case Expired:
			a.Status, a.Reason = ActionDenied, ActionExpired
		default:
			continue // consumed: whoever consumed it says what became of the action
		}
		a.Updated, a.DeferExpires, a.Moved = tx.now, d.Expires, true
		tx.putAction(a)
	}
}

// modify puts the approver's params in place of those that were sent.
func (tx *tx) modify(a *Action, params string) {
	with, err := tx.whole(a.ID)
	if err != nil {
		tx.keep(err)
		return
	}
	with.Params = params
	a.ParamsMasked, a.Modified = false, true
	tx.setFresh(keyActionTexts(a.ID), with.texts())
}

// actionsRecorded adds the event to the actions that d has moved: the record of its change has just been written.
func (tx *tx) actionsRecorded(d *Defer, by Who) {
	for _, id := range d.Actions {
		a, err := tx.action(id)
		if err != nil || a == nil {
			tx.keep(err)
			continue
		}
		if !a.Moved {
			continue
		}
		a.Moved = false
		switch a.Status {
		case ActionApproved:
			tx.happened(a, EventApproved, by, "", d.EndReason)
		case ActionDenied:
			tx.happened(a, EventDenied, by, "", a.Reason)
		}
		tx.putAction(a)
	}
}
