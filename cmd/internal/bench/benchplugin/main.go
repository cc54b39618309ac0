// Command benchplugin is the authorizer and the subscriber that yett bench measures a gateway with. yett bench builds
// it, so that the gateway's own program holds nothing of a plugin's side. It must not be used for anything else.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

func main() {
	switch mode := os.Getenv("BENCH_PLUGIN"); mode {
	case "authorizer":
		plugin.Serve(authorizer(strings.Fields(os.Getenv("BENCH_TOOLS"))))
	case "subscriber":
		plugin.Serve(plugin.Subscriber{Info: plugin.Info{Name: "bench-subscriber", Version: "1.0.0"},
			Consume: func(context.Context, *plugin.Batch) error { return nil }})
	default:
		fmt.Fprintf(os.Stderr, "BENCH_PLUGIN=%q: expected authorizer or subscriber; yett bench starts this program\n", mode)
		os.Exit(1)
	}
}

// authorizer knows in memory who may use which tool.
func authorizer(tools []string) plugin.Authorizer {
	entitled := map[string]bool{}
	for i := range 32 {
		for _, tool := range tools {
			entitled[fmt.Sprintf("support-%d %s", i, tool)] = true
		}
	}
	return plugin.Authorizer{Info: plugin.Info{Name: "bench-authorizer", Version: "1.0.0", MaxInFlight: 1024},
		Check: func(_ context.Context, c *plugin.Call) (sdk.Verdict, error) {
			if !entitled[c.AgentID+" "+c.ToolID] {
				return sdk.Verdict{Effect: sdk.Deny, Code: "NOT_ENTITLED"}, nil
			}
			return sdk.Verdict{Effect: sdk.Permit, Code: "ENTITLED"}, nil
		}}
}
