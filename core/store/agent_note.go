package store

import (
	"encoding/json"
	"fmt"

	"github.com/yett-dev/yett/sdk/wire"
)

// AgentNote is what an agent says about its call. Approvers see it and records have it. Nothing is decided by it, and
// it is no part of the call.
type AgentNote struct {
	Text     string         `json:"text,omitempty"`
	Withheld *wire.Withheld `json:"withheld,omitempty"` // why there is no Text, although the agent sent one
}

// none reports whether the agent said nothing.
func (n *AgentNote) none() bool { return n.Text == "" && n.Withheld == nil }

// members adds the note to a record.
func (n *AgentNote) members(o *wire.Writer) {
	o.Opt("agent_note", n.Text)
	if n.Withheld != nil {
		o.Raw("agent_note_withheld", n.Withheld.JSON())
	}
}

// putNote writes the note of a call that begins to wait. It has a row of its own, so that it is not held in memory.
func (tx *tx) putNote(token string, n *AgentNote) {
	row, err := json.Marshal(n)
	tx.keep(err)
	tx.set(keyStr(prefixNote, token), row)
}

// AgentNote is the note of the request that began the wait of a deferred call. A later request for the same call does
// not change it. It is empty if the agent sent none, and once the call is forgotten.
func (s *Store) AgentNote(d *Defer) (n AgentNote, err error) {
	if !d.Noted {
		return n, nil
	}
	row, found, err := s.get(keyStr(prefixNote, d.Token))
	if err != nil || !found {
		return n, err
	}
	if err := json.Unmarshal(row, &n); err != nil {
		return AgentNote{}, fmt.Errorf("its row: %w", err)
	}
	return n, nil
}
