package store

import "time"

// How many kills are remembered after they were undone, and for how long: far longer than a call takes.
const (
	pastMost = 256
	pastKept = 10 * time.Minute
)

// pastKills are kills that were undone. A call that began before one of them landed is denied all the same: who undoes
// a kill lets new calls go on, and the kill was answered with the promise that no earlier call is permitted any more.
// It never changes: a new one takes its place.
type pastKills struct {
	list  []pastKill
	floor uint64 // the number of the newest kill that is remembered no more, 0 if all are: it counts as one of everything
}

type pastKill struct {
	kill   *Kill
	set    *killSet // of this kill alone
	undone time.Time
}

// remember keeps a kill that is undone now. t.mu is held, and readers see the kill until it is kept here.
func (t *killTable) remember(k *Kill, now time.Time) {
	next := &pastKills{}
	if was := t.past.Load(); was != nil {
		next.list, next.floor = append(next.list, was.list...), was.floor
	}
	set := &killSet{all: map[killName]*Kill{{k.Scope, k.Target}: k}}
	set.sort(k)
	next.list = append(next.list, pastKill{k, set, now})
	for len(next.list) > pastMost || now.Sub(next.list[0].undone) > pastKept {
		next.floor = max(next.floor, next.list[0].kill.number)
		next.list = next.list[1:]
	}
	t.past.Store(next)
}

// Began is what a call keeps of its beginning, so that a kill that comes later stops it even if it is undone before the
// call ends. It is read before the call asks for kills that are in effect.
func (s *Store) Began() uint64 { return s.kills.landed.Load() }

// forgotten stands for kills that are remembered no more: what they were of is not known, and so not said.
var forgotten = new(Kill)

// KilledSince is a kill that covers such a call of that key, or has covered it since it began, or nil. One without a
// scope has come since the call began, and is remembered no more.
func (s *Store) KilledSince(began uint64, k *Key, agent, session, tool string) *Kill {
	if kill := s.Killed(k, agent, session, tool); kill != nil {
		return kill
	}
	past := s.kills.past.Load()
	if past == nil {
		return nil
	}
	for i := range past.list {
		if p := &past.list[i]; p.kill.number > began && p.set.covering(k.root(), agent, session, tool) != nil {
			return p.kill
		}
	}
	if past.floor > began {
		return forgotten
	}
	return nil
}
