package store

import (
	"fmt"

	"github.com/yett-dev/yett/sdk"
)

// stillTrue refuses a repeat whose first answer would not be true any more. answer is what was answered then, token
// that of the deferred call. A denial is for good.
func (c *Approve) stillTrue(tx *tx, token string, answer []byte) error {
	if !c.Yes {
		return nil
	}
	if err := tx.maySign(c.Key); err != nil {
		return err
	}
	d, err := tx.find(token)
	if err != nil {
		return err
	}
	if d == nil {
		return overtaken("the deferred call has ended since, and is no longer kept")
	}
	if tx.expireOne(d) {
		return overtaken("the deferred call has expired since")
	}
	tx.denyOrphan(d)
	status, grant := c.Told(answer)
	switch {
	case d.Status == Denied:
		return overtaken(fmt.Sprintf("the deferred call was denied by %s since", d.ResolvedBy))
	case tx.stands(d) == Pending && status != Pending && status != ActionPending:
		return overtaken("the deferred call waits again, because its approval counts no more")
	case !c.among(tx, d.Signed):
		return overtaken("the sign-off counts no more, because the arguments of the call were changed")
	}
	return tx.grantStands(grant)
}

// stillTrue is Approve's for a grant.
func (c *AddGrant) stillTrue(tx *tx) error {
	if err := tx.maySign(c.Key); err != nil {
		return err
	}
	return tx.grantStands(c.Told(c.Idem.Replay))
}

// grantStands refuses to tell of a grant that was revoked since, or whose row has gone. id is "" for none.
func (tx *tx) grantStands(id string) error {
	if id == "" {
		return nil
	}
	g, err := tx.grant(id)
	if err != nil {
		return err
	}
	if g == nil { // its row has gone, and with it why it ended
		return overtaken("the standing grant " + id + " was revoked since, or has expired")
	}
	if g.revoked.Load() != nil {
		return overtaken("the standing grant " + id + " was revoked since")
	}
	return nil
}

func overtaken(why string) error {
	return sdk.Errf(sdk.CodeConflict, "%s, so what was answered then does not hold any more; to ask anew, send it with "+
		"another Idempotency-Key", why)
}
