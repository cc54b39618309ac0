package store

import (
	"crypto/hmac"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// StartAction starts an allowed or approved action: it becomes executing by a permit that is recorded in the same
// write, and by nothing else.
type StartAction struct {
	ID    string
	Idem  *[16]byte // hash of key, action and Idempotency-Key
	Shown string    // the digest that the caller was shown, "" if it does not say

	Out   ActionRow
	Again bool // Out is what an earlier start with the same Idempotency-Key has answered
	a     *ActionRow
	was   ActionRow // before the start
	c     *Decide
}

func (n *StartAction) id() string { return n.ID }

func (n *StartAction) begin(tx *tx, c *Decide) (bool, error) {
	a, err := tx.whole(n.ID)
	if err != nil {
		return false, err
	}
	if a != nil && a.KeyID == c.Key.ID && n.Shown != "" &&
		!hmac.Equal([]byte(n.Shown), []byte(tx.s.CallDigest(a.Stands()))) {
		return false, sdk.FieldErrf(sdk.CodeCallChanged, "digest",
			"the digest is not that of the action as it stands: read the action again, and start it with the params and the "+
				"digest that it has now; nothing was started")
	}
	if again, err := n.again(tx, c, a); again || err != nil {
		return again, err
	}
	if err := a.Startable(c.Key, tx.decided(a)); err != nil {
		return false, err
	}
	if !a.Modified && c.Digest != a.Digest {
		return false, &sdk.Error{Code: sdk.CodeInternal,
			Op: "start action: the call to start is not the one that was decided"}
	}
	n.a, n.was, n.c, c.spent = a, *a, c, a.GrantID
	if a.Status == ActionAllowed {
		c.before = a.Charged
	}
	return false, nil
}

// again finds the start that had the same Idempotency-Key. A stricter answer of today wins over it.
func (n *StartAction) again(tx *tx, c *Decide, a *ActionRow) (bool, error) {
	if n.Idem == nil || a == nil || a.KeyID != c.Key.ID || a.Status != ActionExecuting {
		return false, nil
	}
	_, _, found, err := tx.remembered(prefixRepeat, *n.Idem, RepeatFor)
	if err != nil || !found {
		return false, err
	}
	if stands, err := c.actionStands(tx, a); !stands || err != nil {
		return false, err
	}
	sums, over, err := tx.within(c.Limits.Charges, true)
	switch {
	case err != nil:
		return false, err
	case over != nil: // it runs already, so nothing can be denied but the answer
		return false, &sdk.Error{Code: sdk.CodeTooManyRequests, Msg: over.why() + "; the action is executing already",
			More: map[string]string{"reason_code": over.code()}}
	}
	tx.charge(c.Limits.Charges, sums, true)
	tx.touch(c.Key)
	n.Out, n.Again = *a, true
	return true, nil
}

// Startable says why a key may not start the action at that time. The action may be nil.
func (a *ActionRow) Startable(k *Key, now time.Time) error {
	if a == nil || a.KeyID != k.ID || !k.Sees(a.AgentID) {
		return unknownAction()
	}
	if shown := a.At(now); a.waits() && !shown.waits() {
		return sdk.Errf(sdk.CodeActionExpired, "the action was %s at %s and not started within %v; submit it again", a.Status,
			a.Decided.UTC().Format(time.RFC3339), ActionFor)
	}
	switch {
	case a.waits():
		return nil
	case a.Status == ActionDenied && a.Reason == ActionExpired:
		return sdk.Errf(sdk.CodeActionExpired, "the action's approval expired; submit it again")
	}
	if a.Status == ActionDenied && a.Reason == ActionSpent {
		return sdk.Errf(sdk.CodeConflict, "the action cannot be started: %s; submit it again", ActionSpent)
	}
	return sdk.Errf(sdk.CodeConflict, "the action is %s; only an allowed or approved action can be started, and only once",
		a.Status)
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
	a.Charged = nil // whatever it is now, it was settled with what that charged
	switch c.Out.Effect {
	case sdk.Permit:
		// the decision that it shows is the one that it was submitted with
		a.Status, a.Updated = ActionExecuting, tx.now
		if n.Idem != nil {
			tx.remember(prefixRepeat, *n.Idem, RepeatFor, c.Digest, nil)
		}
	default:
		a.applyDecision(c, tx.now)
	}
	tx.happened(a, startEvent(c.Out.Effect), c.By, c.Out.Code, c.Out.Reason)
	tx.putAction(a)
	if a.Modified || a.refilled { // from here on it follows its deferred call no more
		tx.setFresh(keyActionTexts(a.ID), a.texts())
	}
	n.Out = *a
	if d := tx.st.live[a.Token]; d != nil && a.waitsFor() {
		n.Out.follow(d, tx.stands(d))
		n.Out.followParams(d)
	}
}
