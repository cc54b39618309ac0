//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
)

// The plugins of the throw-away gateways are this program again, started by the gateway as it starts any plugin.

// benchPluginEnv says in a plugin's environment which one to be.
const benchPluginEnv = "BENCH_PLUGIN"

// IsPlugin serves a plugin if this process was started as one.
func IsPlugin() bool {
	switch os.Getenv(benchPluginEnv) {
	case "authorizer":
		plugin.Serve(benchAuthorizer())
	case "subscriber":
		plugin.Serve(plugin.Subscriber{Info: plugin.Info{Name: "bench-subscriber", Version: "1.0.0"},
			Consume: func(context.Context, *plugin.Batch) error { return nil }})
	default:
		return false
	}
	return true
}

// benchAuthorizer has what it knows in memory: who may use which tool.
func benchAuthorizer() plugin.Authorizer {
	entitled := map[string]bool{}
	for i := range 32 {
		for _, tool := range benchTools {
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

// ownDigest is where this program is, and the digest of its file.
func ownDigest() (path, digest string, err error) {
	if path, err = os.Executable(); err != nil {
		return "", "", err
	}
	code, err := os.ReadFile(path)
	return path, pin.Digest(code), err
}

// withPlugins adds authorizers for the tools that match, and a subscriber, to a configuration of benchConfig.
func withPlugins(text string, authorizers int, match string, subscriber bool) (string, error) {
	if authorizers == 0 && !subscriber {
		return text, nil
	}
	path, digest, err := ownDigest()
	var plugins, steps strings.Builder
	for i := range authorizers {
		fmt.Fprintf(&plugins, "  entitle-%d: {kind: authorizer, exec: %q, digest: %q, env: {%s: authorizer, GOMAXPROCS: "+
			"\"1\"}, limits: {timeout: 10s, max_in_flight: 256, queue: 1024}}\n", i, path, digest, benchPluginEnv)
		fmt.Fprintf(&steps, ", {use: entitle-%d, match: {tools: [%q]}}", i, match)
	}
	text = strings.Replace(text, "rules: [rules.yaml]}]", "rules: [rules.yaml]}"+steps.String()+"]", 1)
	if subscriber {
		fmt.Fprintf(&plugins, "  follow: {kind: subscriber, exec: %q, digest: %q, env: {%s: subscriber}}\n", path, digest,
			benchPluginEnv)
		text = strings.Replace(text, "audit: {", "audit: {subscribers: [{use: follow, start: latest}], ", 1)
	}
	return strings.Replace(text, "plugins:\n", "plugins:\n"+plugins.String(), 1), err
}

// checkers is how many ask the one plugin of startChecks at once, and checksEach how often each of them does in one
// turn.
const (
	checkers   = 64
	checksEach = 100
)

// startChecks asks one plugin from many sides, without a gateway around it. A thousand checks count as a megabyte.
func startChecks(ctx context.Context) (*work, error) {
	path, digest, err := ownDigest()
	if err != nil {
		return nil, err
	}
	p, err := prochost.Load(ctx, prochost.Options{},
		prochost.Spec{Name: "entitle", Kind: prochost.Authorizer, Path: path, Digest: digest,
			Env: map[string]string{benchPluginEnv: "authorizer"}, Timeout: 10 * time.Second, MaxInFlight: checkers})
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	var args exact.Doc
	if err := args.Parse(`{"to":"customer-17@example.com","amount":1250.50,"note":"as agreed on the phone"}`,
		exact.DefaultLimits); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	call := &chain.Call{KeyID: "key_01", KeyName: "agent", AgentID: "support-1", SessionID: "s-1", ToolID: benchTools[0],
		CallID: "c-1", Args: args.Root(), Now: time.Now()}
	return &work{stop: p.Close, do: func(ctx context.Context) (int, error) {
		var all sync.WaitGroup
		failed := make([]error, checkers)
		for i := range checkers {
			all.Go(func() {
				for range checksEach {
					if v, err := p.Check(ctx, call); err != nil || v.Effect != sdk.Permit {
						failed[i] = fmt.Errorf("%s %s: %w", v.Effect, v.Code, err)
						return
					}
				}
			})
		}
		all.Wait()
		return checkers * checksEach * 1000, errors.Join(failed...)
	}}, nil
}
