package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// repeat answers a call_id or Idempotency-Key that was seen before by the stricter of then and now: DENY over DEFER
// over PERMIT. Nothing is spent a second time: no grant, no budget, no approval. What says how often a call may run,
// rate and loop, counts a repeat as a call.
func (c *Decide) repeat(tx *tx) error {
	var before []byte
	var missing [][16]byte
	for _, hash := range c.Names.Hashes {
		digest, answer, found, err := tx.remembered(prefixRepeat, hash, RepeatFor)
		switch {
		case err != nil:
			return err
		case !found:
			missing = append(missing, hash)
		case digest != c.Digest:
			c.conflict()
			return nil
		case before == nil:
			before = answer
		}
	}
	if before == nil {
		if err := c.fresh(tx); err != nil || c.Out.NeedsView {
			return err
		}
		c.keepAnswer(tx, c.Names.Hashes)
		return nil
	}
	then, err := recalled(before)
	if err != nil {
		return err
	}
	c.Out.Repeat = true
	if c.verdict.Effect == sdk.Deny {
		return nil // what was answered then is kept: the rules may permit it again
	}
	for _, hash := range missing {
		tx.remember(prefixRepeat, hash, RepeatFor, c.Digest, before)
	}
	return c.stricter(tx, then)
}

func (c *Decide) conflict() {
	c.deny(sdk.ReasonCallIDConflict, "the call_id or Idempotency-Key was used for another call within 10 minutes")
}

func (c *Decide) keepAnswer(tx *tx, under [][16]byte) {
	for _, hash := range under {
		tx.remember(prefixRepeat, hash, RepeatFor, c.Digest, c.Out.memo())
	}
}

// stricter settles a repeat that the chain does not deny: then is what was answered first.
func (c *Decide) stricter(tx *tx, then *Decision) error {
	switch then.Effect {
	case sdk.Permit:
		return c.stillPermitted(tx, then)
	case sdk.Defer:
		return c.stillDeferred(tx, then)
	}
	c.Out = *then
	c.Out.Effect, c.Out.Repeat = sdk.Deny, true
	return nil
}

// stillPermitted settles the repeat of a permit. What the chain permits today stands on that; what it defers, on the
// grant that permitted it then.
func (c *Decide) stillPermitted(tx *tx, then *Decision) error {
	stands := c.verdict.Effect == sdk.Permit
	if !stands && then.Code == sdk.ReasonApprovalConsumed && then.Token != "" {
		return c.redeemedAgain(tx, then)
	}
	if then.GrantID != "" {
		live, err := c.granted(tx, then.GrantID)
		switch {
		case err != nil:
			return err
		case stands && !live: // the grant is gone, and it takes none any more: this is today's permit
			return c.permitAgain(tx, &c.Out)
		}
		stands = stands || live
	}
	if !stands {
		return c.anew(tx)
	}
	return c.permitAgain(tx, then)
}

// stillDeferred settles the repeat of a defer by what has become of it: it waits or is approved, and its token is good;
// it has ended in a no, and that is the answer; it was redeemed, so the call is one that nobody has answered yet.
func (c *Decide) stillDeferred(tx *tx, then *Decision) error {
	var d *Defer
	var err error
	over := false
	if then.Token != "" { // else it was asked at a gate, and nobody waits for an answer
		if d, err = tx.find(then.Token); err != nil {
			return err
		}
		if d == nil {
			c.deny(sdk.ReasonApprovalMismatch, "its deferred call has ended and is no longer kept; ask under another call_id")
			return nil
		}
		over = tx.expireOne(d)
	}
	if done, err := c.redeemFound(tx, d); done || err != nil {
		if c.Out.Effect == sdk.Permit {
			c.keepAnswer(tx, c.Names.Hashes)
		}
		return err
	}
	switch {
	case d != nil && c.unhide(tx, d):
	case d == nil || d.open() && !over:
		c.Out = *then
		c.Out.Repeat = true
		if d != nil {
			c.Out.Expires, c.Out.Approved = d.Expires, tx.unspent(d)
		}
	case d.Status == Consumed:
		return c.anew(tx)
	case over:
		c.deny(sdk.ReasonApprovalTimeout, "nobody approved the call in time, or the approval was not used in time")
		c.Out.RuleID = d.RuleID
	default:
		c.deny(sdk.ReasonApprovalDenied, d.EndReason)
		c.Out.RuleID = d.RuleID
		if c.Out.Reason == "" {
			c.Out.Reason = "denied by " + d.ResolvedBy
		}
	}
	return nil
}

// anew decides a repeat by today's rules alone, because nothing of the first answer holds any more. It spends no grant
// and no approval: a repeat spends nothing.
func (c *Decide) anew(tx *tx) error {
	if c.verdict.Effect == sdk.Permit {
		return c.permitAgain(tx, &c.Out)
	}
	c.grants, c.auto = nil, false
	if err := c.fresh(tx); err != nil || c.Out.NeedsView {
		return err
	}
	c.Out.Repeat = true
	if c.Out.Effect == sdk.Defer {
		c.keepAnswer(tx, c.Names.Hashes)
	}
	return nil
}

// permitAgain answers a repeat with a permit, if the limits on how often a call may run leave room for one more.
func (c *Decide) permitAgain(tx *tx, permit *Decision) error {
	sums, over, err := tx.within(c.Limits.Charges, true)
	if err != nil {
		return err
	}
	if over != nil {
		c.overrun(over)
		return nil
	}
	tx.charge(c.Limits.Charges, sums, true)
	c.Out = *permit
	c.Out.Repeat = true
	return nil
}

// memo is what of a decision is remembered for repeats: fields joined by a byte that no JSON text or id has.
func (d *Decision) memo() []byte {
	expires := ""
	if !d.Expires.IsZero() {
		expires = strconv.FormatInt(d.Expires.UnixNano(), 10)
	}
	return []byte(strings.Join([]string{d.Effect.String(), d.Code, d.Reason, d.RuleID, d.Message, d.DecisionID, d.Token,
		expires, d.GrantID}, "\xff"))
}

// recalled reads a memo.
func recalled(memo []byte) (*Decision, error) {
	f := strings.Split(string(memo), "\xff")
	if len(f) != 9 {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "recall a repeated call"}
	}
	effect, ok := sdk.ParseEffect(f[0])
	if !ok {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "recall a repeated call"}
	}
	d := &Decision{Effect: effect, Code: f[1], Reason: f[2], RuleID: f[3], Message: f[4], DecisionID: f[5], Token: f[6],
		GrantID: f[8]}
	if ns, err := strconv.ParseInt(f[7], 10, 64); err == nil {
		d.Expires = time.Unix(0, ns).UTC()
	}
	return d, nil
}

// actionStands reports whether an action that was decided before may be answered again: today's answer to the same call
// is not stricter than what the action shows.
func (c *Decide) actionStands(tx *tx, a *ActionRow) (bool, error) {
	switch {
	case c.verdict.Effect == sdk.Deny || tx.s.KilledSince(c.Began, c.Key, c.AgentID, c.SessionID, c.ToolID) != nil:
		return a.Status == ActionDenied, nil
	case c.verdict.Effect == sdk.Permit || a.Status == ActionDenied || a.Status == ActionPending ||
		a.Status == ActionApproved:
		return true, nil
	case a.GrantID != "":
		return c.granted(tx, a.GrantID)
	case a.Token != "":
		return c.signedStill(tx, a.Token)
	}
	return false, nil
}
