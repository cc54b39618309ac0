package store

import (
	"encoding/binary"
	"encoding/json"
)

// LookAt reads a deferred call for somebody who is about to answer it, in order with the changes.
type LookAt struct {
	Token string
	Key   *Key

	Out Defer
}

func (c *LookAt) apply(tx *tx) error {
	if err := tx.live(c.Key); err != nil {
		return err
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
	if c.Out = tx.shown(d); c.Out.Status != Pending {
		return tx.resolved(&c.Out)
	}
	return nil
}

// ListPending lists the pending calls that a key may answer, soonest expiry first.
type ListPending struct {
	Key   *Key
	Agent string // "" for every agent
	Most  int
	After string // a PendingPlace: only what follows it; "" begins with the first

	Out PendingPage

	found  bool // by FindPending
	tokens []string
}

// PendingPage is one page of pending calls.
type PendingPage struct {
	Calls []Defer
	More  bool // there are more behind Calls
	Total int  // also before After
}

// PendingPlace is where a pending call stands in the order of ListPending. A place stays what it is when its call is
// gone.
func PendingPlace(d *Defer) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(d.Expires.UnixNano()))) + d.Token
}

func (c *ListPending) apply(tx *tx) error {
	if err := tx.live(c.Key); err != nil {
		return err
	}
	if !c.found {
		tx.s.FindPending(c)
	}
	for _, token := range c.tokens {
		d, err := tx.find(token)
		if err != nil {
			return err
		}
		// it may have moved on since it was found
		if d.over(tx.times) || tx.mayAnswer(c.Key, d) != nil {
			continue
		}
		if out := tx.shown(d); out.Status == Pending {
			c.Out.Calls = append(c.Out.Calls, out)
		}
	}
	return nil
}

// View is a deferred call as approvers see it, JSON; nil if there is none.
func (s *Store) View(token string) (json.RawMessage, error) {
	v, _, err := s.get(keyStr(prefixView, token))
	return v, err
}
