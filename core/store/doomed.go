package store

import (
	"slices"
	"time"
)

// A kill or a revocation holds for all that it covers from its answer on, and denies that in shares. What is looked up
// beside the sequencer in between must not say that such a call waits.

// asked is what a kill looks at of a call.
type asked struct {
	key, agent, tool string
	session          *string // it is seldom looked at, and lies elsewhere
}

// doom is a sweep of which not everything is on disk.
type doom struct {
	*sweep
	covers func(asked) bool
}

// dooms are for one who looks beside the sequencer, and who takes them before anything else: what they do not have is
// on disk by then, or came later.
type dooms []doom

// dooms lists what is left to be denied. Not for use by more than one goroutine.
func (s *Store) dooms() dooms {
	left := s.open.left.Load()
	if left == nil {
		return nil
	}
	out := make(dooms, len(*left))
	for i, w := range *left {
		out[i] = doom{w, w.covers(s)}
	}
	return out
}

// of is what is to deny an open call that is so since made; nil: nothing. s.keys.mu is held.
func (ds dooms) of(a asked, made time.Time) *sweep {
	for _, d := range ds {
		if !made.After(d.At) && d.covers(a) {
			return d.sweep
		}
	}
	return nil
}

// deny makes a row that was read behind left what it is about to be. d may be nil.
func (s *Store) deny(d *Defer, left dooms) {
	if d == nil || !d.open() {
		return
	}
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	if w := left.of(asked{d.KeyID, d.AgentID, d.ToolID, &d.SessionID}, d.Created); w != nil {
		d.Status, d.ResolvedBy, d.EndReason = Denied, w.By.Principal, w.Why
	}
}

// begins says that w is left to be denied.
func (o *openCalls) begins(w *sweep) {
	var left []*sweep
	if was := o.left.Load(); was != nil {
		left = slices.Clone(*was)
	}
	left = append(left, w)
	o.left.Store(&left)
}

// ends says that all that w denies is on disk.
func (o *openCalls) ends(w *sweep) {
	left := slices.DeleteFunc(slices.Clone(*o.left.Load()), func(x *sweep) bool { return x == w })
	if len(left) == 0 {
		o.left.Store(nil)
		return
	}
	o.left.Store(&left)
}
