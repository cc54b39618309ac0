package store

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
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
	if tx.stands(d) != Pending {
		return resolved(d)
	}
	c.Out = tx.shown(d)
	return nil
}

// ListPending lists the pending calls that a key may answer, soonest expiry first.
type ListPending struct {
	Key   *Key
	Agent string // "" for every agent
	Most  int
	After string // a PendingPlace: only what follows it; "" begins with the first

	Out PendingPage
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
	var all []*Defer
	for _, d := range tx.st.live {
		if !d.over(tx.times) && (c.Agent == "" || d.AgentID == c.Agent) && tx.stands(d) == Pending &&
			tx.mayAnswer(c.Key, d) == nil {
			all = append(all, d)
		}
	}
	c.Out.Total = len(all)
	if c.After != "" {
		all = slices.DeleteFunc(all, func(d *Defer) bool { return PendingPlace(d) <= c.After })
	}
	slices.SortFunc(all, func(a, b *Defer) int {
		if n := a.Expires.Compare(b.Expires); n != 0 {
			return n
		}
		return strings.Compare(a.Token, b.Token)
	})
	c.Out.More = len(all) > c.Most
	for _, d := range all[:min(len(all), c.Most)] {
		c.Out.Calls = append(c.Out.Calls, tx.shown(d))
	}
	return nil
}

// View is a deferred call as approvers see it, JSON; nil if there is none.
func (s *Store) View(token string) (json.RawMessage, error) {
	v, _, err := s.get(keyStr(prefixView, token))
	return v, err
}
