package ops

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// answersInFlight knows which requests are being committed or have been, and whose answer has not left yet, so that a
// kill returns only when no PERMIT of an earlier call can be sent any more. What a chain still works on is not among
// them: its commit sees the kill. Requests count themselves in one of two generations; a kill turns to the other one
// and waits until the first is empty. It does that twice, because a request may have read the generation just before
// the turn (as in sleepable read-copy-update).
type answersInFlight struct {
	turn  atomic.Uint32
	open  [2]paddedCount
	turns chan struct{} // one kill at a time turns

	mu   sync.Mutex
	cuts []func()
}

type paddedCount struct {
	n atomic.Int64
	_ [56]byte // a cache line each
}

// drainFor bounds how long a kill waits for answers on their way. A commit takes at most the stall limit of 500 ms, and
// a write to a client that does not read is cut off.
const drainFor = 2 * time.Second

// cutEvery is how often a kill that waits has transports look for answers that do not get on.
const cutEvery = 250 * time.Millisecond

func newAnswersInFlight() *answersInFlight { return &answersInFlight{turns: make(chan struct{}, 1)} }

// Enter counts a request in whose answer may be a PERMIT, before its commit looks at kills. Leave takes what it gives.
func (s *Service) Enter() uint32 {
	g := s.inFlight.turn.Load() & 1
	s.inFlight.open[g].n.Add(1)
	return g
}

// Leave counts a request out, once its answer is on the wire or never will be.
func (s *Service) Leave(g uint32) { s.inFlight.open[g&1].n.Add(-1) }

// CutWith has fn called every now and then while a kill waits, by one goroutine at a time: it ends each write that may
// bring a PERMIT and has not got on since fn was called last. Its client does not read, and would find the PERMIT when
// the kill has long been answered.
func (s *Service) CutWith(fn func()) {
	f := s.inFlight
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts = append(f.cuts, fn)
}

func (f *answersInFlight) cutWrites() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fn := range f.cuts {
		fn()
	}
}

// waitForAnswers returns when every request that had been let in before is answered.
func (f *answersInFlight) waitForAnswers(ctx context.Context) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return
	}
	end := time.NewTimer(drainFor)
	defer end.Stop()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	look := time.NewTicker(cutEvery)
	defer look.Stop()
	for range 2 {
		g := f.turn.Add(1) - 1
		for f.open[g&1].n.Load() > 0 {
			select {
			case <-tick.C:
			case <-look.C:
				f.cutWrites()
			case <-end.C:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// permitted is a call that was permitted and whose answer is not sent yet.
type permitted struct {
	yes                  bool
	began                uint64
	agent, session, tool string
	decision             string
}

// Overtaken reports whether what r permitted is covered by a kill, or was since it began. A transport that keeps
// answers waiting, so that they go out in order, asks between Enter and the write, and sends what Withheld gives
// instead.
func (s *Service) Overtaken(r *Request) bool {
	p := &r.permitted
	return p.yes && s.set.Store.KilledSince(p.began, r.Key, p.agent, p.session, p.tool) != nil
}

// Halts reports whether a key is stopped, or a kill covers such a call of it: nothing is done for it any more, also
// where it was permitted and runs.
func (s *Service) Halts(key *store.Key, agent, session, tool string) bool {
	return s.set.Store.KeyStopped(key.ID) || s.set.Store.Killed(key, agent, session, tool) != nil
}

// Permitted reports whether r's answer is a PERMIT that binds.
func (r *Request) Permitted() bool { return r.permitted.yes }

// Withheld records that a PERMIT was not sent because a kill overtook it, and gives what is sent in its place.
func (s *Service) Withheld(ctx context.Context, r *Request, d *wire.AuthorizeResponse) *wire.AuthorizeResponse {
	p := &r.permitted
	out := &wire.AuthorizeResponse{Effect: sdk.Deny.String(), ReasonCode: sdk.ReasonKillSwitch,
		Reason: "stopped by a kill before the answer was sent", DecisionID: d.DecisionID,
		CallID: d.CallID, PolicyVersion: d.PolicyVersion, LatencyMS: d.LatencyMS,
		Retry: wire.RetryFor(sdk.Deny, sdk.ReasonKillSwitch)}
	// The denial stands whether the note is written or not: the log's PERMIT is followed by the kill that overtook it.
	_ = s.set.Store.Commit(ctx, &store.Note{Type: "withheld", By: r.Who,
		Fields: [][2]string{{"decision_id", p.decision}, {"call_id", d.CallID}, {"agent_id", p.agent},
			{"tool_id", p.tool}, {"effect", out.Effect}, {"reason_code", out.ReasonCode}}})
	return out
}
