package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/yett-dev/yett/sdk"
)

// grantTable holds the grants that may still be spent.
type grantTable struct {
	mu       sync.RWMutex
	byID     map[string]*Grant
	byAgent  map[string]*Grant // exact agents: the newest, with the others behind it
	patterns []*Grant

	// of the sequencer
	lines map[string]int // how many of byID each issuer has, its rolled keys together
	swept time.Time      // when expired ones were dropped last
}

func (t *grantTable) add(g *Grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.byID[g.ID] {
	case g:
		return // it is in a list: a second time would make a ring of it
	case nil:
		t.lines[g.line]++
	}
	t.byID[g.ID] = g
	t.index(g)
}

// index makes the grant one that calls of its agents find.
func (t *grantTable) index(g *Grant) {
	if isPattern(g.AgentID) {
		t.patterns = append(t.patterns, g)
		return
	}
	g.next = t.byAgent[g.AgentID]
	t.byAgent[g.AgentID] = g
}

// unlink takes the grant out of the list of its agent.
func (t *grantTable) unlink(g *Grant) {
	first := t.byAgent[g.AgentID]
	switch {
	case first == g && g.next == nil:
		delete(t.byAgent, g.AgentID)
	case first == g:
		t.byAgent[g.AgentID] = g.next
	default:
		for ; first != nil; first = first.next {
			if first.next == g {
				first.next = g.next
				break
			}
		}
	}
	g.next = nil
}

func (t *grantTable) drop(g *Grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[g.ID] != nil {
		delete(t.byID, g.ID)
		if t.lines[g.line]--; t.lines[g.line] == 0 {
			delete(t.lines, g.line)
		}
	}
	is := func(x *Grant) bool { return x == g }
	if isPattern(g.AgentID) {
		t.patterns = slices.DeleteFunc(t.patterns, is)
		return
	}
	t.unlink(g)
}

// GrantCall is what of a call grants look at.
type GrantCall struct {
	AgentID, ToolID, Operation, SessionID string
	RuleID                                string // the rule that decides, where Quorums names none
	Policy                                string
	Quorums                               []sdk.Quorum // with the rule of each step that defers the call
}

// GrantsFor lists the grants that may permit such a call, the narrowest first. args_match is the caller's to look at;
// what of them is left is decided when one is spent.
func (s *Store) GrantsFor(c *GrantCall) []*Grant {
	t := &s.grants
	t.mu.RLock()
	var out []*Grant
	for g := t.byAgent[c.AgentID]; g != nil; g = g.next {
		if g.covers(c) {
			out = append(out, g)
		}
	}
	for _, g := range t.patterns {
		if g.covers(c) {
			out = append(out, g)
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(out, narrower)
	return out
}

func (s *Store) readGrant(row []byte) (*Grant, error) {
	is, err := oneRow().grant(row)
	if err != nil {
		return nil, fmt.Errorf("a grant cannot be read: %w", err)
	}
	g := is.Grant
	g.ready(is.grantState)
	g.line = s.line(g.IssuedBy)
	n, found, err := s.get(keyStr(prefixUses, g.ID))
	if err != nil {
		return nil, err
	}
	if found && len(n) == 8 {
		g.uses.Store(binary.BigEndian.Uint64(n))
	}
	return g, nil
}

// Grants calls fn with grants, newest first, ended ones too, from behind the id after on ("" is the newest). It ends
// when fn says so.
func (s *Store) Grants(after string, fn func(*Grant) bool) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixGrant}, UpperBound: upper(prefixGrant)})
	if err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	ok := false
	if after == "" {
		ok = it.Last()
	} else {
		ok = it.SeekLT(keyStr(prefixGrant, after))
	}
	for ; ok; ok = it.Prev() {
		s.grants.mu.RLock()
		g := s.grants.byID[string(it.Key()[1:])]
		s.grants.mu.RUnlock()
		if g == nil {
			if g, err = s.readGrant(it.Value()); err != nil {
				return errors.Join(err, it.Close())
			}
		}
		if !fn(g) {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}
