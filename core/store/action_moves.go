package store

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
	a.ParamsMasked, a.ParamsWithheld, a.Modified = false, nil, true
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
