package store

import (
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// redeems is the token of the approval that the call wants to spend, "" if it wants none. A call_id that ends in
// "-resume" is one like any other, unless the same key asked for the same agent with what stands before that, and was
// deferred.
func (c *Decide) redeems(tx *tx) (token string, err error) {
	if c.Redeem.Token != "" || c.Redeem.CallID == "" {
		return c.Redeem.Token, nil
	}
	if token = tx.st.byCall[callKey{c.Key.ID, c.AgentID, c.Redeem.CallID}]; token != "" {
		return token, nil
	}
	// it has ended, or it joined another one
	_, answer, found, err := tx.remembered(prefixRepeat, c.Redeem.CallHash, RepeatFor)
	if err != nil || !found {
		return "", err
	}
	then, err := recalled(answer)
	if err != nil || then.Effect != sdk.Defer {
		return "", err
	}
	return then.Token, nil
}

// redeem spends an approval, once, for exactly the call that was approved.
func (c *Decide) redeem(tx *tx, token string) error {
	if done, err := c.redeemedBefore(tx, token); done || err != nil {
		return err
	}
	d, err := tx.find(token)
	if err != nil {
		return err
	}
	if d == nil || !c.fits(d) || tx.expireOne(d) || d.Status != Approved {
		if c.verdict.Effect != sdk.Deny {
			c.deny(sdk.ReasonApprovalMismatch, "the token is not an unused, unexpired approval of exactly this call")
		}
		return nil
	}
	if c.verdict.Effect == sdk.Deny {
		return nil // today's rules win; the approval is not spent
	}
	now := *d
	now.Signed = tx.standing(d)
	if c.verdict.Effect == sdk.Defer {
		now.Quorums = merged(d.Quorums, c.quorums)
		if d.Modified != nil {
			now.Asked = merged(d.Asked, c.quorums)
			now.under(&c.verdict, c.Policy.Version)
		}
	}
	if !tx.enough(now.Quorums, now.signers()) {
		if len(now.asks()) > len(d.asks()) { // the approvers who asked for a grant had not seen these rules
			for i := range now.Signed {
				now.Signed[i].Grant = nil
			}
		}
		d.Signed, d.Quorums, d.Asked = now.Signed, now.Quorums, now.Asked
		d.RuleID, d.Code, d.Reason, d.Priority, d.Policy = now.RuleID, now.Code, now.Reason, now.Priority, now.Policy
		tx.waitAgain(d, c.By, tx.now.Add(c.Defer.TTL), "more approvals are needed")
		c.Out.Effect, c.Out.Code, c.Out.Token, c.Out.Expires = sdk.Defer, d.Code, d.Token, d.Expires
		c.Out.Reason = "more approvals are needed than were given"
		return nil
	}
	sums, over, err := tx.within(c.Limits.Charges, false)
	if err != nil {
		return err
	}
	if over != nil {
		c.overrun(over) // the approval is not spent
		return nil
	}
	tx.charge(c.Limits.Charges, sums, false)
	d.Signed, d.Quorums, d.Asked = now.Signed, now.Quorums, now.Asked
	tx.move(d, Consumed, d.ResolvedBy, d.EndReason, d.Expires)
	c.Out.Effect, c.Out.Code, c.Out.Token = sdk.Permit, sdk.ReasonApprovalConsumed, d.Token
	c.Out.Reason, c.Out.RuleID, c.Out.Message = "approved by "+d.ResolvedBy, d.RuleID, ""
	if c.Names.Keyed {
		tx.remember(prefixRepeat, c.Names.Hashes[len(c.Names.Hashes)-1], RepeatFor, c.Digest, c.Out.memo())
	}
	return nil
}

// redeemedBefore answers a redemption that was made under the same Idempotency-Key before as it was answered then:
// nothing is spent a second time. Only a redemption that was permitted is remembered, so that one which came too early
// can be tried again. Another call under that key is a conflict.
func (c *Decide) redeemedBefore(tx *tx, token string) (done bool, err error) {
	if !c.Names.Keyed {
		return false, nil
	}
	digest, answer, found, err := tx.remembered(prefixRepeat, c.Names.Hashes[len(c.Names.Hashes)-1], RepeatFor)
	if err != nil || !found {
		return false, err
	}
	if digest != c.Digest {
		c.conflict()
		return true, nil
	}
	then, err := recalled(answer)
	if err != nil || then.Code != sdk.ReasonApprovalConsumed || then.Token != token {
		return false, err
	}
	c.Out.Repeat = true
	if c.verdict.Effect == sdk.Deny {
		return true, nil
	}
	return true, c.redeemedAgain(tx, then)
}

// redeemedAgain answers the repeat of a redemption that was permitted.
func (c *Decide) redeemedAgain(tx *tx, then *Decision) error {
	stands, err := c.signedStill(tx, then.Token)
	if err != nil {
		return err
	}
	if !stands {
		c.deny(sdk.ReasonApprovalMismatch, "too few of those who approved the call may still do so")
		return nil
	}
	return c.permitAgain(tx, then)
}

// approved finds an unspent approval of exactly this call, for an agent that has forgotten its token. It gives nil if
// there is none. If an action waits for an approval, only the action may spend it.
func (tx *tx) approved(c *Decide) *Defer {
	if c.Action != nil || c.NoDefer || c.verdict.Effect != sdk.Defer {
		return nil
	}
	var is *Defer
	for _, d := range tx.st.alike[c.Digest] {
		if tx.unspent(d) && (is == nil || c.fits(d)) { // rather one whose arguments nobody has changed
			is = d
		}
	}
	return is
}

// unspent reports whether a call is approved, its approval can be redeemed, and no action waits for that.
func (tx *tx) unspent(d *Defer) bool {
	return len(d.actions()) == 0 && !d.over(tx.times) && tx.stands(d) == Approved
}

// redeemFound redeems d if the call asks for that without a token, and d approves it. The answer is no repeat, because
// nobody got this permit before.
func (c *Decide) redeemFound(tx *tx, d *Defer) (done bool, err error) {
	if !c.auto || d == nil || c.Action != nil || c.NoDefer || c.verdict.Effect != sdk.Defer ||
		!tx.unspent(d) || !c.fits(d) {
		return false, nil
	}
	c.Out.Repeat = false
	return true, c.redeem(tx, d.Token)
}

// signedStill reports whether the sign-offs of a spent approval would still be enough, by today's rules and keys.
func (c *Decide) signedStill(tx *tx, token string) (bool, error) {
	d, err := tx.find(token)
	if err != nil || d == nil || d.Status != Consumed {
		return false, err
	}
	signed := *d
	signed.Signed = tx.standing(d)
	quorums := d.Quorums
	if c.verdict.Effect == sdk.Defer {
		quorums = merged(quorums, c.quorums)
	}
	return tx.enough(quorums, signed.signers()), nil
}

// fits reports whether this is exactly the call that d approves, by who asked for it: the one that was asked for, or
// the one with the arguments that the approver put in their place.
func (c *Decide) fits(d *Defer) bool {
	if d.KeyID != c.Key.ID || d.AgentID != c.AgentID || d.SessionID != c.SessionID || d.ToolID != c.ToolID ||
		wire.Apart(d.ToolID, d.Operation) != wire.Apart(c.ToolID, c.Operation) {
		return false
	}
	if d.Modified != nil {
		return d.ModifiedHash == c.ArgsHash && d.ContextHash == c.ContextHash
	}
	return d.Digest == c.Digest
}
