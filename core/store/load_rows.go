package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// loadTables brings keys and grants back. Both are read at the same time: while the one waits for a single goroutine,
// the other one has work for the rest.
func (s *Store) loadTables(sum *rowSum) error {
	var ofKeys, ofGrants rowSum
	var keysErr, grantsErr error
	keys := make(chan struct{})
	both(func() {
		defer close(keys)
		keysErr = s.loadKeys(&ofKeys)
	}, func() { grantsErr = s.loadGrants(&ofGrants, keys) })
	sum.merge(ofKeys)
	sum.merge(ofGrants)
	return cmp.Or(keysErr, grantsErr)
}

func (s *Store) loadKeys(sum *rowSum) error {
	var all []*Key
	live := 0
	err := loadRows(s, s.rowsOf(prefixKey), sum, func(by *adder, key, value []byte) (*Key, bool, error) {
		by.row(key, value)
		k, err := by.rows.key(value)
		if err == nil && k.ID != string(key[1:]) {
			err = fmt.Errorf("its row is that of key %q", k.ID)
		}
		if err == nil {
			err = k.ready(k.keyState)
		}
		if err != nil {
			return nil, false, inRow("key", key, err)
		}
		return k.Key, true, nil
	}, func(k *Key) error {
		all = append(all, k)
		if k.revoked.Load() == nil {
			live++
		}
		return nil
	})
	if err != nil {
		return err
	}
	t := &s.keys
	t.byID, t.names = make(map[string]*Key, len(all)), make(map[string]string, live)
	both(func() {
		for _, k := range all {
			t.byID[k.ID] = k
		}
	}, func() {
		for _, k := range all {
			if k.revoked.Load() == nil {
				t.names[k.Name] = k.ID
			}
		}
	})
	return nil
}

// inRow says which row an error is about.
func inRow(kind string, key []byte, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", kind, key[1:], err)
}

// both runs two functions at a time.
func both(one, other func()) {
	var wait sync.WaitGroup
	wait.Go(one)
	other()
	wait.Wait()
}

// usesRow is a row of uses.
type usesRow struct {
	grant []byte
	n     uint64
}

func (u *usesRow) read(key, value []byte) error {
	if len(value) != 8 {
		return fmt.Errorf("the uses of grant %q have %d bytes, expected 8", key[1:], len(value))
	}
	u.grant, u.n = append(u.grant[:0], key[1:]...), binary.BigEndian.Uint64(value)
	return nil
}

// grantRows are the rows of grants, each behind the row of its uses. Both are in order, so they are read side by side:
// uses that were looked up one by one, or kept in a table, would cost more than the grants.
func (s *Store) grantRows(fn func(key, value []byte, together bool) error) error {
	uses, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixUses}, UpperBound: upper(prefixUses)})
	if err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	there := uses.First()
	err = s.scan(prefixGrant, func(key, value []byte) error {
		for ; there; there = uses.Next() { // uses of no grant are in the sum all the same
			if bytes.Compare(uses.Key()[1:], key[1:]) > 0 {
				break
			}
			if err := fn(uses.Key(), uses.Value(), true); err != nil {
				return err
			}
		}
		if err := uses.Error(); err != nil {
			return err
		}
		return fn(key, value, false)
	})
	for ; err == nil && there; there = uses.Next() {
		err = fn(uses.Key(), uses.Value(), false)
	}
	return errors.Join(err, uses.Error(), uses.Close())
}

// loadGrants waits until there are keys where it needs them.
func (s *Store) loadGrants(sum *rowSum, keys <-chan struct{}) error {
	var all []*Grant
	exact, now := 0, s.Now()
	err := loadRows(s, s.grantRows, sum, func(by *adder, key, value []byte) (*Grant, bool, error) {
		by.row(key, value)
		if key[0] == prefixUses {
			return nil, false, by.used.read(key, value)
		}
		var uses uint64
		if bytes.Equal(by.used.grant, key[1:]) {
			uses = by.used.n
		}
		g, err := by.rows.liveGrant(value, uses, now)
		if err == nil && g != nil && g.ID != string(key[1:]) {
			err = fmt.Errorf("its row is that of grant %q", g.ID)
		}
		if err != nil || g == nil {
			return nil, false, inRow("grant", key, err)
		}
		return g, true, nil
	}, func(g *Grant) error {
		all = append(all, g)
		if !isPattern(g.AgentID) {
			exact++
		}
		return nil
	})
	if err != nil {
		return err
	}
	<-keys
	t := &s.grants
	t.byID, t.byAgent, t.lines = make(map[string]*Grant, len(all)), make(map[string]*Grant, exact/2), map[string]int{}
	both(func() {
		for _, g := range all {
			t.byID[g.ID] = g
			g.line = s.line(g.IssuedBy)
			t.lines[g.line]++
		}
	}, func() {
		for _, g := range all {
			t.index(g)
		}
	})
	return nil
}
