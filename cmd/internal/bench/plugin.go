//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// pluginSource is the program that plugins of the throw-away gateways run. It is not part of this one: a gateway's
// program holds nothing of a plugin's side.
const pluginSource = "github.com/yett-dev/yett/cmd/internal/bench/benchplugin"

// Names in a plugin's environment: which one it is, and the tools that the authorizer lets agents use.
const (
	pluginMode  = "BENCH_PLUGIN"
	pluginTools = "BENCH_TOOLS"
)

// buildPlugin builds the plugins' program in dir. This needs the sources and Go.
func buildPlugin(ctx context.Context, dir string) (path string, err error) {
	path = filepath.Join(dir, "benchplugin")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pluginSource)
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the plugin that some rows measure: %w: %s\nRun yett bench in a clone of the repository "+
			"with Go installed, give --plugin FILE, or choose other rows with --rows", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

// maxPlugin is how large the plugins' program may be, bytes.
const maxPlugin = 1 << 30

// withPlugins adds authorizers for the tools that match, and a subscriber, to a configuration of benchConfig.
func withPlugins(text, path string, authorizers int, match string, subscriber bool) (string, error) {
	if authorizers == 0 && !subscriber {
		return text, nil
	}
	digest, err := pin.File(path, maxPlugin)
	var plugins, steps strings.Builder
	for i := range authorizers {
		fmt.Fprintf(&plugins, "  entitle-%d: {kind: authorizer, exec: %q, digest: %q, env: {%s: authorizer, %s: %q, "+
			"GOMAXPROCS: \"1\"}, limits: {timeout: 10s, max_in_flight: 256, queue: 1024}}\n", i, path, digest, pluginMode,
			pluginTools, strings.Join(benchTools, " "))
		fmt.Fprintf(&steps, ", {use: entitle-%d, match: {tools: [%q]}}", i, match)
	}
	text = strings.Replace(text, "rules: [rules.yaml]}]", "rules: [rules.yaml]}"+steps.String()+"]", 1)
	if subscriber {
		fmt.Fprintf(&plugins, "  follow: {kind: subscriber, exec: %q, digest: %q, env: {%s: subscriber}}\n", path, digest,
			pluginMode)
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
func startChecks(ctx context.Context, r *ratioRun) (*work, error) {
	digest, err := pin.File(r.plugin, maxPlugin)
	if err != nil {
		return nil, err
	}
	p, err := prochost.Load(ctx, prochost.Options{},
		prochost.Spec{Name: "entitle", Kind: prochost.Authorizer, Path: r.plugin, Digest: digest,
			Env:     map[string]string{pluginMode: "authorizer", pluginTools: strings.Join(benchTools, " ")},
			Timeout: 10 * time.Second, MaxInFlight: checkers})
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
