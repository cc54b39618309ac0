package prochost

import (
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// breaker is a plugin's, shared by its replicas: each of them is watched by itself, the breaker watches the answers. A
// call belongs to the state that it was begun in: how it went is told to no later one. What a trial that told nothing
// leaves is another call's, since failsafe-go gives a trial back only as a success or as a failure.
type breaker struct {
	changed func(from, to string) // not called with mu held

	mu    sync.Mutex // held over every call of cb, so that a state and its number belong together
	cb    circuitbreaker.CircuitBreaker[any]
	turn  uint64      // number of the state
	spare int         // trials of this state that were begun and told nothing
	news  [][2]string // changes that are still to be told
}

// newBreaker makes the breaker of a plugin, nil if it has none.
func newBreaker(b Breaker, changed func(from, to string)) *breaker {
	if b.Off {
		return nil
	}
	k := &breaker{changed: changed}
	note := func(e circuitbreaker.StateChangedEvent) { // mu is held
		k.turn, k.spare = k.turn+1, 0
		k.news = append(k.news, [2]string{e.OldState.String(), e.NewState.String()})
	}
	k.cb = circuitbreaker.NewBuilder[any]().
		WithFailureRateThreshold(b.Failures, uint(b.Calls), b.Window).
		WithDelay(b.Delay).WithSuccessThreshold(uint(b.Trials)).
		OnOpen(note).OnHalfOpen(note).OnClose(note).
		Build()
	return k
}

func (b *breaker) unlock() {
	news := b.news
	b.news = nil
	b.mu.Unlock()
	for _, n := range news {
		b.changed(n[0], n[1])
	}
}

// state is closed, open or half-open.
func (b *breaker) state() string {
	b.mu.Lock()
	defer b.unlock()
	return b.cb.State().String()
}

// refuses says whether it is open and will be for a while.
func (b *breaker) refuses() bool {
	b.mu.Lock()
	defer b.unlock()
	return b.cb.IsOpen() && b.cb.RemainingDelay() > 0
}

// remaining is how long it stays open.
func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.unlock()
	return b.cb.RemainingDelay()
}

func (b *breaker) closeCircuit() {
	b.mu.Lock()
	defer b.unlock()
	b.cb.Close()
}

// permit asks for leave to make one call.
func (b *breaker) permit() (p permit, ok bool) {
	b.mu.Lock()
	defer b.unlock()
	if b.spare > 0 {
		b.spare--
	} else if !b.cb.TryAcquirePermit() {
		return permit{}, false
	}
	return permit{breaker: b, turn: b.turn}, true
}

// permit is a breaker's leave to make one call. It is told how the call went, exactly once.
type permit struct {
	breaker *breaker // nil: there is none
	turn    uint64
}

// outcome of a call, as the breaker sees it.
type outcome int

const (
	wentWell outcome = iota
	wentWrong
	wentUnknown // the caller left
)

func (p permit) tell(o outcome) {
	b := p.breaker
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	switch {
	case p.turn != b.turn:
	case o == wentWell:
		b.cb.RecordSuccess()
	case o == wentWrong:
		b.cb.RecordFailure()
	case b.cb.IsHalfOpen():
		b.spare++
	}
}
