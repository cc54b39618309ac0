package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// The states of a deferred call.
const (
	Pending  = "pending"
	Approved = "approved"
	Denied   = "denied"
	Expired  = "expired"
	Consumed = "consumed"
)

// SignOff is one approval.
type SignOff struct {
	Key    string    `json:"key"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Grant  *GrantAsk `json:"grant,omitempty"`
}

// GrantAsk is the standing grant that an approval asks for beside the call itself.
type GrantAsk struct {
	TTL       time.Duration `json:"ttl"`
	MaxUses   uint64        `json:"max_uses,omitempty"` // 0 is no limit
	SessionID string        `json:"session_id,omitempty"`
}

// Defer is one deferred call. Outside the sequencer it is only ever seen as a copy.
type Defer struct {
	Token      string    `json:"token"`
	Status     string    `json:"status"`
	KeyID      string    `json:"key_id"`
	AgentID    string    `json:"agent_id"`
	SessionID  string    `json:"session_id,omitempty"`
	ToolID     string    `json:"tool_id"`
	Operation  string    `json:"operation,omitempty"`
	CallID     string    `json:"call_id"`
	DecisionID string    `json:"decision_id"`
	Digest     Hash      `json:"digest"`
	RuleID     string    `json:"rule_id,omitempty"`
	Code       string    `json:"code"`
	Reason     string    `json:"reason,omitempty"`
	Policy     string    `json:"policy"`
	Created    time.Time `json:"created_at"`
	Expires    time.Time `json:"expires_at"`
	Signed     []SignOff `json:"approvals,omitempty"`
	GrantID    string    `json:"grant_id,omitempty"` // that its approval made
	ResolvedBy string    `json:"resolved_by,omitempty"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	EndReason  string    `json:"end_reason,omitempty"`
	EndedBy    uint64    `json:"ended_by,omitempty"` // the first record of its end; 0 while it is open
	// the action that began it; those that joined later have rows of their own
	Actions []string `json:"actions,omitempty"`

	Moves  []ActionEvent `json:"moves,omitempty"` // what happened to the actions that wait for it
	joined []string      // of a live one, in memory
	slot   int           // of a live one, among those that wait

	// how long the rule lets it, and then its approval, wait; 0 is the default
	TTL     time.Duration `json:"ttl,omitempty"`
	Quorums []sdk.Quorum  `json:"quorums"`
	// what the rules ask for the call as an approver changed it; a redemption may add to it
	Asked        []sdk.Quorum    `json:"asked,omitempty"`
	Priority     sdk.Priority    `json:"priority,omitempty"`
	ArgsHash     Hash            `json:"args_hash"`
	ContextHash  Hash            `json:"context_hash"`
	Modified     json.RawMessage `json:"modified_args,omitempty"` // what the approver put in place of the args
	ModifiedHash Hash            `json:"modified_hash,omitzero"`
	ModifiedCall Hash            `json:"modified_call,omitzero"`   // the digest of the call with them
	Changes      int             `json:"changes,omitempty"`        // how often approvers put other args in place
	Approval     string          `json:"approval_token,omitempty"` // of its actions, since that was done
	Withdrawn    bool            `json:"withdrawn,omitempty"`      // it was approved, and denied after that
	// the audit policy keeps no args, so no record has Modified
	DigestOnly bool   `json:"digest_only,omitempty"`
	Hidden     Hidden `json:"hidden,omitzero"` // what of the call approvers are not shown
	Noted      bool   `json:"noted,omitempty"` // the agent has sent a note with the call: see Store.AgentNote
	// approvals in all, as far as can be known; set on the copies that leave the store
	Required int `json:"-"`
}

// signers are the approvers so far.
func (d *Defer) signers() []string {
	out := make([]string, len(d.Signed))
	for i, s := range d.Signed {
		out[i] = s.Key
	}
	return out
}

// asks lists what the rules ask for the call as it is now.
func (d *Defer) asks() []sdk.Quorum {
	if d.Modified != nil {
		return d.Asked
	}
	return d.Quorums
}

// Rules lists the rules that ask for approvals of the call as it is now, and the step of each. "" is the chain's
// default.
func (d *Defer) Rules() (rules, steps []string) {
	for _, q := range d.asks() {
		known := false
		for i := range rules {
			known = known || rules[i] == q.Rule && steps[i] == q.Step
		}
		if !known {
			rules, steps = append(rules, q.Rule), append(steps, q.Step)
		}
	}
	return rules, steps
}

func (d *Defer) open() bool { return d.Status == Pending || d.Status == Approved }

// waiting is the pending deferred call of that digest, or nil.
func (tx *tx) waiting(digest [32]byte) *Defer {
	var is *Defer
	var over []*Defer
	for _, d := range tx.st.alike[digest] {
		switch {
		case tx.st.doomed(d) != nil || d.over(tx.times):
			over = append(over, d)
		case is == nil && tx.stands(d) == Pending:
			is = d
		}
	}
	for _, d := range over {
		if !tx.denyDoomed(d) {
			tx.expireOne(d)
		}
	}
	return is
}

// find is the defer with that token in any state, or nil.
func (tx *tx) find(token string) (*Defer, error) {
	if d := tx.st.live[token]; d != nil {
		tx.denyDoomed(d)
		return d, nil
	}
	if d := tx.closed[token]; d != nil {
		return d, nil
	}
	row, found, err := tx.get(keyStr(prefixDefer, token))
	if err != nil {
		return nil, unavailable(err)
	}
	if !found {
		return nil, nil
	}
	d := &Defer{}
	if err := json.Unmarshal(row, d); err != nil {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "read defer", Err: err}
	}
	if d.open() { // open calls are in memory, under a sum: somebody has changed this row
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "read defer",
			Err: errors.New("a call that has ended is " + d.Status + " in its row")}
	}
	return d, nil
}

func (tx *tx) putDefer(d *Defer) {
	row, err := json.Marshal(d)
	tx.keep(err)
	tx.set(keyStr(prefixDefer, d.Token), row)
	tx.s.open.put(d, tx.ticket != nil)
}

// move takes d to another state, keeps the lists right, and wakes those who wait for it once the batch is on disk.
func (tx *tx) move(d *Defer, status, by, reason string, expires time.Time) {
	if d.Status == Pending && status != Pending {
		tx.st.unpend(d)
	}
	if d.Status == Approved && status == Pending {
		tx.st.pending[d.KeyID]++
	}
	tx.journal(undo{moved: d, to: status, was: deferState{d.Status, d.ResolvedBy, d.EndReason, d.Expires, d.ResolvedAt,
		d.Actions, d.joined}})
	d.Status, d.Expires = status, expires
	if d.open() {
		tx.st.remind(d, tx.s.ends(d))
	} else {
		tx.st.unremind(d.Token)
	}
	if status != Consumed {
		d.ResolvedBy, d.EndReason, d.ResolvedAt = by, reason, tx.now
	}
	if !d.open() {
		d.EndedBy = tx.q.tree.Size() + 1
		for _, action := range d.joined {
			tx.del(joinRow(d.Token, action))
		}
		d.Actions, d.joined = d.actions(), nil // they leave with the call
	}
	tx.putDefer(d)
	if !d.open() {
		if tx.closed == nil {
			tx.closed = map[string]*Defer{}
		}
		tx.closed[d.Token] = d
		tx.st.drop(d)
		tx.del(keyStr(prefixLive, d.Token))
	}
	if waiting := tx.st.watchers[d.Token]; len(waiting) > 0 {
		delete(tx.st.watchers, d.Token)
		tx.onDone = append(tx.onDone, func() {
			for _, ch := range waiting {
				close(ch)
			}
		})
	}
}

func (tx *tx) deferRecord(typ string, d *Defer, by Who, reason string) {
	o := tx.record(typ)
	by.write(&o)
	o.Str("defer_token", d.Token)
	o.Str("status", d.Status)
	o.Str("agent_id", d.AgentID)
	o.Str("session_id", d.SessionID)
	o.Str("tool_id", d.ToolID)
	o.Str("call_id", d.CallID)
	o.Str("decision_id", d.DecisionID)
	o.Str("asked_by", d.KeyID)
	o.Opt("rule_id", d.RuleID)
	o.Opt("reason", reason)
	o.Opt("operation", d.Operation)
	o.Opt("priority", string(d.Priority))
	o.Int("approvals", int64(len(tx.counting(d))))
	o.Int("approvals_required", int64(tx.required(d)))
	if typ == "defer_resolved" {
		o.Bool("approved", d.Status == Approved)
		o.Str("approver_id", d.ResolvedBy)
		o.True("withdrawn", d.Withdrawn)
	}
	if d.Status == Pending || typ == "defer_signed" || typ == "defer_resolved" { // what approvers are shown, or were
		o.Str("call_digest", tx.s.CallDigest(d.Stands()))
	}
	if d.Modified != nil {
		var named [2 * sha256.Size]byte // keyed, as that of the call: args may be kept as a digest only
		tx.s.nameCall(&named, sha256.Sum256(append([]byte("modified args\x00"), d.ModifiedHash[:]...)))
		o.Ascii("modified_digest", named[:])
		if !d.DigestOnly {
			o.Raw("modified_args", d.Modified)
		}
	}
	o.Str("expires_at", d.Expires.UTC().Format(time.RFC3339Nano))
	if ids := d.actions(); len(ids) > 0 {
		o.Strs("action_ids", ids)
	}
	tx.end(o)
	if typ == "defer_resolved" || typ == "defer_expired" {
		tx.moved(d, by)
	}
}

var system = Who{Principal: "system", Method: "system", Surface: "system"}

// ends is when d ends if nobody does anything: its own time, or that of the key that asked.
func (s *Store) ends(d *Defer) time.Time {
	at := d.Expires
	k := s.keys.byID[d.KeyID]
	if k == nil {
		return d.Created
	}
	if r := k.revoked.Load(); r != nil && r.At.Before(at) {
		at = r.At
	}
	if !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(at) {
		at = k.ExpiresAt
	}
	return at
}

// denyOrphan denies d if the key that asked is no longer live, and reports whether it did.
func (tx *tx) denyOrphan(d *Defer) bool {
	why := "the asking key was revoked"
	k := tx.s.keys.byID[d.KeyID]
	switch {
	case !d.open():
		return false
	case k != nil && k.Revoked(tx.now) == nil && !k.Expired(tx.now):
		return false
	case k != nil && k.Revoked(tx.now) == nil:
		why = "the asking key expired"
	}
	tx.move(d, Denied, "system", why, d.Expires)
	tx.deferRecord("defer_resolved", d, system, why)
	return true
}

// expireOne reports whether the time of d is over, and ends it for good unless that hangs on a clock that is in doubt.
func (tx *tx) expireOne(d *Defer) bool { return tx.expireNow(d) || d.over(tx.times) }

// expireNow ends d if its time is certainly over, and reports whether it is.
func (tx *tx) expireNow(d *Defer) bool {
	if !d.open() || tx.mute || tx.now.Before(d.Expires) {
		return !d.open() && d.Status == Expired
	}
	tx.move(d, Expired, "system", sdk.ReasonApprovalTimeout, d.Expires)
	tx.deferRecord("defer_expired", d, system, sdk.ReasonApprovalTimeout)
	return true
}

// denyPendingOf denies what a key has pending.
func (tx *tx) denyPendingOf(k *Key, by Who) {
	tx.deny(&sweep{Key: k.ID, At: tx.now, By: by, Why: "the asking key was revoked"})
}

// DeferStatus reads one deferred call, in order with the changes. With Watch set and the defer still pending, Changed
// is closed when it moves.
type DeferStatus struct {
	Token string
	Key   *Key
	Watch bool

	Out     Defer
	Changed chan struct{}
}

func (c *DeferStatus) apply(tx *tx) error {
	if err := tx.live(c.Key); err != nil {
		return err
	}
	d, err := tx.find(c.Token)
	if err != nil {
		return err
	}
	mine := d != nil && d.KeyID == c.Key.ID
	if d == nil || !mine && (c.Key.scope&sdk.ScopeApprove == 0 || !c.Key.Sees(d.AgentID)) {
		return &sdk.Error{Code: sdk.CodeUnknownDefer, Field: "defer_token",
			Msg: "there is no such deferred call, or it is not this key's to see"}
	}
	tx.expireOne(d)
	c.Out = tx.shown(d)
	if c.Watch && c.Out.Status == Pending {
		c.Changed = make(chan struct{})
		tx.st.watchers[d.Token] = append(tx.st.watchers[d.Token], c.Changed)
	}
	return nil
}

// StopWatch takes a DeferStatus' channel off the list again.
type StopWatch struct {
	Token   string
	Changed chan struct{}
}

func (c *StopWatch) apply(tx *tx) error {
	list := tx.st.watchers[c.Token]
	for i, ch := range list {
		if ch == c.Changed {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(tx.st.watchers, c.Token)
		return nil
	}
	tx.st.watchers[c.Token] = list
	return nil
}

// actions are those that wait for the deferred call.
func (d *Defer) actions() []string {
	if len(d.joined) == 0 {
		return d.Actions
	}
	return append(d.Actions[:len(d.Actions):len(d.Actions)], d.joined...)
}
