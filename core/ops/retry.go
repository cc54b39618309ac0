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

// scanRetryIn says in the answer about a text when a scanner that failed may be back.
func scanRetryIn(out *wire.ScanResponse, rs []chain.Receipt) {
	out.Advise()
	if out.Retry == nil || out.Retry.Class != "after" {
		return
	}
	// a scanner that abstains denies only where no other one failed whose on_error is deny
	denies := func(r *chain.Receipt) bool { return r.Err != nil && !r.Step.Shadow && r.Step.OnError != sdk.Abstain }
	required := slices.ContainsFunc(rs, func(r chain.Receipt) bool { return denies(&r) })
	for i := range rs {
		if rs[i].Err == nil || rs[i].Step.Shadow || required && !denies(&rs[i]) {
			continue
		}
		switch after := chain.RetryAfter(rs[i].Err); {
		case after < 0:
			out.Retry = &wire.Retry{Class: "never"}
			return
		case after > time.Duration(out.Retry.AfterSeconds)*time.Second:
			out.Retry.AfterSeconds = int((after + time.Second - 1) / time.Second)
		}
	}
}
