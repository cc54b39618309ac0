package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// openCalls is what can be known of open deferred calls beside the sequencer, which alone changes it. Safe for
// concurrent use.
type openCalls struct {
	mu    sync.RWMutex
	ages  ages
	order openOrder
	by    map[string]*openCall // by token, by approval_token where that is another one, and by the decision that began it

	// before is what by was of those that the commands of the last batch have changed, until that batch is on disk or what
	// it gave is taken back: whatever is in flight when the disk stalls is void.
	before map[string]*openCall

	left   atomic.Pointer[[]*sweep] // of which not everything is on disk; nil: none
	leftMu sync.Mutex               // of those who change it
	owed   atomic.Int32             // how many of them are kills that the disk has not taken
}

// openCall is one of them. It never changes: a new one takes its place.
type openCall struct {
	token, approval, decision string
	key, agent, tool, session string
	pending                   bool
	quorums                   []sdk.Quorum // with signers, they tell whether an approved call is pending again
	signers                   []string
	expires, made             time.Time
	actions                   []string
}

// answers reports whether the token is the one that answers that action.
func (d *openCall) answers(action, token string) bool {
	want := d.approval
	if want == "" {
		want = d.token
	}
	return token == want && slices.Contains(d.actions, action)
}

// waits reports whether the call is pending. s.keys.mu is held.
func (d *openCall) waits(s *Store, t Times, left *dooms) bool {
	doomed := left.of(asked{d.key, d.agent, d.tool, &d.session}, d.made) != nil
	return !doomed && (d.pending || !s.enough(d.quorums, d.signers, t))
}

// names is under what the call is found.
func (d *openCall) names() []string {
	if d.approval == "" {
		return []string{d.token, d.decision}
	}
	return []string{d.token, d.decision, d.approval}
}

// put makes what is known of d what d is by now. inFlight says that a command did it, which a stall would make void.
func (o *openCalls) put(d *Defer, inFlight bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ages.put(d)
	if was := o.by[d.Token]; was != nil {
		if inFlight && o.before[d.Token] == nil {
			for _, name := range was.names() {
				o.before[name] = was
			}
		}
		o.order.drop(was)
		delete(o.by, was.approval)
		delete(o.by, was.decision)
		delete(o.by, was.token)
	}
	if !d.open() {
		return
	}
	is := &openCall{d.Token, d.Approval, d.DecisionID, d.KeyID, d.AgentID, d.ToolID, d.SessionID, d.Status == Pending,
		d.Quorums, d.signers(), d.Expires, d.made(), d.actions()}
	o.order.add(is)
	for _, name := range is.names() {
		o.by[name] = is
	}
}

// settled forgets what was before: the last batch is on disk, or what it gave is taken back.
func (o *openCalls) settled() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.before)
}

// find is the open call of that name that fits: as it was before what is in flight, or as it is with that. nil if none
// does.
func (o *openCalls) find(name string, fits func(*openCall) bool) *openCall {
	o.mu.RLock()
	was, is := o.before[name], o.by[name]
	o.mu.RUnlock()
	for _, d := range []*openCall{was, is} {
		if d != nil && fits(d) {
			return d
		}
	}
	return nil
}

// OpenCall is the token of the open deferred call that a decision began, "" if there is none. It does not wait for the
// disk.
func (s *Store) OpenCall(decision string) string {
	if d := s.open.find(decision, func(d *openCall) bool { return d.decision == decision }); d != nil {
		return d.token
	}
	return ""
}
