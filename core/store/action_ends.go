package store

import (
	"crypto/subtle"

	"github.com/yett-dev/yett/sdk"
)

// ReadAction reads one action, in order with the changes.
type ReadAction struct {
	Key  *Key
	ID   string
	Mine bool // only an action of this key

	Out ActionRow
}

func (c *ReadAction) apply(tx *tx) error {
	if err := tx.live(c.Key); err != nil {
		return err
	}
	a, err := tx.visible(c.Key, c.ID)
	if err != nil {
		return err
	}
	if c.Mine && a.KeyID != c.Key.ID {
		return unknownAction()
	}
	c.Out = *a.At(tx.decided(a))
	return nil
}

// visible is an action of an agent that the key sees.
func (tx *tx) visible(k *Key, id string) (*ActionRow, error) {
	a, err := tx.whole(id)
	if err != nil {
		return nil, err
	}
	if a == nil || !k.Sees(a.AgentID) {
		return nil, unknownAction()
	}
	return a, nil
}

// ApproveAction answers an action that waits for an approval, by the rules of Approve.
type ApproveAction struct {
	ID      string
	Approve Approve      // with the token that the caller sent
	Idem    *Idempotency // nil without an Idempotency-Key
	Answer  func(a *ActionRow) []byte

	Out  ActionRow
	sent string // the token, before it was made that of the deferred call
}

func (c *ApproveAction) apply(tx *tx) error {
	done, err := tx.admit(c.Approve.Key, c.Idem)
	switch {
	case err != nil:
		return err
	case done && !c.Approve.Yes: // a denial stands, whatever is kept of the action
		return c.Approve.stillTrue(tx, "", c.Idem.Replay)
	case done:
		a, err := tx.visible(c.Approve.Key, c.ID)
		if err != nil {
			return err
		}
		return c.Approve.stillTrue(tx, a.Token, c.Idem.Replay)
	}
	return c.answer(tx)
}

// answer does what apply does for a caller who may ask it.
func (c *ApproveAction) answer(tx *tx) error {
	a, err := tx.visible(c.Approve.Key, c.ID)
	if err != nil {
		return err
	}
	if c.sent == "" {
		c.sent = c.Approve.Token
	}
	// it came with the call as it stands
	c.Approve.Shown = subtle.ConstantTimeCompare([]byte(a.ApprovalToken()), []byte(c.sent)) == 1
	if a.Status != ActionPending && !(c.Approve.Withdraw && a.Status == ActionApproved) && !c.repeats(tx, a) {
		return sdk.Errf(sdk.CodeConflict, "the action is %s; only one that is %s can be answered", a.At(tx.decided(a)).Status,
			ActionPending)
	}
	if !c.Approve.Shown {
		return sdk.FieldErrf(sdk.CodeWrongToken, "token",
			"the token is not this action's approval_token; it is another one after an approver has changed the params: read "+
				"the action again")
	}
	c.Approve.Token = a.Token
	if err := c.Approve.answer(tx); err != nil {
		return err
	}
	if a, err = tx.whole(c.ID); err != nil {
		return err
	}
	c.Out = *a.At(tx.decided(a))
	if c.Idem != nil {
		c.Idem.keep(tx, c.Answer(&c.Out))
	}
	return nil
}

// repeats reports whether the action's deferred call has ended with this answer already.
func (c *ApproveAction) repeats(tx *tx, a *ActionRow) bool {
	if a.Token == "" || !c.Approve.Shown {
		return false
	}
	d, err := tx.find(a.Token)
	return err == nil && d != nil && tx.stands(d) != Pending && c.Approve.repeats(tx, d)
}

// FinishAction records how an executing action ended, once.
type FinishAction struct {
	Key    *Key
	By     Who
	ID     string
	Result ActionResult
	Scan   *Scanned // of the result; nil if there was none to scan
	Idem   *Idempotency
	Answer func(a *ActionRow) []byte

	Out ActionRow
	was ActionRow
}

func (c *FinishAction) apply(tx *tx) error {
	if done, err := tx.admit(c.Key, c.Idem); done || err != nil {
		return err
	}
	a, err := tx.whole(c.ID)
	if err != nil {
		return err
	}
	if err := a.finishable(c.Key); err != nil {
		return err
	}
	if c.Scan != nil {
		if err := c.Scan.apply(tx); err != nil {
			return err
		}
	}
	c.was = *a
	event := EventFailed
	a.Status = ActionFailed
	if c.Result.Success {
		event, a.Status = EventSucceeded, ActionSucceeded
	}
	a.Result = &c.Result
	tx.touch(c.Key)
	o := tx.record("action_result")
	c.By.write(&o)
	o.Str("action_id", a.ID)
	o.Str("action_event", event)
	o.Str("agent_id", a.AgentID)
	o.Str("session_id", a.SessionID)
	o.Str("tool_id", a.ToolID)
	o.Str("tool_name", a.Tool)
	o.Opt("operation", a.Operation)
	o.Bool("success", c.Result.Success)
	o.Opt("outcome", c.Result.Outcome)
	o.Opt("reason_code", c.Result.Code)
	o.Opt("reason", c.Result.Error)
	tx.end(o)
	tx.happened(a, event, c.By, c.Result.Code, c.Result.Error)
	tx.putAction(a)
	tx.setFresh(keyActionTexts(a.ID), a.texts())
	c.Out = *a
	if c.Idem != nil {
		c.Idem.keep(tx, c.Answer(&c.Out))
	}
	return nil
}

// finishable says why a key may not report the action's end; the action may be nil.
func (a *ActionRow) finishable(k *Key) error {
	switch {
	case a == nil || a.KeyID != k.ID || !k.Sees(a.AgentID):
		return unknownAction()
	case a.Status != ActionExecuting:
		return sdk.Errf(sdk.CodeConflict, "the action is %s; only an executing action can end, and only once", a.Status)
	}
	return nil
}

// AnswerOnce reads or keeps the answer of an operation that changes no state, under an Idempotency-Key.
type AnswerOnce struct {
	Key    *Key
	Idem   *Idempotency
	Answer []byte // nil only looks
}

func (c *AnswerOnce) apply(tx *tx) error {
	if done, err := tx.admit(c.Key, c.Idem); done || err != nil || c.Answer == nil {
		return err
	}
	c.Idem.keep(tx, c.Answer)
	return nil
}
