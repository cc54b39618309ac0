package ops_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// away is a step that is down, in the way that the tool's name says.
type away struct{}

func (away) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	down := fmt.Errorf("%w: the plugin is not ready", chain.ErrUnavailable)
	switch c.ToolID {
	case "quarantined":
		return sdk.Verdict{}, fmt.Errorf("plugin p: %w", chain.Later(down, chain.Never))
	case "backoff":
		return sdk.Verdict{}, chain.Later(down, 12*time.Second+time.Millisecond)
	case "back-at-once":
		return sdk.Verdict{}, chain.Later(down, 0)
	case "broken":
		return sdk.Verdict{}, errors.New("an error of its own")
	}
	return sdk.Verdict{Effect: sdk.Deny, Code: "RULE_DENY"}, nil
}

// TestRetryKnowsWhenAStepIsBack: whoever was denied since a step is down is told when asking again can help, on every
// surface.
func TestRetryKnowsWhenAStepIsBack(t *testing.T) {
	b := newBench(t, nil)
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny, Steps: []chain.Step{
		{Name: "shadow", Inline: true, Shadow: true, OnError: sdk.Deny, Checker: awayFor("quarantined")},
		{Name: "away", Inline: true, OnError: sdk.Deny, Checker: away{}}}})
	agent := b.newKey("agent", "agent")
	never, after := `"retry":{"class":"never"}`, `"retry":{"class":"after","after_seconds":%d}`
	for _, c := range []struct{ tool, retry, resolution string }{
		{"quarantined", never, ""},
		{"backoff", fmt.Sprintf(after, 13), `"resolution":{"type":"retry","retry_after_seconds":13}`},
		{"back-at-once", fmt.Sprintf(after, 1), `"resolution":{"type":"retry","retry_after_seconds":1}`},
		{"broken", fmt.Sprintf(after, 1), `"resolution":{"type":"retry","retry_after_seconds":1}`},
		{"denied", never, ""},
	} {
		for op, body := range map[string]string{
			"authorize":     `{"agent_id":"a","tool_id":%q}`,
			"govern":        `{"agent_id":"a","tool_id":%q}`,
			"evaluate":      `{"agent_id":"a","tool_id":%q}`,
			"gate_decide":   `{"agent_id":"a","tool":%q,"operation":"","params":{}}`,
			"action_submit": `{"agent_id":"a","tool":%q,"operation":"","params":{}}`,
		} {
			out := b.must(agent.Value, op, fmt.Sprintf(body, c.tool))
			if !strings.Contains(out, c.retry) || strings.Count(out, `"retry":`) != 1 {
				t.Errorf("%s of %s: %s, want %s", op, c.tool, out, c.retry)
			}
			if op == "govern" && (strings.Contains(out, `"resolution"`) != (c.resolution != "") ||
				!strings.Contains(out, c.resolution)) {
				t.Errorf("%s of %s: %s, want %s", op, c.tool, out, c.resolution)
			}
		}
	}
}

// awayFor is away whatever is called.
type awayFor string

func (a awayFor) Check(ctx context.Context, c *chain.Call) (sdk.Verdict, error) {
	return away{}.Check(ctx, &chain.Call{ToolID: string(a)})
}
