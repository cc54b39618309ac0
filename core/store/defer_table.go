package store

import (
	"slices"
	"time"
)

type callKey struct{ key, agent, call string }

// state is what the sequencer's goroutine alone may touch.
type state struct {
	live     map[string]*Defer     // pending and approved, by token
	waiting  []waiter              // the same, for those who look at all of them
	alike    map[[32]byte][]*Defer // pending and approved, by the digest of the call
	byCall   map[callKey]string    // token of a live defer, by the call that asked
	pending  map[string]int        // per key
	watchers map[string][]chan struct{}
	undone   map[killName]*Kill // undone in this batch
	counters counters
	dropped  uint64          // the minute in which old counters went last
	dues     dues            // when to look at which live defer
	dueOf    map[string]*due // by its token

	names       map[string]string // each is one string, however many calls have it: see name
	sweeps      []*sweep          // what is left to be denied, the oldest first
	sweepNumber uint64            // of the next one
	newest      time.Time         // when the last call has begun to wait
}

func newState() *state {
	return &state{live: map[string]*Defer{}, alike: map[[32]byte][]*Defer{}, byCall: map[callKey]string{},
		pending: map[string]int{}, watchers: map[string][]chan struct{}{}, counters: counters{},
		undone: map[killName]*Kill{},
		dueOf:  map[string]*due{}, names: map[string]string{}}
}

// waiter is what a sweep looks at of a live call. Those of 100 000 calls lie one behind the other, each in a cache line
// of its own: a sweep that read the calls themselves, wherever they lie, would hold up others ten times as long.
type waiter struct {
	d                *Defer
	doomed           *sweep // that has not come to it yet
	key, agent, tool string
}

// doomed is the sweep that will deny d and has not come to it yet, or nil.
func (st *state) doomed(d *Defer) *sweep {
	is := st.live[d.Token] // d may be a copy
	if is == nil {
		return nil
	}
	return st.waiting[is.slot].doomed
}

// mostNames bounds the names that are kept for one string each.
const mostNames = 4096

// name is that name, of which very many calls may have one each.
func (st *state) name(s string) string {
	one, ok := st.names[s]
	if !ok {
		if len(st.names) >= mostNames {
			clear(st.names)
		}
		st.names[s], one = s, s
	}
	return one
}

func (st *state) add(d *Defer) {
	d.KeyID, d.AgentID, d.ToolID = st.name(d.KeyID), st.name(d.AgentID), st.name(d.ToolID)
	if st.live[d.Token] = d; d.Created.After(st.newest) {
		st.newest = d.Created
	}
	d.slot = len(st.waiting)
	st.waiting = append(st.waiting, waiter{d: d, key: d.KeyID, agent: d.AgentID, tool: d.ToolID})
	st.byCall[callKey{d.KeyID, d.AgentID, d.CallID}] = d.Token
	st.alike[d.Digest] = append(st.alike[d.Digest], d)
	if d.Status == Pending {
		st.pending[d.KeyID]++
	}
}

// drop takes a call that has ended off the lists of live ones.
func (st *state) drop(d *Defer) {
	delete(st.live, d.Token)
	last := len(st.waiting) - 1
	st.waiting[d.slot] = st.waiting[last]
	st.waiting[d.slot].d.slot = d.slot
	st.waiting[last] = waiter{}
	st.waiting = st.waiting[:last]
	rest := slices.DeleteFunc(st.alike[d.Digest], func(o *Defer) bool { return o == d })
	if st.alike[d.Digest] = rest; len(rest) == 0 {
		delete(st.alike, d.Digest)
	}
	if asked := (callKey{d.KeyID, d.AgentID, d.CallID}); st.byCall[asked] == d.Token {
		delete(st.byCall, asked)
	}
}

// unpend takes d out of the count of pending ones.
func (st *state) unpend(d *Defer) {
	if st.pending[d.KeyID]--; st.pending[d.KeyID] <= 0 {
		delete(st.pending, d.KeyID)
	}
}

// wakeApproved wakes those who poll a call whose row says approved: its sign-offs may count again.
func (st *state) wakeApproved() {
	for token, waiting := range st.watchers {
		if d := st.live[token]; d == nil || d.Status != Approved {
			continue
		}
		delete(st.watchers, token)
		for _, ch := range waiting {
			close(ch)
		}
	}
}
