package store

import (
	"slices"
	"time"
)

// A kill or a revocation holds for all that it covers from its answer on, and denies that in shares. What is looked up
// beside the sequencer in between must not say that such a call waits. Nor where a kill is in effect that the disk has
// not taken.

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
// on disk by then, or came later. A list of 100 000 calls asks about each of them, however many sweeps there are: most
// of these cover whoever asks, and are looked at once for all calls of theirs.
type dooms struct {
	plain    []doom // that do not look at the session
	tooled   bool   // one of them looks at the tool
	newest   map[[3]string]*sweep
	sessions map[string]*sweep // of one session each, the newest
	patterns []doom            // of sessions
}

// dooms lists what is left to be denied; nil: nothing. Not for use by more than one goroutine.
func (s *Store) dooms() *dooms {
	left := s.open.left.Load()
	if left == nil {
		return nil
	}
	ds := &dooms{newest: map[[3]string]*sweep{}, sessions: map[string]*sweep{}}
	for _, w := range *left {
		switch k := w.Kill; {
		case k == nil || k.Scope != KillSession:
			ds.plain = append(ds.plain, doom{w, w.covers(s)})
			ds.tooled = ds.tooled || k != nil && k.Scope == KillTool
		case k.Target == "" || isPattern(k.Target):
			ds.patterns = append(ds.patterns, doom{w, w.covers(s)})
		case ds.sessions[k.Target] == nil || w.At.After(ds.sessions[k.Target].At):
			ds.sessions[k.Target] = w
		}
	}
	return ds
}

// of is what is to deny an open call that is so since made; nil: nothing. s.keys.mu is held.
func (ds *dooms) of(a asked, made time.Time) *sweep {
	if ds == nil {
		return nil
	}
	if w := ds.asker(a); w != nil && !made.After(w.At) {
		return w
	}
	if w := ds.sessions[*a.session]; w != nil && !made.After(w.At) {
		return w
	}
	for _, d := range ds.patterns {
		if !made.After(d.At) && d.covers(a) {
			return d.sweep
		}
	}
	return nil
}

// asker is the newest of the plain sweeps that cover such a call.
func (ds *dooms) asker(a asked) *sweep {
	name := [3]string{a.key, a.agent}
	if ds.tooled {
		name[2] = a.tool
	}
	w, known := ds.newest[name]
	if known {
		return w
	}
	for _, d := range ds.plain {
		if (w == nil || d.At.After(w.At)) && d.covers(a) {
			w = d.sweep
		}
	}
	ds.newest[name] = w
	return w
}

// deny makes a call that was read behind left what it is about to be. d may be nil.
func (s *Store) deny(d *Defer, left *dooms) {
	if left == nil || d == nil || !d.open() {
		return
	}
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	left.deny(d)
}

// deny is Store.deny with s.keys.mu held.
func (ds *dooms) deny(d *Defer) {
	if w := ds.of(asked{d.KeyID, d.AgentID, d.ToolID, &d.SessionID}, d.Created); w != nil {
		d.Status, d.ResolvedBy, d.EndReason, d.ResolvedAt = Denied, w.By.Principal, w.Why, w.At
		if w.Kill != nil {
			d.ResolvedAt = w.Kill.At
		}
	}
}

// begins says that w is left to be denied.
func (o *openCalls) begins(w *sweep) {
	o.changeLeft(func(left []*sweep) []*sweep { return append(left, w) })
}

// ends says that all that w denies is on disk, or that w is void.
func (o *openCalls) ends(w *sweep) {
	o.changeLeft(func(left []*sweep) []*sweep {
		return slices.DeleteFunc(left, func(x *sweep) bool { return x == w })
	})
}

func (o *openCalls) changeLeft(fn func([]*sweep) []*sweep) {
	o.leftMu.Lock()
	defer o.leftMu.Unlock()
	var left []*sweep
	if was := o.left.Load(); was != nil {
		left = slices.Clone(*was)
	}
	if left = fn(left); len(left) == 0 {
		o.left.Store(nil)
		return
	}
	o.left.Store(&left)
}
