// Package loaded builds one generation of what an operator configures: rules, modules and plugin processes, bound into
// the two chains. A pool keeps each plugin that did not change across generations. It decides nothing, records nothing
// but plugins' states, and never puts a generation in force: core does.
package loaded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/trust"
	"github.com/yett-dev/yett/sdk"
)

// Generation is one set of rules and plugins, built from one configuration. Its fields do not change after Build. It is
// safe for concurrent use.
type Generation struct {
	ops.Generation
	Config  *config.Config
	pool    *Pool
	Plugins map[string]*Plugin
	Fresh   map[*Plugin]bool // made for this generation
}

// Build builds all of a generation or nothing. With strict, every plugin process must be ready; without, one that only
// fails to come up is left to its supervisor, and what it should have decided is denied meanwhile: a gateway that
// starts again must not stay down because a vendor's service is.
func Build(ctx context.Context, cfg *config.Config, p *Pool, strict bool) (g *Generation, err error) {
	g = &Generation{Generation: ops.Generation{Policy: cfg.Hash(), Args: cfg.Audit.Args}, Config: cfg, pool: p,
		Plugins: map[string]*Plugin{}, Fresh: map[*Plugin]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close(context.WithoutCancel(ctx)))
			g = nil
		}
	}()
	if g.Authorize, err = authorizer(cfg); err != nil {
		return g, err
	}
	if err := checkTypes(cfg); err != nil {
		return g, err
	}
	switch err := checkArchive(&cfg.Audit.Archive); {
	case err != nil && strict:
		return g, err
	case err != nil: // nothing is removed until it is put right
		p.warn("%v", err)
	}
	if err := g.acquireAll(ctx); err != nil {
		return g, err
	}
	if err := g.waitReady(ctx, strict); err != nil {
		return g, err
	}
	if err := g.bind(cfg); err != nil {
		return g, err
	}
	if g.Scan, err = g.scanChain(cfg); err != nil {
		return g, err
	}
	g.Authorize.Said = g.Scan
	for i, s := range cfg.Chains.Authorize.Steps {
		if s.ScanArgs {
			step := &g.Authorize.Steps[i]
			step.Checker, step.Own, step.Inline = chain.ScanArgs(g.Scan, step.Checker), step.Inline, false
		}
	}
	return g, nil
}

// checkTypes refuses a type of records that there is not: a subscriber would wait for it for ever.
func checkTypes(cfg *config.Config) error {
	for i, s := range cfg.Audit.Subscribers {
		for _, typ := range s.Types {
			if !slices.Contains(store.RecordTypes, typ) {
				return fmt.Errorf("audit.subscribers[%d].types: there are no records of type %q; types are %s", i, typ,
					strings.Join(store.RecordTypes, ", "))
			}
		}
	}
	return nil
}

// checkArchive refuses a program that could not be run when its time comes, which may be after months.
func checkArchive(a *config.Archive) error {
	if a.Exec == "" {
		return nil
	}
	digest, err := pin.File(string(a.Exec), trust.MaxProgram)
	if err == nil && digest != a.Digest {
		err = fmt.Errorf("%s has digest %s, pinned is %s", a.Exec, digest, a.Digest)
	}
	if err != nil {
		err = fmt.Errorf("audit.archive.exec: %w", err)
	}
	return err
}

// acquireAll gets every plugin that the configuration names from the pool. Processes begin to start here, side by side,
// and as many modules as there are processors are compiled side by side. What came up is the generation's also when
// another plugin failed.
func (g *Generation) acquireAll(ctx context.Context) error {
	policy := trustPolicy(g.Config)
	if err := policy.Check(); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	failed := map[string]error{}
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for name, p := range g.Config.Plugins {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			l, fresh, err := g.pool.acquire(ctx, name, p, policy, g.Policy)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[name] = err
				return
			}
			g.Plugins[name], g.Fresh[l] = l, fresh
		})
	}
	all.Wait()
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		return g.ofPlugin(name, failed[name])
	}
	return nil
}

// ofPlugin names the plugin of an error, and the place of its settings in the operator's files that the error is about.
func (g *Generation) ofPlugin(name string, err error) error {
	if place := g.Config.SettingsPlace(name, err.Error()); place != "" {
		return fmt.Errorf("%s: plugins.%s: %w", place, name, err)
	}
	return fmt.Errorf("plugins.%s: %w", name, err)
}

// waitReady waits for the plugin processes that are new. One that runs since before may be down: that is no fault of
// the configuration.
func (g *Generation) waitReady(ctx context.Context, strict bool) error {
	var errs []error
	for _, l := range g.Sorted() {
		if l.Process == nil || !g.Fresh[l] {
			continue
		}
		err := l.Process.Wait(ctx)
		var refused *prochost.Refused
		switch {
		case err == nil:
		case strict || errors.As(err, &refused) || ctx.Err() != nil:
			errs = append(errs, g.ofPlugin(l.Name, err))
		default:
			g.pool.warn("plugin %s is not ready; until it is, its steps end as their on_error says: %v", l.Name, err)
		}
	}
	return errors.Join(errs...)
}

// Sorted lists the plugins by name.
func (g *Generation) Sorted() []*Plugin {
	out := slices.Collect(maps.Values(g.Plugins))
	slices.SortFunc(out, func(a, b *Plugin) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Close gives the plugins back to the pool, which closes those that no other generation uses.
func (g *Generation) Close(ctx context.Context) error {
	all := g.Sorted()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all { // side by side: each may take its time to drain
		wg.Go(func() { errs[i] = g.pool.release(ctx, m) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func effect(name string) sdk.Effect {
	switch name {
	case "permit":
		return sdk.Permit
	case "defer":
		return sdk.Defer
	case "abstain":
		return sdk.Abstain
	}
	return sdk.Deny
}

// conditions are the places of rules and of standing grants whose conditions read much of a call. There are fewer than
// processors, so that other keys' calls find one, and a key that has no place gets one beyond those: one key's dear
// calls wait for each other.
var conditions = places.New(places.Rules{Most: max(runtime.GOMAXPROCS(0)-1, 1), Spare: true, Queue: -1})

// authorizer builds the authorize chain's steps; those that use a module are bound later.
func authorizer(cfg *config.Config) (*chain.Authorizer, error) {
	c := cfg.Chains.Authorize
	out := &chain.Authorizer{Budget: c.Budget.Std(), Default: effect(c.Default), Now: time.Now, Places: conditions}
	var errs []error
	for _, s := range c.Steps {
		step := chain.Step{Name: s.Name, Kind: stepKind(cfg, s.Use), Plugin: s.Use,
			Match:   chain.Match{Tools: s.Match.Tools, Agents: s.Match.Agents, Sessions: s.Match.Sessions},
			Timeout: s.Timeout.Std(), OnError: effect(s.OnError), Shadow: s.Mode == "shadow"}
		step.Beside = step.Kind == kindProcess
		if s.Use == "" {
			set, err := CompileRules(s.Rules)
			errs = append(errs, err)
			step.Kind, step.Inline, step.Checker = "rules", true, set
		}
		out.Steps = append(out.Steps, step)
	}
	return out, errors.Join(errs...)
}

const kindProcess = "process"

// stepKind is what a step's row says of what ran.
func stepKind(cfg *config.Config, use string) string {
	if p := cfg.Plugins[use]; p.Process() {
		return kindProcess
	}
	return "wasm"
}

// CompileRules compiles rules files as one list, as a step of the authorize chain runs them. The error is
// rules.Compile's.
func CompileRules(files []config.RuleSet) (*rules.Set, error) {
	var all []rules.Rule
	for _, f := range files {
		for _, r := range f.Rules {
			one := rules.Rule{ID: r.ID, Tools: r.Tools, Agents: r.Agents, When: r.When, Effect: effect(r.Effect), Code: r.Code,
				Reason: r.Reason, Message: r.Message, Approvals: r.Approvals.N, From: r.Approvals.From, Expires: r.Expires.Std(),
				Priority: sdk.Priority(r.Priority), Pos: r.Pos.String()}
			for _, x := range r.Rates {
				one.Rates = append(one.Rates, rules.Rate{Limit: int64(x.Limit), Window: x.Window.Std(), Per: x.Per})
			}
			for _, x := range r.Budgets {
				one.Budgets = append(one.Budgets, rules.Budget{Amount: x.Amount, Limit: string(x.Limit), Window: x.Window.Std(),
					Per: x.Per})
			}
			for _, x := range r.Loops {
				one.Loops = append(one.Loops, rules.Loop{Limit: int64(x.Limit), Window: x.Window.Std()})
			}
			all = append(all, one)
		}
	}
	return rules.Compile(all)
}

func (g *Generation) bind(cfg *config.Config) error {
	for i, s := range cfg.Chains.Authorize.Steps {
		if s.Use == "" {
			continue
		}
		m := g.Plugins[s.Use]
		if m == nil {
			return fmt.Errorf("chains.authorize.steps: there is no plugin %q", s.Use)
		}
		g.Authorize.Steps[i].Checker = m.checker
		if m.Scanner != nil {
			g.Authorize.Steps[i].Version = func() string { return m.Scanner.About().Version } // a plugin may come up later
		}
	}
	return nil
}

func (g *Generation) scanChain(cfg *config.Config) (*chain.ScanChain, error) {
	c := cfg.Chains.ScanOutput
	out := &chain.ScanChain{Budget: c.Budget.Std(), Now: time.Now, Keys: ops.KeysIn}
	for _, s := range c.Steps {
		m := g.Plugins[s.Use]
		if m == nil {
			return nil, fmt.Errorf("chains.scan_output.steps: there is no plugin %q", s.Use)
		}
		out.Steps = append(out.Steps, chain.ScanStep{Name: s.Name, Plugin: s.Use,
			Match: chain.Match{Tools: s.Match.Tools, Agents: s.Match.Agents}, Timeout: s.Timeout.Std(),
			OnError: effect(s.OnError), Shadow: s.Mode == "shadow", Builtin: cfg.Plugins[s.Use].Builtin != "",
			Scanner: m.Scanner, Triggers: m.triggers, Kinds: m.meta.Kinds, Stream: m.meta.Stream})
	}
	if err := out.Prepare(); err != nil {
		return nil, err
	}
	for _, a := range c.Actions {
		severity, atLeast := a.MinSeverity()
		rule := chain.ActionRule{Kinds: a.Kinds, Scanners: a.Scanners, Tools: a.Tools, Exact: !atLeast,
			MinConfidence: float32(a.MinConfidence), Replacement: a.Replacement}
		var ok bool
		if rule.Action, ok = sdk.ParseAction(a.Action); !ok {
			return nil, fmt.Errorf("chains.scan_output.actions: unknown action %q", a.Action)
		}
		if severity == "" {
			rule.Exact = false
		} else if rule.Severity, ok = sdk.ParseSeverity(severity); !ok {
			return nil, fmt.Errorf("chains.scan_output.actions: unknown severity %q", severity)
		}
		out.Actions = append(out.Actions, rule)
	}
	return out, nil
}

// Check builds a generation of a configuration and closes it. Its plugin processes are only asked whether they would
// take their settings, and end.
func Check(ctx context.Context, cfg *config.Config) (err error) {
	p, err := NewPool(ctx, "", "", slog.New(slog.DiscardHandler), func(prochost.Change) {})
	if p != nil {
		defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	p.checking = true
	g, err := Build(ctx, cfg, p, true)
	if err != nil {
		return err
	}
	return g.Close(ctx)
}
