package ops

import (
	"errors"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/wire"
)

// What an agent says about its call is masked as the args are: it may quote them.

// recordNote is what of the note goes into the log. Where the audit policy keeps the args' digest only, it is nothing.
func (m *masking) recordNote() store.AgentNote {
	switch {
	case m.said == "" || m.gen.Args == "digest":
		return store.AgentNote{}
	case m.gen.Args == "full" && keyless(m.said):
		return store.AgentNote{Text: m.said}
	}
	out, err := m.maskedNote()
	text := ""
	if err == nil {
		text, err = out.Kept()
	}
	return m.noteOr(keptInRecord, text, err)
}

// shownNote is the note as approvers see it. Without any scanner it is shown as it is.
func (m *masking) shownNote() store.AgentNote {
	if m.said == "" {
		return store.AgentNote{}
	}
	out, err := m.maskedNote()
	text := ""
	switch {
	case errors.Is(err, chain.ErrNoScanner):
		text, err = m.said, nil
	case err == nil:
		text, err = out.Shown()
	}
	return m.noteOr(keptInView, text, err)
}

func (m *masking) maskedNote() (*chain.Masked, error) {
	if p := &m.note; !p.done {
		p.out, p.err = m.ofType("text/plain", m.said)
		p.done = true
	}
	return &m.note.out, m.note.err
}

// noteOr is the note as it came out of masking, or why it is withheld.
func (m *masking) noteOr(where, text string, err error) store.AgentNote {
	switch {
	case err != nil:
		return store.AgentNote{Withheld: m.s.withheld(where, whyOf(err))}
	case HoldsKey(text):
		return store.AgentNote{Withheld: m.s.withheld(where, &wire.Withheld{Cause: causeKey})}
	}
	return store.AgentNote{Text: text}
}
