package ops

import (
	"cmp"
	"context"
	"runtime"

	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/sdk"
)

// shortBody is how long the body of an urgent request may be that waits for no turn, bytes.
const shortBody = 64 << 10

// newTurns are the places of requests that this process works on: it parses them, names them by their digest, asks the
// rules. Without them a key with hundreds of connections has hundreds of requests on the processors, and every other
// key's waits behind them all.
func newTurns(most int) *places.Places {
	return places.New(places.Rules{Most: cmp.Or(most, runtime.GOMAXPROCS(0)), Spare: true, Queue: -1})
}

// Begin waits for a turn to work on a request whose body has so many bytes. Transports call it before they parse, and
// the request's End when they have an answer. An urgent request, such as a kill, waits for nobody. The error is one to
// answer with.
func (s *Service) Begin(op *Op, r *Request, body int) error {
	if op.UrgentFor(r.Key) && body <= shortBody {
		return nil
	}
	if r.own.Take(r.Ctx, s.turns, r.Key.ID) != nil {
		return noTurn()
	}
	r.turn = &r.own
	return nil
}

// End ends the request's turn, if it has one. What waits for somebody else ends it before.
func (r *Request) End() { r.turn.Give() }

// Parsing waits for a turn to parse n bytes that say themselves what is asked. who is whose they are; done ends the
// turn.
func (s *Service) Parsing(ctx context.Context, who string, n int) (done func(), err error) {
	if n <= shortBody {
		return func() {}, nil
	}
	var turn places.Turn
	if turn.Take(ctx, s.turns, who) != nil {
		return nil, noTurn()
	}
	return turn.Give, nil
}

func noTurn() *sdk.Error {
	return sdk.Errf(sdk.CodeOverloaded, "the server is busy with other requests, and this one had no turn in time; try "+
		"again in a second")
}
