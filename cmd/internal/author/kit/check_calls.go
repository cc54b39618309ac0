package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk"
)

// sampleCalls are calls that any authorizer must answer.
func sampleCalls() []string {
	return []string{
		`{}`,
		`{"agent_id":"bot-7","session_id":"s","tool_id":"pay/refund","operation":"refund","call_id":"c-1","args":{"amount":120.50,"currency":"EUR"}}`,
		`{"agent_id":"bot-7","tool_id":"pay/refund","args":{"amount":1e400,"note":"\t\ud83d\ude42 \"quoted\""}}`,
		`{"agent_id":"bot-7","tool_id":"mail/send","args":{"to":["a@example.org"],"body":"` +
			strings.Repeat("text ", 20_000) + `"},"context":{"depth":` +
			strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`,
	}
}

// authorizer wants each call decided, and alike by every instance.
func (c *conformance) authorizer(ctx context.Context) {
	var calls []*chain.Call
	for _, text := range sampleCalls() {
		call, err := readCall([]byte(text))
		if err != nil {
			c.rep.add("decides", err, "")
			return
		}
		calls = append(calls, call)
	}
	verdicts := make([]sdk.Verdict, len(calls))
	decided := 0
	for i, call := range calls {
		v, err := c.sub.first.Check(ctx, call)
		if err != nil && !unsupported(err) {
			c.rep.add("decides", fmt.Errorf("call %s: %w", Printable(sampleCalls()[i], 60), advised(err)), "")
			return
		}
		if err == nil {
			decided++
		}
		verdicts[i] = v
	}
	if decided == 0 {
		c.rep.add("decides", errors.New("none of the calls is decided: each is answered with the status unsupported"), "")
		return
	}
	c.rep.add("decides", nil, "%d calls", len(calls))
	c.rep.add("two instances decide alike", recheck(ctx, c.sub.second, calls, verdicts),
		"the same decisions, in the opposite order of calls")
	c.rep.add("a new instance decides alike", recheck(ctx, c.fresh, calls, verdicts),
		"the same decisions after other calls as from a new instance")
}

func recheck(ctx context.Context, m *host.Module, calls []*chain.Call, want []sdk.Verdict) error {
	for i := len(calls) - 1; i >= 0; i-- {
		got, err := m.Check(ctx, calls[i])
		if err != nil && !unsupported(err) {
			return fmt.Errorf("call %s: %w", Printable(sampleCalls()[i], 60), err)
		}
		if got.Effect != want[i].Effect || got.Code != want[i].Code || got.Reason != want[i].Reason ||
			got.TTL != want[i].TTL {
			return fmt.Errorf("call %s: %s %s, another run gave %s %s", Printable(sampleCalls()[i], 60), got.Effect, got.Code,
				want[i].Effect, want[i].Code)
		}
	}
	return nil
}
