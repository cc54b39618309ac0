package store

import "github.com/yett-dev/yett/sdk/wire"

// ActionChange is what happens to an action in the write that records a decision. Its implementations are in this file.
type ActionChange interface {
	// begin looks before anything else. An error refuses the command; done means that nothing is to be decided.
	begin(tx *tx, c *Decide) (done bool, err error)
	// members adds what the decision's record says about the action.
	members(o *wire.Writer)
	// decided learns the decision, c.Out, once it is recorded.
	decided(tx *tx, c *Decide)
	// id is the action that follows a defer of this decision, "" for none.
	id() string
}

// actionsMoved lets the actions that follow a defer go on with it: d has just changed its state.
func (tx *tx) actionsMoved(d *Defer) {}
