package store

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// ActionChange is what happens to an action in the write that records a decision. Its implementations are NewAction and
// StartAction.
type ActionChange interface {
	// begin looks before anything else. An error refuses the command; done means that nothing is to be decided.
	begin(tx *tx, c *Decide) (done bool, err error)
	// members adds what the decision's record says about the action.
	members(o *wire.Writer)
	// decided learns the decision, c.Out, once it is recorded.
	decided(tx *tx, c *Decide)
	// void takes back what a permit that came too late has made of the action.
	void(tx *tx, c *Decide)
	// id is the action that follows a defer of this decision, "" for none.
	id() string
}

func unknownAction() *sdk.Error {
	return sdk.Errf(sdk.CodeUnknownAction, "there is no such action, or it is not this key's to see; ids are looked "+
		"up whole")
}

// NewAction makes an action of a decision. A submission that equals one of the same key within ActionTwinFor, or has
// its Idempotency-Key, makes none: it gives that one, unless today's answer is stricter.
type NewAction struct {
	Action ActionRow // what is known before the decision
	Idem   *[16]byte // hash of key and Idempotency-Key

	Out  ActionRow
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

func (n *NewAction) idemHash() [16]byte {
	if n.Idem == nil {
		return [16]byte{}
	}
	return *n.Idem
}

func (n *NewAction) begin(tx *tx, c *Decide) (bool, error) {
	n.sum = n.identity(c)
	if n.texts == nil {
		n.texts = n.Action.texts()
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
		c.verdict = sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonCallIDConflict}
		c.deny(sdk.ReasonCallIDConflict, "the Idempotency-Key was used for another action within 10 minutes")
		return false, nil
	}
	a, err := tx.whole(string(answer[8:]))
	switch {
	case err != nil:
		return false, err
	case a == nil && hash == n.idemHash(): // it may have been executed: nothing is permitted a second time
		c.verdict = sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonCallIDConflict}
		c.deny(sdk.ReasonCallIDConflict, "the action of this Idempotency-Key has ended and is no longer kept; to submit it "+
			"again, send it with another key")
		return false, nil
	case a == nil:
		return false, nil
	}
	stands, err := c.actionStands(tx, a)
	if err != nil {
		return false, err
	}
	if !stands {
		c.grants = nil // a repeat spends none
		return false, nil
	}
	if d := tx.st.live[a.Token]; d != nil && c.unhide(tx, d) {
		return true, nil
	}
	if hash == n.idemHash() && a.Effect == sdk.Permit.String() { // a twin of the same moment is no call of its own
		sums, over, err := tx.within(c.Limits.Charges, true)
		if err != nil {
			return false, err
		}
		if over != nil {
			c.verdict = sdk.Verdict{Effect: sdk.Deny, Code: over.code()}
			c.overrun(over)
			return false, nil
		}
		tx.charge(c.Limits.Charges, sums, true)
	}
	tx.touch(c.Key)
	n.Out, n.Twin = *a.At(tx.decided(a)), true
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
	a.KeyID, a.AgentID, a.SessionID, a.ToolID, a.Digest, a.Created = c.Key.ID, c.AgentID, c.SessionID, c.ToolID, c.Digest,
		tx.now
	a.applyDecision(c, tx.now)
	a.Charged = c.charged
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
	if d := tx.st.live[a.Token]; d != nil && a.waitsFor() { // it may have joined a call that approvers have changed
		n.Out.follow(d, tx.stands(d))
		n.Out.followParams(d)
	}
}
