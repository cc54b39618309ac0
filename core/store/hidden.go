package store

import (
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Hidden says why parts of a call are not shown to approvers. A part that is shown has nil.
type Hidden struct {
	Args    *wire.Withheld `json:"args,omitempty"`
	Context *wire.Withheld `json:"context,omitempty"`
}

// none reports whether the call is shown whole.
func (h Hidden) none() bool { return h == Hidden{} }

// shows reports whether h has all that o shows, and more.
func (h Hidden) shows(o Hidden) bool {
	args, context := h.Args == nil && o.Args != nil, h.Context == nil && o.Context != nil
	return (args || context) && (h.Args == nil || o.Args != nil) && (h.Context == nil || o.Context != nil)
}

// String says which part is hidden, and why.
func (h Hidden) String() string {
	switch {
	case h.Args != nil && h.Context != nil:
		return "args (" + h.Args.String() + ") and context (" + h.Context.String() + ")"
	case h.Args != nil:
		return "args (" + h.Args.String() + ")"
	case h.Context != nil:
		return "context (" + h.Context.String() + ")"
	}
	return ""
}

// unhide is for a pending call that is asked again. If approvers are not shown all of it, and more of it could be
// masked this time, it shows them that. The call and its digest stay the same, so its sign-offs still count. needsView
// asks the caller to mask the call first.
func (c *Decide) unhide(tx *tx, d *Defer) (needsView bool) {
	switch {
	case d.Hidden.none() || d.Digest != c.Digest || c.verdict.Effect != sdk.Defer || tx.stands(d) != Pending:
		return false
	case c.Defer.View == nil:
		c.Out.NeedsView = true
		return true
	case c.Defer.Hidden.shows(d.Hidden):
		d.Hidden = c.Defer.Hidden
		tx.putDefer(d)
		tx.setFresh(keyStr(prefixView, d.Token), c.Defer.View)
	}
	return false
}

// unhidden fills in params and context that could not be masked when the action was submitted, if approvers are shown
// them by now. view reads what approvers are shown.
func (a *ActionRow) unhidden(d *Defer, view func() ([]byte, error)) error {
	if d == nil || a.Token != d.Token || d.Modified != nil {
		return nil
	}
	params, context := a.ParamsWithheld != nil && d.Hidden.Args == nil, a.ContextWithheld != nil && d.Hidden.Context == nil
	if !params && !context {
		return nil
	}
	text, err := view()
	if err != nil {
		return err
	}
	log.Members(text, func(name, value []byte) bool {
		switch {
		case params && string(name) == "args":
			a.Params, a.ParamsWithheld, a.refilled = string(value), nil, true
		case context && string(name) == "context":
			a.Context, a.ContextWithheld, a.refilled = string(value), nil, true
		}
		return true
	})
	return nil
}
