package ops

import (
	"context"
	"errors"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Why something is withheld, beside what chain says of scanners. A decision depends on none of this: what cannot be
// masked is kept as its digest, shown as withheld, and decided as ever.
const (
	causeKey       = "api_key"
	causeTooLarge  = "too_large"
	causeNoScanner = "no_scanner"
)

// Where something was withheld, for the metric.
const (
	keptInRecord = "record"
	keptInView   = "view"
	keptInAction = "action"
	keptInResult = "result"
)

// maskBytes bounds the args that are masked for the log: beyond it the digest alone is kept, and the record says so. It
// keeps one caller's huge args from taking the scanners' time from everybody's outputs.
const maskBytes = 64 << 10

// masking masks the parts of one call, each once. The log has them without what was found, approvers see how that
// looked like.
type masking struct {
	s    *Service
	ctx  context.Context
	gen  *Generation
	call *chain.Call
	turn chain.Turn // ends with the first text that is masked; nil: it has none

	said string // what the agent says about the call

	args, note maskedPart
}

// maskedPart is what came out of masking one text; the zero one has not been masked yet.
type maskedPart struct {
	done bool
	out  chain.Masked
	err  error
}

func (m *masking) of(text []byte) (chain.Masked, error) {
	return m.ofType("application/json", string(text))
}

func (m *masking) ofType(contentType, text string) (chain.Masked, error) {
	return m.gen.Scan.Look(m.ctx, &chain.Input{Text: text, ToolID: m.call.ToolID, AgentID: m.call.AgentID,
		KeyID: m.call.KeyID, ContentType: contentType, Turn: m.turn})
}

// maskedArgs masks the call's args, given in canonical form.
func (m *masking) maskedArgs(canonical []byte) (*chain.Masked, error) {
	if p := &m.args; !p.done {
		p.out, p.err = m.of(canonical)
		p.done = true
	}
	return &m.args.out, m.args.err
}

// record is what of the args goes into the log; nil with nil stores the digest alone.
func (m *masking) record() ([]byte, *wire.Withheld) {
	if m.call.Args.Len() == 0 || m.gen.Args == "digest" {
		return nil, nil
	}
	args := m.call.Args.AppendCanonical(nil)
	switch {
	case m.gen.Args == "full" && keyless(string(args)):
		return args, nil
	case len(args) > maskBytes:
		return nil, m.s.withheld(keptInRecord, &wire.Withheld{Cause: causeTooLarge})
	}
	out, err := m.maskedArgs(args)
	text := ""
	if err == nil {
		text, err = out.Kept()
	}
	switch {
	case err != nil:
		return nil, m.s.withheld(keptInRecord, whyOf(err))
	case HoldsKey(text):
		return nil, m.s.withheld(keptInRecord, &wire.Withheld{Cause: causeKey})
	}
	return []byte(text), nil
}

// keyless reports whether no API key, and nothing that is left of one, stands in a text.
func keyless(text string) bool { return len(KeysIn(text)) == 0 && !HoldsKey(text) }

// defers fills in what approvers are shown of a call that waits.
func (m *masking) defers(d *store.NewDefer) {
	d.View, d.Hidden = m.view()
	d.Note = m.shownNote()
}

// view is the canonical call as approvers see it, secrets masked. What cannot be masked is withheld, and the view says
// so. Without any scanner the call is shown as it is.
func (m *masking) view() ([]byte, store.Hidden) {
	args, noArgs := m.shown(m.call.Args, m.maskedArgs)
	about, noContext := m.shown(m.call.Context, func(text []byte) (*chain.Masked, error) {
		out, err := m.of(text)
		return &out, err
	})
	return viewOf(m.call, args, about, noArgs, noContext), store.Hidden{Args: noArgs, Context: noContext}
}

func (m *masking) shown(v exact.Value, mask func([]byte) (*chain.Masked, error)) ([]byte, *wire.Withheld) {
	plain := orEmpty(nil, v)
	if string(plain) == "{}" {
		return plain, nil
	}
	out, err := mask(plain)
	text := ""
	switch {
	case errors.Is(err, chain.ErrNoScanner):
		text, err = string(plain), nil
	case err == nil:
		text, err = out.Shown()
	}
	var why *wire.Withheld
	switch {
	case err != nil:
		why = whyOf(err)
	case HoldsKey(text):
		why = &wire.Withheld{Cause: causeKey}
	default:
		return []byte(text), nil
	}
	m.s.withheld(keptInView, why)
	return why.Stand(), why
}

// whyOf says why a text could not be masked, in the words of records. What a scanner said of it stays out.
func whyOf(err error) *wire.Withheld {
	var u *chain.UnmaskedError
	switch {
	case errors.Is(err, chain.ErrNoScanner):
		return &wire.Withheld{Cause: causeNoScanner}
	case errors.As(err, &u):
		return &wire.Withheld{Cause: u.Cause, Scanner: u.Scanner}
	}
	return &wire.Withheld{Cause: chain.CauseError}
}

// withheld counts.
func (s *Service) withheld(where string, why *wire.Withheld) *wire.Withheld {
	s.set.Observer.Kept(where, why.Cause, why.Scanner)
	return why
}

func viewOf(c *chain.Call, args, context []byte, noArgs, noContext *wire.Withheld) []byte {
	o := wire.Object(nil)
	o.Str("agent_id", c.AgentID)
	o.Raw("args", args)
	if noArgs != nil {
		o.Raw("args_withheld", noArgs.JSON())
	}
	o.Raw("context", context)
	if noContext != nil {
		o.Raw("context_withheld", noContext.JSON())
	}
	o.Opt("operation", wire.Apart(c.ToolID, c.Operation))
	o.Str("session_id", c.SessionID)
	o.Str("tool_id", c.ToolID)
	return o.Close()
}

// Mask is a text of the log without what the scanners in force find in it, for who is given the log. Without any
// scanner it is the text as it is, as approvers see it then too.
func (s *Service) Mask(ctx context.Context, in *chain.Input) (string, error) {
	gen := s.pin()
	defer gen.unpin()
	out, err := gen.Scan.Mask(ctx, in)
	if errors.Is(err, chain.ErrNoScanner) {
		return in.Text, nil
	}
	return out, err
}

// Said is what a plugin says, without what the scanners in force find in it.
func (s *Service) Said(ctx context.Context, text string) string {
	if text == "" {
		return ""
	}
	gen := s.pin()
	defer gen.unpin()
	return gen.Scan.Said(ctx, text)
}
