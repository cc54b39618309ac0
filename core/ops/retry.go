package ops

import (
	"slices"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// retryIn says in a decision when asking again may help: when a limit has room again, or else when the step that failed
// may be back. A step that only an operator can bring back makes it never.
func retryIn(d *wire.AuthorizeResponse, limit time.Duration, rows []chain.Row) {
	if d.Retry == nil || d.Retry.Class != "after" {
		return
	}
	after := limit
	for i := range rows {
		if r := &rows[i]; after == 0 && !r.Step.Shadow && r.Err != nil && r.Verdict.Code == d.ReasonCode &&
			r.Verdict.Effect.String() == d.Effect {
			after = chain.RetryAfter(r.Err)
		}
	}
	switch {
	case after < 0, d.ReasonCode == sdk.ReasonScanUnavailable: // args that no scanner can look at
		d.Retry = &wire.Retry{Class: "never"}
	case after > 0:
		d.Retry.AfterSeconds = int((after + time.Second - 1) / time.Second)
	}
}

// haltRetry is the advice of a decision that denies; what waits for an approval has a way of its own to say so.
func haltRetry(d *wire.AuthorizeResponse) *wire.Retry {
	if d.Effect != sdk.Deny.String() {
		return nil
	}
	return d.Retry
}

// scanRetry says of an output with that reason code when scanners that failed may be back; nil where that is not why.
// All whose on_error is deny are needed. Of those that abstain one is enough, where no other scanner has looked.
func scanRetry(code string, rs []chain.Receipt) *wire.Retry {
	if code != sdk.ReasonScanUnavailable {
		return nil
	}
	out := wire.RetryFor(sdk.Deny, code)
	if !slices.ContainsFunc(rs, func(r chain.Receipt) bool { return r.Err != nil }) {
		return &wire.Retry{Class: "never"}
	}
	var required, others []time.Duration
	looked := false
	for i := range rs {
		switch r := &rs[i]; {
		case r.Step.Shadow:
		case r.Err == nil:
			looked = looked || r.Outcome != "skipped"
		case r.Step.OnError != sdk.Abstain:
			required = append(required, chain.RetryAfter(r.Err))
		default:
			others = append(others, chain.RetryAfter(r.Err))
		}
	}
	after := time.Duration(0)
	switch {
	case slices.Contains(required, chain.Never):
		after = chain.Never
	case len(required) > 0:
		after = slices.Max(required)
	case looked: // no failure denied it: what the text is will deny it again
		after = chain.Never
	default:
		after = soonest(others)
	}
	switch least := time.Duration(out.AfterSeconds) * time.Second; {
	case after < 0:
		return &wire.Retry{Class: "never"}
	case after > least:
		out.AfterSeconds = int((after + time.Second - 1) / time.Second)
	}
	return out
}

// soonest is the shortest of some waits, chain.Never if all are.
func soonest(waits []time.Duration) time.Duration {
	best := chain.Never
	for _, w := range waits {
		if w != chain.Never && (best == chain.Never || w < best) {
			best = w
		}
	}
	return best
}
