package store

import (
	"slices"
	"sync"
	"time"
)

// openCalls is what can be known of open deferred calls beside the sequencer, which alone changes it. Safe for concurrent use.
type openCalls struct {
	mu sync.RWMutex
	by map[string]*openCall // by token, by approval_token where that is another one, and by the decision that began it
}

// openCall is one of them. It never changes: a new one takes its place.
type openCall struct {
	token, approval, decision, key, agent string
	pending                               bool
	expires                               time.Time
	actions                               []string
}

// answers reports whether the token is the one that answers that action.
func (d *openCall) answers(action, token string) bool {
	want := d.approval
	if want == "" {
		want = d.token
	}
	return token == want && slices.Contains(d.actions, action)
}

// put makes what is known of d what d is by now.
func (o *openCalls) put(d *Defer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was := o.by[d.Token]; was != nil {
		delete(o.by, was.approval)
		delete(o.by, was.decision)
		delete(o.by, was.token)
	}
	if !d.open() {
		return
	}
	is := &openCall{d.Token, d.Approval, d.DecisionID, d.KeyID, d.AgentID, d.Status == Pending, d.Expires, d.actions()}
	o.by[is.token], o.by[is.decision] = is, is
	if is.approval != "" {
		o.by[is.approval] = is
	}
}

func (o *openCalls) find(name string) *openCall {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.by[name]
}

// OpenCall is the token of the open deferred call that a decision began, "" if there is none. It does not wait for the disk.
func (s *Store) OpenCall(decision string) string {
	if d := s.open.find(decision); d != nil && d.decision == decision {
		return d.token
	}
	return ""
}
