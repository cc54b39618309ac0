package store

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// class says what becomes of a command that reached the disk after its caller had been told that nothing can be
// recorded.
type class int

// The classes. Whoever was refused acts as if nothing had happened, so nothing may have been given; but what stops
// something stops it whatever its caller was told.
const (
	reading class = iota + 1 // changes nothing
	noting                   // keeps a fact that lets nobody do anything
	taking                   // takes something away: it stands
	giving                   // lets somebody do something: it is void until it is sent again
)

// giver is a command that may be giving.
type giver interface {
	Command
	// void takes back what the command gave, as far as nothing has taken it away since. The rows that it journaled are put
	// back already. It runs at the head of the batch behind the command's own: no other command has seen what it did.
	void(tx *tx)
}

var _ = []giver{&Decide{}, &Approve{}, &ApproveAction{}, &CreateKey{}, &RollKey{}, &AddGrant{}, &KillSwitch{},
	&PutOperator{}, &PutSession{}, &FinishAction{}, &AcceptTool{}}

func (c *Decide) class() class {
	switch {
	case c.Out.Effect == sdk.Permit && c.decided:
		return giving
	case c.Out.Effect != sdk.Deny: // or an earlier answer was found
		return noting // a question that waits for a person, and whose token nobody was told
	}
	return taking
}

func (c *Approve) class() class {
	if c.Yes {
		return giving
	}
	return taking
}

func (c *ApproveAction) class() class { return c.Approve.class() }

func (c *KillSwitch) class() class {
	if c.Undo {
		return giving
	}
	return taking
}

func (*AddGrant) class() class      { return giving }
func (*CreateKey) class() class     { return giving }
func (*RollKey) class() class       { return giving } // that the old key ends stands
func (*PutOperator) class() class   { return giving }
func (*PutSession) class() class    { return giving }
func (*FinishAction) class() class  { return giving } // an end that its reporter may report again
func (*AcceptTool) class() class    { return giving }
func (*RevokeKey) class() class     { return taking }
func (*RevokeGrant) class() class   { return taking }
func (*EndSession) class() class    { return taking }
func (*DropCursor) class() class    { return taking }
func (*Trim) class() class          { return taking }
func (*MoveCursor) class() class    { return noting }
func (*SeeTool) class() class       { return noting }
func (*TouchSession) class() class  { return noting }
func (*SignInRefused) class() class { return noting }
func (*Note) class() class          { return noting }
func (*Scanned) class() class       { return noting }
func (*AnswerOnce) class() class    { return noting }
func (*DeferStatus) class() class   { return reading }
func (*StopWatch) class() class     { return reading }
func (*LookAt) class() class        { return reading }
func (*ListPending) class() class   { return reading }
func (*Asked) class() class         { return reading }
func (*ReadAction) class() class    { return reading }
func (Barrier) class() class        { return reading }
func (renewMark) class() class      { return reading }
func (settled) class() class        { return reading }

// undo is one change of state that a void command takes back.
type undo struct {
	row     []byte // of an answer that is remembered: it is forgotten
	counter counterKey
	amount  exact.Decimal // that was charged to counter, if it is not zero
	grant   *Grant        // one use of it
	moved   *Defer        // from how it was
	to      string
	was     deferState
}

// deferState is what move changes.
type deferState struct {
	status, by, reason string
	expires, at        time.Time
	actions, joined    []string
}

// journal keeps how to take a change back, if it is a command's.
func (tx *tx) journal(u undo) {
	if tx.ticket != nil {
		tx.ticket.undo = append(tx.ticket.undo, u)
	}
}

// unanswered marks the records of a batch that reached the disk after its refusals had gone out: they bind nobody. What
// its commands gave is taken back, the newest first.
func (tx *tx) unanswered(late []*ticket) {
	if len(late) == 0 {
		return
	}
	var list []byte
	for _, t := range late {
		for seq := t.first; seq != 0 && seq <= t.last; seq++ {
			list = appendUint(append(list, ','), seq)
		}
	}
	if len(list) > 0 {
		o := tx.record("unanswered")
		list[0] = '['
		o.Raw("seqs", append(list, ']'))
		o.Str("reason_code", sdk.ReasonAuditUnavailable)
		tx.end(o)
	}
	for _, t := range slices.Backward(late) {
		if t.result != nil || t.first == 0 || t.cmd.class() != giving {
			continue // refused; or it made no record: the answer was found from before, and what that gave stands
		}
		for _, u := range slices.Backward(t.undo) {
			tx.keep(tx.rewind(&u))
		}
		t.cmd.(giver).void(tx)
	}
}

// rewind takes one change back.
func (tx *tx) rewind(u *undo) error {
	switch {
	case u.row != nil:
		tx.setFresh(u.row, nil)
	case u.grant != nil:
		tx.unuse(u.grant)
	case u.moved != nil:
		tx.moveBack(u)
	default:
		return tx.uncharge(u.counter, u.amount)
	}
	return nil
}

func (tx *tx) uncharge(k counterKey, amount exact.Decimal) error {
	sum, err := tx.counted(k)
	if err != nil || amount.IsZero() {
		return err
	}
	neg, digits, exp := amount.Parts()
	back, err := exact.FromParts(!neg, digits, exp)
	if err != nil {
		return err
	}
	if sum, err = sum.Sum(back); err != nil || sum.Sign() < 0 { // its window may be gone
		return err
	}
	tx.st.counters[k] = sum
	tx.setFresh(k.row(), sum.Append(nil))
	return nil
}

// unuse gives a use of a grant back.
func (tx *tx) unuse(g *Grant) {
	n := g.uses.Add(^uint64(0))
	tx.set(keyStr(prefixUses, g.ID), binary.BigEndian.AppendUint64(nil, n))
	if g.Status(tx.now) == "live" && tx.s.grants.byID[g.ID] == nil {
		tx.s.grants.add(g)
	}
}

// moveBack undoes a move, unless something has moved the deferred call on since: that stands.
func (tx *tx) moveBack(u *undo) {
	d := u.moved
	if d.Status != u.to {
		return
	}
	if d.open() {
		tx.move(d, u.was.status, u.was.by, u.was.reason, u.was.expires)
	} else {
		d.Status, d.Expires, d.EndedBy = u.was.status, u.was.expires, 0
		tx.set(keyStr(prefixLive, d.Token), nil)
		d.Actions, d.joined = u.was.actions, u.was.joined
		for _, action := range d.joined {
			tx.set(joinRow(d.Token, action), nil)
		}
		tx.st.add(d)
	}
	d.ResolvedBy, d.EndReason, d.ResolvedAt = u.was.by, u.was.reason, u.was.at
	tx.st.remind(d, tx.s.ends(d))
	tx.putDefer(d)
}

// voided records what has been taken back.
func (tx *tx) voided(what string, fill func(o *wire.Writer)) {
	o := tx.record("voided")
	system.write(&o)
	o.Str("what", what)
	o.Str("reason_code", sdk.ReasonAuditUnavailable)
	fill(&o)
	tx.end(o)
}

// void takes a permit back: whoever asked was told DENY. Limits, grant and approval are as they were.
func (c *Decide) void(tx *tx) {
	tx.voided("permit", func(o *wire.Writer) {
		o.Str("decision_id", c.Out.DecisionID)
		o.Str("agent_id", c.AgentID)
		o.Str("tool_id", c.ToolID)
		o.Opt("grant_id", c.Out.GrantID)
		if d := tx.st.live[c.Out.Token]; d != nil {
			o.Str("defer_token", d.Token)
			o.Str("status", d.Status)
			o.Str("expires_at", d.Expires.UTC().Format(time.RFC3339Nano))
		}
		if c.Action != nil {
			c.Action.members(o)
		}
	})
	if c.Action != nil {
		c.Action.void(tx, c)
	}
}

// void denies the action: nobody was told of it, and sending it again makes another.
func (n *NewAction) void(tx *tx, c *Decide) {
	a := n.Out
	a.Status, a.Effect, a.Code, a.Reason = ActionDenied, sdk.Deny.String(), sdk.ReasonAuditUnavailable,
		"it could not be recorded in time"
	tx.happened(&a, EventDenied, system, a.Code, a.Reason)
	tx.putAction(&a)
}

// void makes the action as it was before its start.
func (n *StartAction) void(tx *tx, _ *Decide) { tx.putAction(&n.was) }

// void makes the action as it was, executing, so that its end can be reported again.
func (c *FinishAction) void(tx *tx) {
	tx.voided("action_result", func(o *wire.Writer) {
		o.Str("action_id", c.ID)
		o.Str("agent_id", c.was.AgentID)
		o.Str("tool_id", c.was.ToolID)
	})
	tx.putAction(&c.was)
	tx.setFresh(keyActionTexts(c.ID), c.was.texts())
}

// void takes a sign-off back, with what it brought about.
func (c *Approve) void(tx *tx) {
	if c.was == nil { // it was there before
		return
	}
	d, err := tx.find(c.was.Token)
	if err != nil || d == nil {
		tx.keep(err)
		return
	}
	if d.Status == c.was.Status { // else something has ended it since
		d.unchange(c.was)
		d.Moves = c.was.Moves
		if c.Modified != nil {
			tx.set(keyStr(prefixView, d.Token), c.wasView)
		}
		tx.putDefer(d)
	}
	tx.voided("approval", func(o *wire.Writer) {
		o.Str("defer_token", d.Token)
		o.Str("status", d.Status)
		o.Str("expires_at", d.Expires.UTC().Format(time.RFC3339Nano))
		o.Str("agent_id", d.AgentID)
		o.Str("tool_id", d.ToolID)
		o.Str("approver_id", c.Key.ID)
		if ids := d.actions(); len(ids) > 0 {
			o.Strs("action_ids", ids)
		}
	})
	if g := tx.s.grants.byID[c.Out.Granted]; c.Out.Granted != "" && g != nil {
		tx.voidGrant(g)
	}
}

func (c *ApproveAction) void(tx *tx) { c.Approve.void(tx) }

func (c *AddGrant) void(tx *tx) { tx.voidGrant(c.Grant) }

func (tx *tx) voidGrant(g *Grant) {
	if g.revoked.Load() == nil {
		tx.endGrant(g, system)
		tx.s.grants.drop(g) // at once: nothing may be permitted by it
	}
	tx.voided("grant", func(o *wire.Writer) {
		o.Str("grant_id", g.ID)
		o.Str("agent_id", g.AgentID)
	})
}

func (c *CreateKey) void(tx *tx) {
	if c.Key.revoked.Load() == nil {
		tx.revoke(c.Key, tx.now, system)
	}
	tx.voided("key", func(o *wire.Writer) { o.Str("key_id", c.Key.ID) })
}

// void ends the new key, whose value nobody was told. That the old one ends stands, and it may be rolled once more.
func (c *RollKey) void(tx *tx) {
	(&CreateKey{Key: c.New}).void(tx)
	old := tx.s.keys.byID[c.ID]
	old.again.Store(true)
	tx.putKey(old, old.state())
}

// void keeps the kill, unless another one has taken its place.
func (c *KillSwitch) void(tx *tx) {
	name := killName{c.Kill.Scope, tx.s.killed(c.Kill)}
	if is, _, _ := tx.s.kills.committed(name); is != nil {
		tx.putKill(is)
	}
	tx.voided("unkill", func(o *wire.Writer) {
		o.Str("scope", c.Kill.Scope)
		o.Str("target", c.Kill.Target)
	})
}

func (c *PutOperator) void(tx *tx) {
	c.In.mu.Lock()
	defer c.In.mu.Unlock()
	delete(c.In.byName, c.Operator.Name)
	tx.del(keyStr(prefixOperator, c.Operator.Name))
	tx.voided("operator", func(o *wire.Writer) { o.Str("operator", c.Operator.Name) })
}

func (c *PutSession) void(tx *tx) {
	c.In.mu.Lock()
	defer c.In.mu.Unlock()
	c.In.end(tx, c.Session.IDHash, "voided", system)
	tx.voided("session", func(o *wire.Writer) { o.Str("operator", c.Session.Operator) })
}
