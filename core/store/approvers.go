package store

import (
	"github.com/yett-dev/yett/sdk"
)

// Approver is the operator as somebody who answers deferred calls: of every agent, and acting as none. Sign-offs and
// records name console:<name>. Only the roles admin and approver have the scope for it.
func (o *Operator) Approver() *Key {
	k := &Key{ID: "console:" + o.Name, Name: "console:" + o.Name, person: true}
	if o.Role == RoleAdmin || o.Role == RoleApprover {
		k.scope = sdk.ScopeApprove
	}
	return k
}

// Asked reads the deferred call that a decision began, in any state, for an operator.
type Asked struct {
	Decision string

	Out  Defer
	Open bool // an operator may sign it off: some of its quorums name nobody
}

func (c *Asked) apply(tx *tx) error {
	token, found, err := tx.get(keyStr(prefixAsked, c.Decision))
	if err != nil {
		return unavailable(err)
	}
	var d *Defer
	if found {
		if d, err = tx.find(string(token)); err != nil {
			return err
		}
	}
	if d == nil {
		return sdk.FieldErrf(sdk.CodeUnknownDefer, "decision_id", "there is no deferred call of that decision")
	}
	tx.expireOne(d)
	operator := &Key{person: true}
	c.Out, c.Open = tx.shown(d), tx.named(d.Quorums, operator) && tx.helps(d, tx.standing(d), operator)
	return nil
}
