package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Approve signs a deferred call off, or ends it.
type Approve struct {
	ApproveCall
	Out Approval

	ends    string // the token of the call that a denial ends, as its claim has found it
	was     *Defer // before it was signed; nil while it is not
	wasView []byte
}

// ApproveCall is one answer to a deferred call, and who gives it.
type ApproveCall struct {
	Token       string
	Key         *Key
	By          Who
	Yes         bool
	Reason      string
	ApprovedTTL time.Duration // how long an approval may be redeemed

	// Modified puts other arguments in place of those asked for: canonical JSON, nil for none. The chain has seen them:
	// Quorums is what it asks for, Verdict what it says under Policy, and TTL how long the rule lets an approval be
	// redeemed, 0 for ApprovedTTL.
	Modified     []byte
	ModifiedHash [32]byte
	ModifiedCall [32]byte // the digest of the call with them
	Quorums      []sdk.Quorum
	Verdict      sdk.Verdict
	Policy       string
	TTL          time.Duration
	DigestOnly   bool   // no record shows them
	View         []byte // the call with them, as approvers see it
	NewToken     string // the approval_token that actions have from then on

	// Digest is the CallDigest of what the approver was shown, "" if they do not say. Another call is not approved; one
	// whose arguments were changed is approved only by who says so, or is Shown it otherwise.
	Digest string
	Shown  bool

	Withdraw bool // a denial that also ends an approval, until it is redeemed

	Grant      *GrantAsk // a standing grant beside the call, at quorum
	NewGrant   string    // its id
	MostGrants int       // as Most and Each of AddGrant
	EachGrants int

	Idem   *Idempotency // nil without an Idempotency-Key
	Answer func(a *Approval) []byte
	Told   func(answer []byte) (status, grant string) // what Answer has said
}

// Approval is how the deferred call stands after an answer.
type Approval struct {
	Defer
	Granted   string // the grant that the answer has made
	GrantNote string // why it has made none, although one was asked for; or which one was revoked
}

// mostChanges is how often approvers may change the arguments of one deferred call.
const mostChanges = 8

func (c *Approve) apply(tx *tx) error {
	done, err := tx.admit(c.Key, c.Idem)
	switch {
	case err != nil:
		return err
	case done:
		return c.stillTrue(tx, c.Token, c.Idem.Replay)
	}
	return c.answer(tx)
}

// answer does what apply does for a caller who may ask it.
func (c *Approve) answer(tx *tx) error {
	if c.Yes {
		if err := tx.maySign(c.Key); err != nil {
			return err
		}
	}
	d, err := tx.find(c.Token)
	if err != nil {
		return err
	}
	if err := tx.mayAnswer(c.Key, d); err != nil {
		return err
	}
	if tx.expireOne(d) {
		return expired(d)
	}
	tx.denyOrphan(d)
	switch {
	case c.Withdraw && d.open(), !c.Yes && tx.stands(d) == Pending:
		err = c.end(tx, d)
	case tx.stands(d) != Pending && c.repeats(tx, d):
		c.Out.Defer, c.was = tx.shown(d), nil
		if c.Yes {
			c.Out.Granted = d.GrantID
		}
		return tx.grantStands(c.Out.Granted)
	case tx.stands(d) != Pending:
		err = tx.resolved(d)
	default:
		err = c.sign(tx, d)
	}
	if err != nil {
		return err
	}
	c.Out.Defer = tx.shown(d)
	if c.Idem != nil {
		c.Idem.keep(tx, c.Answer(&c.Out))
	}
	return nil
}

// repeats reports whether the deferred call has ended with this answer of this approver: whoever lost the answer to it,
// or was told that its outcome is unknown, sends it again and is told how it stands. Nothing is signed or recorded
// twice.
func (c *Approve) repeats(tx *tx, d *Defer) bool {
	if !c.Yes {
		return d.Status == Denied && d.ResolvedBy == c.Key.ID
	}
	if d.Status != Approved && d.Status != Consumed || c.Modified == nil && c.looked(tx, d) != nil {
		return false
	}
	if c.Modified != nil && (d.Modified == nil || Hash(c.ModifiedHash) != d.ModifiedHash) {
		return false
	}
	return slices.ContainsFunc(d.Signed, func(s SignOff) bool {
		return tx.s.sameLine(s.Key, c.Key.ID) && (s.Grant == nil) == (c.Grant == nil) &&
			(s.Grant == nil || *s.Grant == *c.Grant)
	})
}

// mayAnswer refuses who must not know of the deferred call, and whoever asked for it: in code, not in policy.
func (tx *tx) mayAnswer(k *Key, d *Defer) error {
	if d == nil || !k.Sees(d.AgentID) {
		return sdk.FieldErrf(sdk.CodeUnknownDefer, "defer_token",
			"there is no such deferred call, or it is not this key's to answer")
	}
	if tx.s.sameLine(k.ID, d.KeyID) || k.ActsAs(d.AgentID) {
		return sdk.Errf(sdk.CodeSelfApproval, "a key that asked for a call, or acts as the agent that did, cannot answer it")
	}
	return nil
}

func expired(d *Defer) error {
	return sdk.Errf(sdk.CodeDeferExpired, "the deferred call expired at %s", d.Expires.UTC().Format(time.RFC3339))
}

func (tx *tx) resolved(d *Defer) error {
	if d.Status == Expired {
		return expired(d)
	}
	status, by, at := d.Status, d.ResolvedBy, d.ResolvedAt
	if w := tx.st.doomed(d); w != nil {
		status, by, at = Denied, w.By.Principal, w.At
	}
	when := at.UTC().Format(time.RFC3339)
	return &sdk.Error{Code: sdk.CodeAlreadyResolved,
		Msg:  fmt.Sprintf("the deferred call was %s by %s at %s", status, by, when),
		More: map[string]string{"resolved_by": by, "resolved_at": when, "resolution": status}}
}

// sign adds one sign-off to a pending defer and resolves it when that is enough.
func (c *Approve) sign(tx *tx, d *Defer) error {
	if c.changedBefore(tx, d) {
		if err := c.grantFits(tx, d); err != nil {
			return err
		}
		if d.Status == Approved {
			return nil // it is pending because other sign-offs do not count now; this one adds nothing
		}
		return c.signedBefore(tx, d, *d)
	}
	if err := c.check(tx, d); err != nil {
		return err
	}
	before := *d
	c.was = nil
	if c.Modified == nil && d.Status == Approved && c.among(tx, tx.standing(d)) {
		return nil // this sign-off is there already, and the others are as they were
	}
	if c.Modified == nil {
		tx.waitAgain(d, c.By, d.Expires, approvalOver)
	} else if err := c.change(tx, d); err != nil {
		return err
	}
	d.Signed = tx.standing(d)
	if c.among(tx, d.Signed) {
		return c.signedBefore(tx, d, before)
	}
	c.was = &before
	d.Signed = append(slices.Clip(d.Signed), SignOff{c.Key.ID, tx.now, c.Reason, c.Grant})
	tx.deferRecord("defer_signed", d, c.By, c.Reason)
	if !tx.enough(d.Quorums, d.signers()) {
		tx.putDefer(d)
		return nil
	}
	return c.approve(tx, d)
}

// among reports whether the approver is one of those who signed.
func (c *Approve) among(tx *tx, signed []SignOff) bool {
	return slices.ContainsFunc(signed, func(s SignOff) bool { return tx.s.sameLine(s.Key, c.Key.ID) })
}

// signedBefore answers a sign-off that is sent again. It adds none; but those there are may be enough by now: a kill of
// one who signed was undone.
func (c *Approve) signedBefore(tx *tx, d *Defer, before Defer) error {
	c.was = nil
	tx.deferRecord("defer_signed", d, c.By, "signed before")
	if !tx.enough(d.Quorums, d.signers()) {
		tx.putDefer(d)
		return nil
	}
	c.was = &before
	return c.approve(tx, d)
}

// approve resolves a pending defer that enough have signed.
func (c *Approve) approve(tx *tx, d *Defer) error {
	ttl := c.ApprovedTTL
	if d.TTL > 0 {
		ttl = d.TTL // the rule says otherwise
	}
	tx.move(d, Approved, c.Key.ID, c.Reason, tx.now.Add(ttl))
	tx.deferRecord("defer_resolved", d, c.By, c.Reason)
	return c.stand(tx, d)
}

// check refuses a sign-off before anything is changed.
func (c *Approve) check(tx *tx, d *Defer) error {
	if err := c.looked(tx, d); err != nil {
		return err
	}
	if !tx.named(d.Quorums, c.Key) {
		return sdk.Errf(sdk.CodeNotApprover, "the rule names who may approve this call, and the key %q is not among them",
			c.Key.Name)
	}
	if c.Modified != nil {
		if err := tx.st.room(d, len(c.Modified)); err != nil {
			return err
		}
	} else if signed := tx.standing(d); !c.among(tx, signed) && !tx.helps(d, signed, c.Key) {
		return sdk.Errf(sdk.CodeNotApprover, "enough have signed beside those whom a rule names, and the key %q is not "+
			"among them; nothing was signed", c.Key.Name)
	}
	return c.grantFits(tx, d)
}

// grantFits refuses a sign-off that asks for a grant which cannot be made.
func (c *Approve) grantFits(tx *tx, d *Defer) error {
	if c.Grant == nil {
		return nil
	}
	if isPattern(d.AgentID) || isPattern(d.ToolID) {
		return sdk.FieldErrf(sdk.CodeInvalidField, "grant",
			"the agent or tool of this call has a * in its name, which a grant would take for a pattern; nothing was approved")
	}
	if err := tx.mayGrant(c.Key, d.AgentID); err != nil {
		return err
	}
	if c.Modified == nil && !d.Hidden.none() {
		return sdk.FieldErrf(sdk.CodeInvalidField, "grant",
			"the call is not shown whole: its %s could not be masked, and nobody would see what a grant permits; nothing was "+
				"approved. Approve without a grant, or let the agent ask for the same call again, which tries to mask it again",
			d.Hidden)
	}
	for _, s := range d.Signed {
		if c.Modified == nil && s.Grant != nil && s.Grant.SessionID != c.Grant.SessionID {
			return sdk.FieldErrf(sdk.CodeInvalidField, "grant",
				"another approver asked for a grant for session %q; nothing was approved", s.Grant.SessionID)
		}
	}
	if c.Grant.SessionID != "" && c.Grant.SessionID != d.SessionID {
		return sdk.FieldErrf(sdk.CodeInvalidField, "grant", "session_id is not the session of this call")
	}
	return tx.grantsFit(c.Key.ID, c.MostGrants, c.EachGrants, "; nothing was approved")
}

// stand makes the grant that approvers asked for, with the narrowest of what they asked, signed by those who did. It is
// made only if they would be enough to approve the call.
func (c *Approve) stand(tx *tx, d *Defer) error {
	g := &Grant{ID: c.NewGrant, AgentID: d.AgentID, ToolPattern: d.ToolID, Operation: wire.Apart(d.ToolID, d.Operation),
		Token: d.Token}
	g.Rules, g.Steps = d.Rules()
	if slices.Contains(g.Rules, d.RuleID) {
		g.RuleID = d.RuleID
	}
	var ttl time.Duration
	for _, s := range d.Signed {
		if s.Grant == nil {
			continue
		}
		g.Issuers, g.IssuedBy, g.SessionID = append(g.Issuers, s.Key), s.Key, s.Grant.SessionID
		if ttl == 0 || s.Grant.TTL < ttl {
			ttl = s.Grant.TTL
		}
		if n := s.Grant.MaxUses; n > 0 && (g.MaxUses == 0 || n < g.MaxUses) {
			g.MaxUses = n
		}
	}
	switch {
	case len(g.Issuers) == 0:
		return nil
	case len(g.Rules) == 0: // a grant without rules would also permit the call as it was before
		c.Out.GrantNote = "no grant was made: no rule defers the call with the changed arguments, so there is nothing for " +
			"one to permit"
		return nil
	case d.GrantID != "":
		c.Out.GrantNote = "no grant was made: the first approval of this call has made " + d.GrantID
		return nil
	case c.Grant == nil: // it was not looked at whether there is room for one
		c.Out.GrantNote = "no grant was made: the sign-off that the call was approved with asks for none"
		return nil
	case !tx.enough(d.Quorums, tx.inTime(g.Issuers)):
		c.Out.GrantNote = fmt.Sprintf("no grant was made: %d of %d approvers asked for one", len(g.Issuers),
			len(d.Signed))
		return nil
	}
	c.Out.Granted, d.GrantID = g.ID, g.ID
	tx.putDefer(d)
	tx.addGrant(g, ttl, c.By) // it was seen to fit, before anything was signed
	return nil
}
