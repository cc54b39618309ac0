package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/core/wasmhost"
	"github.com/yett-dev/yett/sdk"
)

// generation is one set of rules and modules, built from one configuration.
type generation struct {
	ops.Generation
	host    *wasmhost.Host
	modules map[string]*loaded

	cacheDir  string // "" keeps nothing
	log       func(format string, args ...any)
	moduleLog func(module string, level int, line string)
}

// newGeneration builds all or nothing.
func newGeneration(ctx context.Context, cfg *config.Config, cacheDir string, log func(string, ...any)) (g *generation, err error) {
	g = &generation{Generation: ops.Generation{Policy: cfg.Hash(), Args: cfg.Audit.Args}, cacheDir: cacheDir}
	g.log, g.moduleLog = log, newLineLimit(log, time.Now).write
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close(context.WithoutCancel(ctx)))
			g = nil
		}
	}()
	if g.Authorize, err = authorizer(cfg); err != nil {
		return g, err
	}
	if g.host, err = wasmhost.New(ctx, wasmhost.Options{CacheDir: cacheDir, CheckConfig: config.CheckModule, Log: g.moduleLog}); err != nil {
		return g, err
	}
	if err := g.loadAll(ctx, cfg); err != nil {
		return g, err
	}
	if err := g.bind(cfg); err != nil {
		return g, err
	}
	if g.Scan, err = g.scanChain(cfg); err != nil {
		return g, err
	}
	for i, s := range cfg.Chains.Authorize.Steps {
		if s.ScanArgs {
			step := &g.Authorize.Steps[i]
			step.Checker, step.Inline = chain.ScanArgs(g.Scan, step.Checker), false
		}
	}
	return g, nil
}

func (g *generation) close(ctx context.Context) error {
	var errs []error
	for _, m := range g.modules {
		errs = append(errs, m.close(ctx))
	}
	if g.host != nil {
		errs = append(errs, g.host.Close(ctx))
	}
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

// authorizer builds the authorize chain's steps; those that use a module are bound later.
func authorizer(cfg *config.Config) (*chain.Authorizer, error) {
	c := cfg.Chains.Authorize
	out := &chain.Authorizer{Budget: c.Budget.Std(), Default: effect(c.Default), Now: time.Now}
	var errs []error
	for _, s := range c.Steps {
		step := chain.Step{Name: s.Name, Kind: "wasm", Match: chain.Match{Tools: s.Match.Tools, Agents: s.Match.Agents, Sessions: s.Match.Sessions},
			Timeout: s.Timeout.Std(), OnError: effect(s.OnError), Shadow: s.Mode == "shadow"}
		if s.Use == "" {
			set, err := CompileRules(s.Rules)
			errs = append(errs, err)
			step.Kind, step.Inline, step.Checker = "rules", true, set
		}
		out.Steps = append(out.Steps, step)
	}
	return out, errors.Join(errs...)
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
		g.Authorize.Steps[i].Checker, g.Authorize.Steps[i].Version = m.checker, m.scanner.About().Version
	}
	return nil
}

func (g *generation) scanChain(cfg *config.Config) (*chain.ScanChain, error) {
	c := cfg.Chains.ScanOutput
	out := &chain.ScanChain{Budget: c.Budget.Std(), Now: time.Now}
	for _, s := range c.Steps {
		m := g.modules[s.Use]
		if m == nil {
			return nil, fmt.Errorf("chains.scan_output.steps: there is no plugin %q", s.Use)
		}
		out.Steps = append(out.Steps, chain.ScanStep{Name: s.Name, Match: chain.Match{Tools: s.Match.Tools, Agents: s.Match.Agents}, Timeout: s.Timeout.Std(),
			OnError: effect(s.OnError), Shadow: s.Mode == "shadow", Scanner: m.scanner, Triggers: m.meta.Triggers, Kinds: m.meta.Kinds, Stream: m.meta.Stream})
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
// that do not type-check and modules that do not load. It touches no data directory.
func Check(ctx context.Context, cfg *config.Config) error {
	g, err := newGeneration(ctx, cfg, "", func(string, ...any) {})
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
