package prochost

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
)

// State is where a replica is: supervise's states, and StateUnready.
type State = supervise.State

// StateUnready: the process runs and answers, and says that it cannot serve calls now.
const StateUnready State = "unready"

// Change is one step of a replica from state to state.
type Change struct {
	Plugin     string
	Generation string // of the configuration that started it
	Replica    int
	From, To   State
	Reason     string // "" on the way up
	Crashes    int    // within the window of the quarantine
	At         time.Time
}

// Status is a snapshot of a plugin.
type Status struct {
	Plugin   string
	Kind     Kind
	State    State  // ready if one replica is, else that of the one that is nearest to it
	Detail   string // why it is not ready; "" if it is
	Words    string // what it said itself of that; for operators only
	Replicas []ReplicaStatus
	Breaker  string // closed, open, half-open; "" without one
	InFlight int
	Waiting  int
	Gaps     []confine.Gap // what its processes are not confined in
}

// ReplicaStatus is a snapshot of one process or connection.
type ReplicaStatus struct {
	State   State
	Detail  string // why it is not ready
	Words   string // what it says of its health, or said before it ended; for operators only
	Since   time.Time
	Pid     int // 0 without a process
	Crashes int
	Starts  uint64
	Next    time.Time // in backoff: when it is started again
}

// Stats are counters since Load.
type Stats struct {
	Calls       uint64 // checks and scans, those from the cache included
	Errors      uint64 // of these, without a verdict or findings
	Late        uint64 // of the errors: no answer in time
	Refused     uint64 // of the errors: not asked, since it is down, full, closing or the breaker is open
	Wrong       uint64 // of the errors: the answer broke a rule or said that it failed
	Lost        uint64 // of the errors: the plugin ended meanwhile
	Retried     uint64 // asked a second time on another replica
	Stray       uint64 // answers that nobody waited for any more
	CacheHits   uint64
	CacheMisses uint64
	Starts      uint64 // processes or connections
	Crashes     uint64 // ends that were not asked for
	BreakerOpen uint64 // times that the breaker opened
	InFlight    int    // now
	Waiting     int    // now
}

// rank orders states by how near they are to ready.
var rank = map[State]int{
	supervise.StateStopped: 0, supervise.StateQuarantined: 1, supervise.StateDraining: 2, supervise.StateBackoff: 3,
	supervise.StateVerify: 4, supervise.StateStarting: 5, supervise.StateProbing: 6, StateUnready: 7,
	supervise.StateReady: 8,
}

// States lists all states, the one that is farthest from ready first.
func States() []State {
	return slices.SortedFunc(maps.Keys(rank), func(a, b State) int { return rank[a] - rank[b] })
}

// Ours says whether we start its processes.
func (p *Plugin) Ours() bool { return p.spec.Connect == "" }

// Status says how the plugin is. It never waits.
func (p *Plugin) Status() Status {
	s := Status{Plugin: p.spec.Name, Kind: p.spec.Kind, State: supervise.StateStopped, InFlight: int(p.flying.Load()),
		Waiting: p.waits()}
	if p.breaker != nil {
		s.Breaker = p.breaker.state()
	}
	for _, r := range p.replicas {
		rs := r.status()
		rs.Detail, rs.Words = p.spec.Hide.Hide(rs.Detail), p.spec.Hide.Hide(rs.Words)
		s.Gaps = confine.Merge(s.Gaps, r.lacks()...)
		if len(s.Replicas) == 0 || rank[rs.State] > rank[s.State] {
			s.State, s.Detail, s.Words = rs.State, rs.Detail, rs.Words
		}
		s.Replicas = append(s.Replicas, rs)
	}
	if s.State == supervise.StateReady {
		s.Detail, s.Words = "", ""
	}
	return s
}

func (r *replica) status() ReplicaStatus {
	st := r.service.State()
	out := ReplicaStatus{State: st.State, Since: st.Since, Pid: st.Pid, Crashes: st.Crashes, Starts: st.Starts,
		Next: st.Next}
	if st.Err != nil {
		out.Detail = quote.Short(st.Err.Error(), 1<<10)
	}
	if st.State == supervise.StateProbing && !r.handshaken() {
		out.State = supervise.StateStarting
	}
	out.Words = r.words()
	if st.State != supervise.StateReady {
		return out
	}
	in := r.now.Load()
	if in == nil || in.ctx.Err() != nil { // the service does not know of its end yet
		out.State = StateUnready
		if out.Detail = r.lastEnd(); in != nil {
			out.Detail = quote.Short(context.Cause(in.ctx).Error(), 1<<10)
		}
		return out
	}
	out.Detail = ""
	if said := in.said.Load(); said != nil {
		out.Detail, out.Words = said.how, said.words
	}
	if !in.serving.Load() {
		out.State = StateUnready
	}
	return out
}

func (r *replica) lacks() []confine.Gap {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps
}

// words are what the plugin said of its last failure.
func (r *replica) words() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return chain.Words(r.failed)
}

func (r *replica) handshaken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shaken
}

func (r *replica) lastEnd() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		return errLost.Error()
	}
	return quote.Short(r.ended.Error(), 1<<10)
}

// Stats gives the counters.
func (p *Plugin) Stats() Stats {
	n := &p.count
	s := Stats{Calls: n.calls.Load(), Errors: n.errors.Load(), Late: n.late.Load(), Refused: n.refused.Load(),
		Wrong: n.wrong.Load(), Lost: n.lost.Load(), Retried: n.retried.Load(), Stray: n.stray.Load(),
		Crashes: n.crashes.Load(), BreakerOpen: n.opened.Load(), InFlight: int(p.flying.Load()), Waiting: p.waits()}
	for _, r := range p.replicas {
		s.Starts += r.service.State().Starts
	}
	if p.cache != nil {
		s.CacheHits, s.CacheMisses = p.cache.hits.Load(), p.cache.missed.Load()
	}
	return s
}
