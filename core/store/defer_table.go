package store

import (
	"slices"
)

type callKey struct{ key, agent, call string }

// state is what the sequencer's goroutine alone may touch.
type state struct {
	live     map[string]*Defer     // pending and approved, by token
	alike    map[[32]byte][]*Defer // pending and approved, by the digest of the call
	byCall   map[callKey]string    // token of a live defer, by the call that asked
	pending  map[string]int        // per key
	watchers map[string][]chan struct{}
	undone   map[killName]*Kill // undone in this batch
	counters counters
	dropped  uint64          // the minute in which old counters went last
	dues     dues            // when to look at which live defer
	dueOf    map[string]*due // by its token

	sweeps      []*sweep // what is left to be denied, the oldest first
	sweepNumber uint64   // of the next one
}

func newState() *state {
	return &state{live: map[string]*Defer{}, alike: map[[32]byte][]*Defer{}, byCall: map[callKey]string{},
		pending: map[string]int{}, watchers: map[string][]chan struct{}{}, counters: counters{}, undone: map[killName]*Kill{},
		dueOf: map[string]*due{}}
}

func (st *state) add(d *Defer) {
	st.live[d.Token] = d
	st.byCall[callKey{d.KeyID, d.AgentID, d.CallID}] = d.Token
	st.alike[d.Digest] = append(st.alike[d.Digest], d)
	if d.Status == Pending {
		st.pending[d.KeyID]++
	}
}

// drop takes a call that has ended off the lists of live ones.
func (st *state) drop(d *Defer) {
	delete(st.live, d.Token)
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
