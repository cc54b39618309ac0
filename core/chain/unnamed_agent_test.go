package chain_test

import (
	"context"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// A caller that leaves out the agent of a text gets every scanner that an agent could have: a key for some agents is
// not rid of their scanners by naming none.
func TestTextsOfNoNamedAgent(t *testing.T) {
	c := &chain.ScanChain{Now: steady, Budget: time.Minute, Actions: []chain.ActionRule{{Action: sdk.Redact}},
		Steps: []chain.ScanStep{
			{Name: "all", OnError: sdk.Deny, Scanner: literal("NEVER", "\x00"), Stream: window(1)},
			{Name: "strict", OnError: sdk.Deny, Scanner: literal("KEY", "key"), Stream: window(3),
				Match: chain.Match{Tools: []string{"files/*"}, Agents: []string{"strict*"}}},
		}}
	for _, tt := range []struct{ tool, agent, want string }{
		{"files/read", "strict9", chain.Redacted},
		{"files/read", "", chain.Redacted},
		{"files/read", "lax", chain.Pass},
		{"mail/read", "", chain.Pass},
	} {
		in := chain.Input{Text: "a key here", ToolID: tt.tool, AgentID: tt.agent}
		if got := c.Run(context.Background(), &in); got.Outcome != tt.want {
			t.Errorf("%s of agent %q: %s, want %s", tt.tool, tt.agent, got.Outcome, tt.want)
		}
		if _, got := c.NewStream(&in, 1<<20).Next(context.Background(), in.Text, true); got.Outcome != tt.want {
			t.Errorf("a stream of %s of agent %q: %s, want %s", tt.tool, tt.agent, got.Outcome, tt.want)
		}
	}
}
