package prochost

import (
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// newBreaker makes the breaker of a plugin. It is shared by its replicas: each of them is watched by itself, the breaker
// watches the answers.
func newBreaker(b Breaker, changed func(from, to string)) circuitbreaker.CircuitBreaker[any] {
	if b.Off {
		return nil
	}
	tell := func(e circuitbreaker.StateChangedEvent) { changed(e.OldState.String(), e.NewState.String()) }
	return circuitbreaker.NewBuilder[any]().
		WithFailureRateThreshold(b.Failures, uint(b.Calls), b.Window).
		WithDelay(b.Delay).WithSuccessThreshold(uint(b.Trials)).
		OnOpen(tell).OnHalfOpen(tell).OnClose(tell).
		Build()
}

// permit is a breaker's leave to make one call. It is told how the call went, exactly once.
type permit struct {
	breaker circuitbreaker.CircuitBreaker[any]
	trial   bool // given while the breaker was half open
}

// outcome of a call, as the breaker sees it.
type outcome int

const (
	wentWell outcome = iota
	wentWrong
	wentUnknown // the caller left
)

func (p permit) tell(o outcome) {
	switch {
	case p.breaker == nil:
	case o == wentWell:
		p.breaker.RecordSuccess()
	case o == wentWrong || p.trial: // a trial that told nothing must give its permit back, and not as a success
		p.breaker.RecordFailure()
	}
}
