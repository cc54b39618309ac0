package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
)

// The rows of actions, all under prefixAction: r|action id is the action, x|action id its texts, each behind its
// length, and a|agent id|0|action id finds those of one agent.
func keyAction(id string) []byte { return append([]byte{prefixAction, 'r'}, id...) }

func keyActionTexts(id string) []byte { return append([]byte{prefixAction, 'x'}, id...) }

func keyAgentAction(agent, id string) []byte {
	return append(append(append([]byte{prefixAction, 'a'}, agent...), 0), id...)
}

// The most that one list looks at. What is beyond is told by the cursor.
const (
	actionListRows  = 20_000
	actionListBytes = 4 << 20

	actionListDefers = 16 // deferred calls that it keeps, for the actions that share one
)

// ActionQuery asks for a page of actions, newest first.
type ActionQuery struct {
	Agent, Tool, Status string // "" is every one
	Before              string // an action id: only older ones
	Offset, Limit       int
	Sees                func(agent string) bool
}

func (q *ActionQuery) fits(a *ActionRow) bool {
	return q.Sees(a.AgentID) && (q.Agent == "" || a.AgentID == q.Agent) &&
		(q.Tool == "" || a.Tool == q.Tool || a.ToolID == q.Tool) && (q.Status == "" || a.Status == q.Status)
}

// Actions lists actions as they are on disk. next is the Before of the page that follows, "" when there is none; a page
// may be shorter than its limit and still have one. Safe for concurrent use: it never waits for the sequencer while it
// reads, but returns only when all that it has seen is durable.
func (s *Store) Actions(ctx context.Context, q *ActionQuery) (page []*ActionRow, next string, err error) {
	prefix := []byte{prefixAction, 'r'}
	if q.Agent != "" {
		prefix = keyAgentAction(q.Agent, "")
	}
	top := append(bytes.Clone(prefix), 0xff)
	if q.Before != "" {
		top = append(bytes.Clone(prefix), q.Before...)
	}
	left := s.dooms()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: top})
	if err != nil {
		return nil, "", unavailable(fmt.Errorf("list actions: %w", err))
	}
	page, next, err = s.collect(it, q, len(prefix), left)
	if err = errors.Join(err, it.Close()); err != nil {
		return nil, "", unavailable(fmt.Errorf("list actions: %w", err))
	}
	return page, next, s.Commit(ctx, settled{})
}

func (s *Store) collect(it *pebble.Iterator, q *ActionQuery, skip int, left *dooms) (page []*ActionRow, next string,
	err error) {
	times, offset, size, last := s.Times(), q.Offset, 0, ""
	rows, defers := 0, map[string]*Defer{}
	for ok := it.Last(); ok; ok = it.Prev() {
		if rows++; rows > actionListRows {
			return page, last, it.Error()
		}
		runtime.Gosched() // decisions are not kept from a processor
		id := string(it.Key()[skip:])
		row := it.Value()
		if q.Agent != "" {
			found := false
			if row, found, err = s.get(keyAction(id)); err != nil {
				return nil, "", err
			}
			if !found {
				continue // it has ended, and left meanwhile
			}
		}
		stored := &ActionRow{}
		if err := json.Unmarshal(row, stored); err != nil {
			return nil, "", err
		}
		if stored.waitsFor() && defers[stored.Token] == nil {
			if len(defers) >= actionListDefers {
				clear(defers) // their rows may be large
			}
			d, err := s.deferRow(stored.Token)
			if err != nil {
				return nil, "", err
			}
			s.deny(d, left)
			defers[stored.Token] = d
		}
		d := defers[stored.Token]
		if stored.waitsFor() {
			stored.follows(d, func() string { return s.standsNow(d) })
		}
		if a := stored.At(times.For(stored.Decided)); q.fits(a) {
			if offset > 0 {
				offset--
				last = id
				continue
			}
			if len(page) == q.Limit {
				return page, page[len(page)-1].ID, nil
			}
			texts, found, err := s.get(keyActionTexts(id))
			if err == nil && !found {
				if _, found, err = s.get(keyAction(id)); err == nil && !found {
					continue
				}
			}
			if err = errors.Join(err, a.setTexts(texts)); err != nil {
				return nil, "", err
			}
			a.followParams(d)
			if err := a.unhidden(d, func() ([]byte, error) { return s.View(a.Token) }); err != nil {
				return nil, "", err
			}
			if size += len(row) + len(a.Params) + len(texts); len(page) > 0 && size > actionListBytes {
				return page, page[len(page)-1].ID, nil
			}
			page = append(page, a)
		}
		last = id
	}
	return page, "", it.Error()
}

// settled changes nothing: once it is answered, everything that was written before is on disk.
type settled struct{}

func (settled) apply(*tx) error { return nil }
