package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
}

// Defer is one deferred call. Outside the sequencer it is only ever seen as a copy.
type Defer struct {
	Token      string    `json:"token"`
	Status     string    `json:"status"`
	KeyID      string    `json:"key_id"`
	AgentID    string    `json:"agent_id"`
	SessionID  string    `json:"session_id,omitempty"`
	ToolID     string    `json:"tool_id"`
	CallID     string    `json:"call_id"`
	DecisionID string    `json:"decision_id"`
	Digest     [32]byte  `json:"digest"`
	RuleID     string    `json:"rule_id,omitempty"`
	Code       string    `json:"code"`
	Reason     string    `json:"reason,omitempty"`
	Policy     string    `json:"policy"`
	Created    time.Time `json:"created_at"`
	Expires    time.Time `json:"expires_at"`
	Need       int       `json:"approvals_required"`
	Signed     []SignOff `json:"approvals,omitempty"`
	ResolvedBy string    `json:"resolved_by,omitempty"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	EndReason  string    `json:"end_reason,omitempty"`
	Actions    []string  `json:"actions,omitempty"` // actions that wait for it
}

func (d *Defer) open() bool { return d.Status == Pending || d.Status == Approved }

type callKey struct{ key, call string }

// state is what the sequencer's goroutine alone may touch.
type state struct {
	live     map[string]*Defer   // pending and approved, by token
	byDigest map[[32]byte]*Defer // pending
	byCall   map[callKey]string  // token of a live defer, by the call that asked
	pending  map[string]int      // per key
	watchers map[string][]chan struct{}
	due      time.Time // no live defer expires before it; zero if there is none
}

func newState() *state {
	return &state{live: map[string]*Defer{}, byDigest: map[[32]byte]*Defer{}, byCall: map[callKey]string{}, pending: map[string]int{}, watchers: map[string][]chan struct{}{}}
}

// recount works out when the first live defer expires. It looks at all of them, so it runs only when some have expired;
// between, due may be early (one needless wake-up), never late.
func (st *state) recount() {
	st.due = time.Time{}
	for _, d := range st.live {
		st.soonest(d.Expires)
	}
}

func (st *state) soonest(at time.Time) {
	if st.due.IsZero() || at.Before(st.due) {
		st.due = at
	}
}

// sorted lists the live defers that fit, oldest token first, so that the order of records does not depend on a map.
func (st *state) sorted(fits func(*Defer) bool) []*Defer {
	var out []*Defer
	for _, d := range st.live {
		if fits(d) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *Defer) int { return strings.Compare(a.Token, b.Token) })
	return out
}

func (s *Store) loadDefers(st *state) error {
	return s.scan(prefixLive, func(key, _ []byte) error {
		row, found, err := s.get(keyStr(prefixDefer, string(key[1:])))
		if err != nil {
			return err
		}
		d := &Defer{}
		if !found {
			return fmt.Errorf("a live defer has no row")
		}
		if err := json.Unmarshal(row, d); err != nil {
			return fmt.Errorf("a defer cannot be read: %w", err)
		}
		st.add(d)
		return nil
	})
}

func (st *state) add(d *Defer) {
	st.live[d.Token] = d
	st.soonest(d.Expires)
	st.byCall[callKey{d.KeyID, d.CallID}] = d.Token
	if d.Status == Pending {
		st.byDigest[d.Digest] = d
		st.pending[d.KeyID]++
	}
}

// unpend takes d off the lists of pending ones.
func (st *state) unpend(d *Defer) {
	if st.byDigest[d.Digest] == d {
		delete(st.byDigest, d.Digest)
	}
	if st.pending[d.KeyID]--; st.pending[d.KeyID] <= 0 {
		delete(st.pending, d.KeyID)
	}
}

// find is the defer with that token in any state, or nil.
func (tx *tx) find(token string) (*Defer, error) {
	if d := tx.st.live[token]; d != nil {
		return d, nil
	}
	if d := tx.closed[token]; d != nil {
		return d, nil
	}
	row, found, err := tx.s.get(keyStr(prefixDefer, token))
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
	return d, nil
}

func (tx *tx) putDefer(d *Defer) {
	row, err := json.Marshal(d)
	tx.keep(err)
	tx.set(keyStr(prefixDefer, d.Token), row)
}

// move takes d to another state, keeps the lists right, and wakes those who wait for it once the batch is on disk.
func (tx *tx) move(d *Defer, status, by, reason string, expires time.Time) {
	if d.Status == Pending && status != Pending {
		tx.st.unpend(d)
	}
	if d.Status == Approved && status == Pending {
		if tx.st.byDigest[d.Digest] == nil { // the same call may have been deferred again meanwhile
			tx.st.byDigest[d.Digest] = d
		}
		tx.st.pending[d.KeyID]++
	}
	d.Status, d.Expires = status, expires
	if d.open() {
		tx.st.soonest(expires)
	}
	if status != Consumed {
		d.ResolvedBy, d.EndReason, d.ResolvedAt = by, reason, tx.now
	}
	tx.putDefer(d)
	tx.actionsMoved(d)
	if !d.open() {
		if tx.closed == nil {
			tx.closed = map[string]*Defer{}
		}
		tx.closed[d.Token] = d
		delete(tx.st.live, d.Token)
		if asked := (callKey{d.KeyID, d.CallID}); tx.st.byCall[asked] == d.Token {
			delete(tx.st.byCall, asked)
		}
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
	o.Int("approvals", int64(len(d.Signed)))
	o.Int("approvals_required", int64(d.Need))
	o.Str("expires_at", d.Expires.UTC().Format(time.RFC3339Nano))
	if len(d.Actions) > 0 {
		o.Strs("action_ids", d.Actions)
	}
	tx.end(o)
}

var system = Who{Principal: "system", Method: "system", Surface: "system"}

// expire ends every live defer whose time is over.
func (tx *tx) expire() {
	if due := tx.st.due; due.IsZero() || tx.now.Before(due) {
		return
	}
	for _, d := range tx.st.sorted(func(d *Defer) bool { return !tx.now.Before(d.Expires) }) {
		tx.expireOne(d)
	}
	tx.st.recount()
}

// expireOne ends d if its time is over, and reports whether it is.
func (tx *tx) expireOne(d *Defer) bool {
	if !d.open() || tx.now.Before(d.Expires) {
		return !d.open() && d.Status == Expired
	}
	tx.move(d, Expired, "system", sdk.ReasonApprovalTimeout, d.Expires)
	tx.deferRecord("defer_expired", d, system, sdk.ReasonApprovalTimeout)
	return true
}

// denyPendingOf denies what a key has pending.
func (tx *tx) denyPendingOf(k *Key, by Who) {
	for _, d := range tx.st.sorted(func(d *Defer) bool { return d.KeyID == k.ID }) {
		tx.move(d, Denied, by.Principal, "the asking key was revoked", d.Expires)
		tx.deferRecord("defer_resolved", d, by, "the asking key was revoked")
	}
}

// Approve signs a deferred call off, or ends it.
type Approve struct {
	Token       string
	Key         *Key
	By          Who
	Yes         bool
	Reason      string
	ApprovedTTL time.Duration // how long an approval may be redeemed
	Idem        *Idempotency  // nil without an Idempotency-Key
	Answer      func(d *Defer) []byte

	Out Defer
}

func (c *Approve) apply(tx *tx) error {
	if err := c.Key.live(tx.now); err != nil {
		return err
	}
	if c.Idem != nil {
		if done, err := c.Idem.look(tx); done || err != nil {
			return err
		}
	}
	d, err := tx.find(c.Token)
	if err != nil {
		return err
	}
	if d == nil || !c.Key.Sees(d.AgentID) {
		return sdk.FieldErrf(sdk.CodeUnknownDefer, "defer_token", "there is no such deferred call, or it is not this key's to answer")
	}
	if tx.s.sameLine(c.Key.ID, d.KeyID) || c.Key.ActsAs(d.AgentID) {
		return sdk.Errf(sdk.CodeSelfApproval, "a key that asked for a call, or acts as the agent that did, cannot answer it")
	}
	if tx.expireOne(d) {
		return sdk.Errf(sdk.CodeDeferExpired, "the deferred call expired at %s", d.Expires.UTC().Format(time.RFC3339))
	}
	if asker := tx.s.keys.byID[d.KeyID]; d.Status == Pending && (asker == nil || asker.Revoked(tx.now) != nil) {
		tx.move(d, Denied, "system", "the asking key was revoked", d.Expires)
		tx.deferRecord("defer_resolved", d, system, "the asking key was revoked")
	}
	if d.Status != Pending {
		return &sdk.Error{Code: sdk.CodeAlreadyResolved, Msg: fmt.Sprintf("the deferred call was %s by %s at %s", d.Status, d.ResolvedBy, d.ResolvedAt.UTC().Format(time.RFC3339)),
			More: map[string]string{"resolved_by": d.ResolvedBy, "resolved_at": d.ResolvedAt.UTC().Format(time.RFC3339), "resolution": d.Status}}
	}
	c.settle(tx, d)
	c.Out = *d
	if c.Idem != nil {
		c.Idem.keep(tx, c.Answer(&c.Out))
	}
	return nil
}

// settle adds one sign-off to a pending defer and resolves it when that is enough.
func (c *Approve) settle(tx *tx, d *Defer) {
	if !c.Yes {
		tx.move(d, Denied, c.Key.ID, c.Reason, d.Expires)
		tx.deferRecord("defer_resolved", d, c.By, c.Reason)
		return
	}
	tx.dropRevoked(d)
	for _, s := range d.Signed {
		if tx.s.sameLine(s.Key, c.Key.ID) {
			tx.deferRecord("defer_signed", d, c.By, "signed before")
			tx.putDefer(d)
			return
		}
	}
	d.Signed = append(d.Signed, SignOff{c.Key.ID, tx.now, c.Reason})
	if len(d.Signed) < d.Need {
		tx.deferRecord("defer_signed", d, c.By, c.Reason)
		tx.putDefer(d)
		return
	}
	tx.deferRecord("defer_signed", d, c.By, c.Reason)
	tx.move(d, Approved, c.Key.ID, c.Reason, tx.now.Add(c.ApprovedTTL))
	tx.deferRecord("defer_resolved", d, c.By, c.Reason)
}

// sameLine reports whether two keys are one key and its rolled successors.
func (s *Store) sameLine(a, b string) bool {
	if a == b {
		return true
	}
	ka, kb := s.keys.byID[a], s.keys.byID[b]
	return ka != nil && kb != nil && ka.root() == kb.root()
}

// dropRevoked forgets sign-offs whose key was revoked since.
func (tx *tx) dropRevoked(d *Defer) {
	kept := d.Signed[:0:0]
	for _, s := range d.Signed {
		if k := tx.s.keys.byID[s.Key]; k != nil && k.Revoked(tx.now) == nil {
			kept = append(kept, s)
		}
	}
	d.Signed = kept
}

// DeferStatus reads one deferred call, in order with the changes. With Watch set and the defer still pending, Changed is
// closed when it moves.
type DeferStatus struct {
	Token string
	Key   *Key
	Watch bool

	Out     Defer
	Changed chan struct{}
}

func (c *DeferStatus) apply(tx *tx) error {
	if err := c.Key.live(tx.now); err != nil {
		return err
	}
	d, err := tx.find(c.Token)
	if err != nil {
		return err
	}
	mine := d != nil && d.KeyID == c.Key.ID
	if d == nil || !mine && (c.Key.scope&sdk.ScopeApprove == 0 || !c.Key.Sees(d.AgentID)) {
		return &sdk.Error{Code: sdk.CodeUnknownDefer, Field: "defer_token", Msg: "there is no such deferred call, or it is not this key's to see"}
	}
	tx.expireOne(d)
	c.Out = *d
	if c.Watch && d.Status == Pending {
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
