package store

import (
	"encoding/hex"
	"encoding/json"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/sdk"
)

// An action that waits for a deferred call is not written again when that moves: whoever reads the action works out
// from the deferred call how it stands. So a move costs the same whether one action waits for it or a hundred, and
// there is no moment, also after a crash, at which some of them have followed and others have not.

// follow brings the action to the state of its deferred call, which stands gives. d may be nil.
func (a *ActionRow) follow(d *Defer, stands string) {
	if d == nil || a.Token != d.Token || a.Status != ActionPending && a.Status != ActionApproved {
		return
	}
	a.DeferExpires, a.Approval = d.Expires, d.Approval
	if d.Modified != nil {
		a.ParamsMasked, a.ParamsWithheld, a.Modified, a.ModifiedCall = false, nil, true, d.ModifiedCall
		a.Code, a.Reason, a.RuleID, a.Policy, a.Message = d.Code, d.Reason, d.RuleID, d.Policy, ""
		a.Risk = RiskOf(&sdk.Verdict{Priority: d.Priority}, sdk.Defer)
	}
	switch stands {
	case Pending:
		a.Status = ActionPending
	case Approved:
		a.Status, a.Decided = ActionApproved, d.ResolvedAt
	case Consumed: // by another call: the action's own start would have made it executing in the same write
		a.Status, a.Reason = ActionDenied, ActionSpent
	case Denied:
		a.Status, a.Reason = ActionDenied, d.EndReason
		if a.Reason == "" {
			a.Reason = "denied by " + d.ResolvedBy
		}
	case Expired:
		a.Status, a.Reason = ActionDenied, ActionExpired
	}
	last := uint64(0)
	if n := len(a.Events); n > 0 {
		last = a.Events[n-1].Seq
	}
	events := a.Events[:len(a.Events):len(a.Events)]
	for _, e := range d.Moves {
		if e.Seq > last {
			events = append(events, e)
			a.Updated = e.At
		}
	}
	a.Events = events
}

// follows is follow for a call of which nothing may be left: then the action has ended with it.
func (a *ActionRow) follows(d *Defer, stands func() string) {
	if d == nil {
		a.Status, a.Reason = ActionDenied, ActionGone
		return
	}
	a.follow(d, stands())
}

// followParams puts the approver's params in place of those that were sent, once the texts are read.
func (a *ActionRow) followParams(d *Defer) {
	if d != nil && a.Modified && a.Token == d.Token && d.Modified != nil {
		a.Params = string(d.Modified)
	}
}

// waitsFor reports whether the action's row has to be read together with its deferred call.
func (a *ActionRow) waitsFor() bool {
	return a.Token != "" && (a.Status == ActionPending || a.Status == ActionApproved)
}

// moved keeps what the record just written says of the actions that wait for d.
func (tx *tx) moved(d *Defer, by Who) {
	if len(d.actions()) == 0 {
		return
	}
	typ, reason := EventDenied, d.EndReason
	switch {
	case d.Status == Approved:
		typ = EventApproved
	case d.Status == Expired:
		reason = ActionExpired
	case reason == "":
		reason = "denied by " + d.ResolvedBy
	}
	hash := tlog.RecordHash(tx.commit.Records[tx.start+4:])
	d.Moves = append(d.Moves[:len(d.Moves):len(d.Moves)],
		ActionEvent{Type: typ, Seq: tx.q.tree.Size(), Hash: hex.EncodeToString(hash[:]), At: tx.now, By: by.Principal,
			Reason: reason})
	tx.putDefer(d)
}

// joinRow finds one action that waits for a deferred call, and with no id the first of all of them.
func joinRow(token, action string) []byte { return keyStr(prefixJoin, token+"\x00"+action) }

// join lets one more action wait for d. It writes one small row, however many wait already.
func (tx *tx) join(d *Defer, action string) {
	d.joined = append(d.joined, action)
	tx.set(joinRow(d.Token, action), nil)
	tx.s.open.put(d, tx.ticket != nil)
}

// loadJoined reads which actions wait for d beside the first.
func (s *Store) loadJoined(st *state) error {
	return s.scan(prefixJoin, func(key, _ []byte) error {
		token, action, ok := strings.Cut(string(key[1:]), "\x00")
		if d := st.live[token]; d != nil && ok { // else it has ended: an earlier version left such rows
			d.joined = append(d.joined, action)
		}
		return nil
	})
}

// deferRow is the deferred call with that token as it is on disk, or nil.
func (s *Store) deferRow(token string) (*Defer, error) {
	row, found, err := s.get(keyStr(prefixDefer, token))
	if err != nil || !found {
		return nil, err
	}
	d := &Defer{}
	return d, json.Unmarshal(row, d)
}
