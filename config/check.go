package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config/strict"
	"github.com/yett-dev/yett/core/pin"
)

// maxModule is the largest module that Check reads, in bytes.
const maxModule = 16 << 20

// maxProgram is the largest program that Check reads, in bytes.
const maxProgram = 512 << 20

// Check finds what Load lets pass and an operator will hardly have meant: modules whose file is missing or differs from
// its digest, rules that can never speak, chains in which nothing is enforced, deadlines beyond the budget, scanners
// that no chain uses, secrets in clear. It reads modules' files and changes nothing. The list is sorted by place; empty
// is good.
func (c *Config) Check() []Problem {
	r := &strict.Report{Origins: c.origins}
	c.checkPlugins(r)
	c.checkAuthorize(r)
	c.checkScan(r)
	return r.Problems()
}

func (c *Config) checkPlugins(r *strict.Report) {
	used := map[string]bool{}
	for _, s := range c.Chains.Authorize.Steps {
		used[s.Use] = true
	}
	for _, s := range c.Chains.ScanOutput.Steps {
		used[s.Use] = true
	}
	for _, s := range c.Audit.Subscribers {
		used[s.Use] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		p, key := c.Plugins[name], strict.Join("plugins", name)
		switch {
		case used[name]:
		case p.Kind == KindSubscriber:
			r.Errorf(key, "audit.subscribers gives it nothing")
		default:
			r.Errorf(key, "no chain uses this %s", p.Kind)
		}
		if p.File() != "" {
			checkDigest(r, p, key)
		}
		for _, at := range p.Config.InClear(strict.Join(key, "config")) {
			r.Errorf(at, "looks like a secret in clear; refer to it: ${file:path} or ${env:NAME}")
		}
	}
}

func checkDigest(r *strict.Report, p Plugin, key string) {
	source, most := "wasm", int64(maxModule)
	if p.Exec != "" {
		source, most = "exec", maxProgram
	}
	data, err := strict.ReadFile(string(p.File()), most)
	if err != nil {
		r.Errorf(strict.Join(key, source), "%s", err)
		return
	}
	if got := pin.Digest(data); got != p.Digest {
		r.Errorf(strict.Join(key, "digest"), "the file %s has %s", p.File(), got)
	}
}

// A chain that nobody wrote down is no mistake as long as the other one is there.
func (c *Config) checkAuthorize(r *strict.Report) {
	const key = "chains.authorize"
	enforcing := false
	for i, s := range c.Chains.Authorize.Steps {
		at := fmt.Sprintf("%s.steps[%d]", key, i)
		enforcing = enforcing || s.Mode == "enforce"
		c.checkTimeout(r, at, s.Use, s.Timeout, c.Chains.Authorize.Budget, key)
		checkShadowed(r, s.Rules)
		if s.ScanArgs && len(c.Chains.ScanOutput.Steps) == 0 {
			r.Errorf(strict.Join(at, "scan_args"), "chains.scan_output has no steps that could scan args")
		}
	}
	if !enforcing && (c.origins.Written(key) || !c.origins.Written("chains.scan_output")) {
		r.Errorf(key, "no step is enforced; every call gets the default, %s", c.Chains.Authorize.Default)
	}
}

func (c *Config) checkScan(r *strict.Report) {
	const key = "chains.scan_output"
	enforcing := false
	for i, s := range c.Chains.ScanOutput.Steps {
		enforcing = enforcing || s.Mode == "enforce"
		c.checkTimeout(r, fmt.Sprintf("%s.steps[%d]", key, i), s.Use, s.Timeout, c.Chains.ScanOutput.Budget, key)
	}
	if !enforcing && c.origins.Written(key) {
		r.Errorf(key, "no step is enforced; no text is stopped or changed")
	}
	actions := c.Chains.ScanOutput.Actions
	for i := range actions {
		for j := range i {
			if covers(&actions[j], &actions[i]) {
				r.Errorf(fmt.Sprintf("%s.actions[%d]", key, i),
					"is never reached: the entry at %s matches everything that it matches", actions[j].Pos)
				break
			}
		}
	}
}

// checkTimeout finds a deadline that the chain's budget cuts short: the step's own, or that of the plugin it uses where
// the step has none and somebody wrote the plugin's down.
func (c *Config) checkTimeout(r *strict.Report, key, use string, timeout, budget Duration, chain string) {
	if timeout > budget {
		r.Errorf(strict.Join(key, "timeout"), "%s is longer than %s.budget (%s)", timeout, chain, budget)
	}
	at := strict.Join(strict.Join("plugins", use), "limits.timeout")
	if limit := c.Plugins[use].Limits.Timeout; limit > budget && c.origins.Written(at) &&
		!c.origins.Written(strict.Join(key, "timeout")) {
		r.Errorf(at, "%s is longer than %s.budget (%s), and %s has no timeout of its own", limit, chain, budget, key)
	}
}

// checkShadowed finds rules behind one without a condition that speaks whenever they would. Patterns are compared as
// text and by the two simple ways one can contain another, so what it reports is certain, and what it does not report
// may still be shadowed.
func checkShadowed(r *strict.Report, sets []RuleSet) {
	byTool := map[string][]*Rule{} // rules that speak for every call they match, by each of their patterns
	for _, set := range sets {
		for i := range set.Rules {
			u := &set.Rules[i]
			if b := shadowing(byTool, u); b != nil {
				r.Add(u.Pos, "rule "+u.ID, "is never reached: rule %s at %s matches every call that it matches", b.ID, b.Pos)
			} else if u.When == "" {
				for _, p := range u.Tools {
					byTool[p] = append(byTool[p], u)
				}
			}
		}
	}
}

// shadowing gives a rule that matches all that u matches, or nil. It must have a pattern that covers u's first one, so
// only the few patterns that could are looked up: thousands of rules take no time.
func shadowing(byTool map[string][]*Rule, u *Rule) *Rule {
	p := u.Tools[0]
	could := append([]*Rule(nil), byTool[p]...)
	for i := range len(p) + 1 {
		could = append(could, byTool[p[:i]+"**"]...)
		could = append(could, byTool[p[:i]+"*"]...)
	}
	for _, b := range could {
		if allCovered(b.Tools, u.Tools) && allCovered(b.Agents, u.Agents) {
			return b
		}
	}
	return nil
}

// allCovered says whether every name that a pattern of list matches is matched by one of wide. An empty list matches
// all.
func allCovered(wide, list []string) bool {
	if len(wide) == 0 {
		return true
	}
	if len(list) == 0 {
		return slices.Contains(wide, "**")
	}
	for _, p := range list {
		if !slices.ContainsFunc(wide, func(w string) bool { return covered(w, p) }) {
			return false
		}
	}
	return true
}

// covered says whether pattern wide surely matches all that p matches.
func covered(wide, p string) bool {
	if wide == p || wide == "**" {
		return true
	}
	if prefix, ok := strings.CutSuffix(wide, "**"); ok && !strings.Contains(prefix, "*") {
		return strings.HasPrefix(p, prefix) && p != prefix
	}
	if prefix, ok := strings.CutSuffix(wide, "*"); ok && !strings.Contains(prefix, "*") {
		rest, ok := strings.CutPrefix(p, prefix)
		return ok && rest != "" && !strings.Contains(rest, "/") && !strings.Contains(rest, "**")
	}
	return false
}

func covers(a, b *Action) bool {
	name, orHigher := a.MinSeverity()
	severity := a.Severity == "" || a.Severity == b.Severity || orHigher && name == "info"
	return severity && a.MinConfidence <= b.MinConfidence &&
		allCovered(a.Kinds, b.Kinds) && allCovered(a.Scanners, b.Scanners) && allCovered(a.Tools, b.Tools)
}
