package chain_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// BenchmarkExcluded is what steps cost that match keeps a call from.
func BenchmarkExcluded(b *testing.B) {
	for _, n := range []int{0, 1, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			steps := []chain.Step{step("p", sdk.Permit)}
			for i := range n {
				s := beside(step(fmt.Sprint(i), sdk.Deny))
				s.Match = chain.Match{Tools: []string{"entitled/**"}}
				steps = append(steps, s)
			}
			a := &chain.Authorizer{Steps: steps, Budget: time.Minute, Default: sdk.Deny, Now: time.Now}
			c := &chain.Call{ToolID: "files/read", AgentID: "agent"}
			var rows []chain.Row
			b.ReportAllocs()
			for b.Loop() {
				if res := a.Run(context.Background(), c, rows); res.Verdict.Effect != sdk.Permit {
					b.Fatal(res.Verdict)
				} else {
					rows = res.Rows
				}
			}
		})
	}
}
