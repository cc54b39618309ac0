package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"github.com/yett-dev/yett/sdk"
)

// CallDigest names a call to those who are shown it: an HMAC of its digest under the store's secret, as hex. It says
// which call was shown without giving away what was masked in it: who does not have the secret cannot try values out.
// Safe for concurrent use.
func (s *Store) CallDigest(call Hash) string {
	var named [2 * sha256.Size]byte
	s.nameCall(&named, call)
	return string(named[:])
}

// nameCall is CallDigest without allocation.
func (s *Store) nameCall(dst *[2 * sha256.Size]byte, call Hash) {
	h, ok := s.callNames.Get().(hash.Hash)
	if !ok {
		h = hmac.New(sha256.New, s.set.Secret)
	}
	h.Reset()
	h.Write([]byte("yett call digest\x00"))
	h.Write(call[:])
	var sum [sha256.Size]byte
	hex.Encode(dst[:], h.Sum(sum[:0]))
	s.callNames.Put(h)
}

// Stands is the digest of the call that is approved or denied: the one that was asked for, or the one with the
// arguments that approvers put in their place.
func (d *Defer) Stands() Hash {
	if d.Modified != nil {
		return d.ModifiedCall
	}
	return d.Digest
}

// Stands is Defer.Stands for an action.
func (a *ActionRow) Stands() Hash {
	if a.Modified {
		return a.ModifiedCall
	}
	return a.Digest
}

// looked refuses a sign-off by somebody who was shown another call, or who does not say what they were shown although
// somebody changed it.
func (c *Approve) looked(tx *tx, d *Defer) error {
	switch {
	case c.Digest == "" && (d.Modified == nil || c.Shown):
	case c.Digest == "":
		return sdk.FieldErrf(sdk.CodeCallChanged, "digest",
			"an approver has changed the arguments of the call: read it again, and send the digest that it is shown with; "+
				"nothing was approved")
	case !hmac.Equal([]byte(c.Digest), []byte(tx.s.CallDigest(d.Stands()))):
		return sdk.FieldErrf(sdk.CodeCallChanged, "digest",
			"the digest is not that of the call as it stands: read it again; nothing was approved")
	}
	if c.Modified != nil && d.Changes >= mostChanges {
		return sdk.FieldErrf(sdk.CodeConflict, "modified_args",
			"the arguments of the call were changed %d times already: approve or deny it as it stands", mostChanges)
	}
	return nil
}

// Bounds of the arguments that approvers have put in place of others: those of live calls are held in memory.
const (
	changedPerKey = 64 << 20 // bytes, for the calls of one key
	changedInAll  = 512 << 20
)

// room reports an error where n bytes more for d would be too many.
func (st *state) room(d *Defer, n int) error {
	ofKey, all := n, n
	for _, live := range st.live {
		if live == d {
			continue // what it has is replaced
		}
		all += len(live.Modified)
		if live.KeyID == d.KeyID {
			ofKey += len(live.Modified)
		}
	}
	switch {
	case ofKey > changedPerKey:
		return sdk.Errf(sdk.CodeTooManyRequests, "the changed arguments of this key's open calls would be more than %d "+
			"MiB together; answer some of those calls first; nothing was approved", changedPerKey>>20)
	case all > changedInAll:
		return sdk.Errf(sdk.CodeTooManyRequests, "the changed arguments of all open calls would be more than %d MiB "+
			"together; answer some of those calls first; nothing was approved", changedInAll>>20)
	}
	return nil
}

// change puts other arguments in place of those that were asked for. What was signed until then was another call.
func (c *Approve) change(tx *tx, d *Defer) error {
	view, _, err := tx.pendingGet(keyStr(prefixView, d.Token))
	if err != nil {
		return unavailable(err)
	}
	tx.waitAgain(d, c.By, d.Expires, approvalOver)
	c.wasView = view
	d.Modified, d.ModifiedHash, d.ModifiedCall, d.DigestOnly = c.Modified, c.ModifiedHash, c.ModifiedCall, c.DigestOnly
	d.Quorums, d.Asked = merged(d.Quorums, c.Quorums), merged(nil, c.Quorums)
	d.under(&c.Verdict, c.Policy)
	d.TTL = c.TTL
	d.Signed = nil
	d.Hidden = Hidden{}
	d.Changes++
	d.Approval = c.NewToken
	tx.setFresh(keyStr(prefixView, d.Token), c.View)
	return nil
}

// under puts a call that waits under the rule that decides it now. If that permits, it waits all the same, since it was
// changed: the code of a PERMIT would say otherwise.
func (d *Defer) under(v *sdk.Verdict, policy string) {
	d.RuleID, d.Code, d.Reason, d.Priority, d.Policy = v.RuleID, v.Code, v.Reason, v.Priority, policy
	if v.Effect != sdk.Defer {
		d.Code = sdk.ReasonRuleDefer
	}
}

// changedBefore reports whether the call stands with these arguments by this approver's own answer: it is sent again.
func (c *Approve) changedBefore(tx *tx, d *Defer) bool {
	return c.Modified != nil && d.Modified != nil && d.ModifiedHash == c.ModifiedHash &&
		c.among(tx, d.Signed)
}

// unchange puts back what the deferred call was before it was changed and signed.
func (d *Defer) unchange(was *Defer) {
	d.Signed, d.Quorums, d.Asked, d.GrantID = was.Signed, was.Quorums, was.Asked, was.GrantID
	d.Modified, d.ModifiedHash, d.ModifiedCall, d.DigestOnly = was.Modified, was.ModifiedHash, was.ModifiedCall,
		was.DigestOnly
	d.Changes, d.Approval, d.Hidden = was.Changes, was.Approval, was.Hidden
	d.RuleID, d.Code, d.Reason, d.Priority, d.Policy, d.TTL = was.RuleID, was.Code, was.Reason, was.Priority, was.Policy,
		was.TTL
}

// ApprovalToken is what answers the action. It is another one each time that approvers change its params.
func (a *ActionRow) ApprovalToken() string {
	if a.Approval != "" {
		return a.Approval
	}
	return a.Token
}

// end denies a call that waits or is approved. A standing grant that came with an approval of it ends too, also when
// the call waits again since: it would permit the same call.
func (c *Approve) end(tx *tx, d *Defer) error {
	why, was := c.Reason, d.Status
	if why == "" && was == Approved {
		why = "the approval was withdrawn"
	}
	var g *Grant
	if d.GrantID != "" {
		var err error
		if g, err = tx.grant(d.GrantID); err != nil {
			return err
		}
	}
	d.Withdrawn = was == Approved
	tx.move(d, Denied, c.Key.ID, why, d.Expires)
	tx.deferRecord("defer_resolved", d, c.By, why)
	if g != nil && g.revoked.Load() == nil {
		tx.endGrant(g, c.By)
		c.Out.GrantNote = "the standing grant " + g.ID + " that came with the approval is revoked"
	}
	return nil
}
