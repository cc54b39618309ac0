package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// generation is one set of rules and plugins, built from one configuration.
type generation struct {
	ops.Generation
	cfg     *config.Config
	pool    *pool
	modules map[string]*loaded
	fresh   map[*loaded]bool // made for this generation
}

// newGeneration builds all or nothing. With strict, every plugin process must be ready; without, one that only fails to
// come up is left to its supervisor, and what it should have decided is denied meanwhile: a gateway that starts again must
// not stay down because a vendor's service is.
func newGeneration(ctx context.Context, cfg *config.Config, p *pool, strict bool) (g *generation, err error) {
	g = &generation{Generation: ops.Generation{Policy: cfg.Hash(), Args: cfg.Audit.Args}, cfg: cfg, pool: p, modules: map[string]*loaded{}, fresh: map[*loaded]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close(context.WithoutCancel(ctx)))
			g = nil
		}
	}()
	if g.Authorize, err = authorizer(cfg); err != nil {
		return g, err
	}
	if err := checkTypes(cfg); err != nil {
		return g, err
	}
	if err := g.takeAll(ctx); err != nil {
		return g, err
	}
	if err := g.waitAll(ctx, strict); err != nil {
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
				return fmt.Errorf("audit.subscribers[%d].types: there are no records of type %q; types are %s", i, typ, strings.Join(store.RecordTypes, ", "))
			}
		}
	}
	return nil
}

// takeAll takes every plugin that the configuration names from the pool. Processes begin to start here, side by side.
func (g *generation) takeAll(ctx context.Context) error {
	policy := trustPolicy(g.cfg)
	if err := policy.Check(); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	for name, p := range g.cfg.Plugins {
		l, fresh, err := g.pool.take(ctx, name, p, policy, g.Policy)
		if err != nil {
			return g.ofPlugin(name, err)
		}
		g.modules[name], g.fresh[l] = l, fresh
	}
	return nil
}

// ofPlugin names the plugin of an error, and the place of its settings in the operator's files that the error is about.
func (g *generation) ofPlugin(name string, err error) error {
	if place := g.cfg.SettingsPlace(name, err.Error()); place != "" {
		return fmt.Errorf("%s: plugins.%s: %w", place, name, err)
	}
	return fmt.Errorf("plugins.%s: %w", name, err)
}

// waitAll waits for the plugin processes that are new. One that runs since before may be down: that is no fault of the
// configuration.
func (g *generation) waitAll(ctx context.Context, strict bool) error {
	var errs []error
	for _, l := range g.loaded() {
		if l.process == nil || !g.fresh[l] {
			continue
		}
		err := l.process.Wait(ctx)
		var refused *prochost.Refused
		switch {
		case err == nil:
		case strict || errors.As(err, &refused) || ctx.Err() != nil:
			errs = append(errs, g.ofPlugin(l.name, err))
		default:
			g.pool.log("plugin %s is not ready; until it is, its steps end as their on_error says: %v", l.name, err)
		}
	}
	return errors.Join(errs...)
}

// loaded lists the plugins by name.
func (g *generation) loaded() []*loaded {
	out := slices.Collect(maps.Values(g.modules))
	slices.SortFunc(out, func(a, b *loaded) int { return strings.Compare(a.name, b.name) })
	return out
}

func (g *generation) close(ctx context.Context) error {
	all := g.loaded()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all { // side by side: each may take its time to drain
		wg.Go(func() { errs[i] = g.pool.give(ctx, m) })
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

// conditions are the places of rules and of standing grants whose conditions read much of a call. There are fewer than processors, so
// that other keys' calls find one, and a key that has no place gets one beyond those: one key's dear calls wait for each other.
var conditions = places.New(places.Rules{Most: max(runtime.GOMAXPROCS(0)-1, 1), Spare: true, Queue: -1})

// authorizer builds the authorize chain's steps; those that use a module are bound later.
func authorizer(cfg *config.Config) (*chain.Authorizer, error) {
	c := cfg.Chains.Authorize
	out := &chain.Authorizer{Budget: c.Budget.Std(), Default: effect(c.Default), Now: time.Now, Places: conditions}
	var errs []error
	for _, s := range c.Steps {
		step := chain.Step{Name: s.Name, Kind: stepKind(cfg, s.Use), Match: chain.Match{Tools: s.Match.Tools, Agents: s.Match.Agents, Sessions: s.Match.Sessions},
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

// CompileRules compiles rules files as one list, as a step of the authorize chain runs them. The error is rules.Compile's.
func CompileRules(files []config.RuleSet) (*rules.Set, error) {
	var all []rules.Rule
	for _, f := range files {
		for _, r := range f.Rules {
			one := rules.Rule{ID: r.ID, Tools: r.Tools, Agents: r.Agents, When: r.When, Effect: effect(r.Effect), Code: r.Code, Reason: r.Reason,
				Message: r.Message, Approvals: r.Approvals.N, From: r.Approvals.From, Expires: r.Expires.Std(), Priority: sdk.Priority(r.Priority), Pos: r.Pos.String()}
			for _, x := range r.Rates {
				one.Rates = append(one.Rates, rules.Rate{Limit: int64(x.Limit), Window: x.Window.Std(), Per: x.Per})
			}
			for _, x := range r.Budgets {
				one.Budgets = append(one.Budgets, rules.Budget{Amount: x.Amount, Limit: string(x.Limit), Window: x.Window.Std(), Per: x.Per})
			}
			for _, x := range r.Loops {
				one.Loops = append(one.Loops, rules.Loop{Limit: int64(x.Limit), Window: x.Window.Std()})
			}
			all = append(all, one)
		}
	}
	return rules.Compile(all)
}

func (g *generation) bind(cfg *config.Config) error {
	for i, s := range cfg.Chains.Authorize.Steps {
		if s.Use == "" {
			continue
		}
		m := g.modules[s.Use]
		if m == nil {
			return fmt.Errorf("chains.authorize.steps: there is no plugin %q", s.Use)
		}
		g.Authorize.Steps[i].Checker = m.checker
		if m.scanner != nil {
			g.Authorize.Steps[i].Version = func() string { return m.scanner.About().Version } // a plugin may come up later
		}
	}
	return nil
}

func (g *generation) scanChain(cfg *config.Config) (*chain.ScanChain, error) {
	c := cfg.Chains.ScanOutput
	out := &chain.ScanChain{Budget: c.Budget.Std(), Now: time.Now, Keys: ops.KeysIn}
	for _, s := range c.Steps {
		m := g.modules[s.Use]
		if m == nil {
			return nil, fmt.Errorf("chains.scan_output.steps: there is no plugin %q", s.Use)
		}
		out.Steps = append(out.Steps, chain.ScanStep{Name: s.Name, Match: chain.Match{Tools: s.Match.Tools, Agents: s.Match.Agents}, Timeout: s.Timeout.Std(),
			OnError: effect(s.OnError), Shadow: s.Mode == "shadow", Builtin: cfg.Plugins[s.Use].Builtin != "", Scanner: m.scanner, Triggers: m.triggers, Kinds: m.meta.Kinds, Stream: m.meta.Stream})
	}
	if err := out.Prepare(); err != nil {
		return nil, err
	}
	for _, a := range c.Actions {
		severity, atLeast := a.MinSeverity()
		rule := chain.ActionRule{Kinds: a.Kinds, Scanners: a.Scanners, Tools: a.Tools, Exact: !atLeast, MinConfidence: float32(a.MinConfidence), Replacement: a.Replacement}
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

// Check builds what a configuration describes and throws it away: it finds what config alone cannot, such as conditions
// that do not type-check, modules that do not load and plugins that refuse their settings. Plugins that are processes are
// started, asked and ended; they are told to try nothing (validate_only). It touches no data directory.
func Check(ctx context.Context, cfg *config.Config) (err error) {
	p, err := newPool(ctx, "", "", func(string, ...any) {}, func(prochost.Change) {})
	if p != nil {
		defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	if _, err := tlsConfig(cfg, "server.tls", cfg.Server.TLS); err != nil {
		return err
	}
	if cfg.Console.Enabled {
		if _, err := tlsConfig(cfg, "console.tls", cfg.Console.TLS); err != nil {
			return err
		}
	}
	p.checking = true
	g, err := newGeneration(ctx, cfg, p, true)
	if err != nil {
		return err
	}
	return g.close(ctx)
}

// configError marks what only a changed configuration can mend.
type configError struct{ error }

func (e configError) Unwrap() error { return e.error }

// IsConfigError reports whether New failed because of what the operator wrote (rules, modules, chains).
func IsConfigError(err error) bool {
	var c configError
	return errors.As(err, &c)
}
