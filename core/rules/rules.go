// Package rules is the built-in step of the authorize chain: an ordered list of rules of which the first that matches a
// call speaks. It owns compiling rules (names, patterns, CEL conditions, budgets' amounts, all checked at load), the
// index that keeps a call from looking at rules that cannot match it, and evaluation with exact numbers under a budget.
// It says what a permit must stay within and counts nothing. It is pure: the call, its documents and its time come in
// as a chain.Call, a verdict goes out, nothing is kept. It must never round a number, never let an error in a condition
// or an amount end in a permit, and never put a value of a call into a reason.
package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// Rule is one rule as an operator wrote it.
type Rule struct {
	ID        string        // unique in its list
	Tools     []string      // patterns, see Glob; none means all tools
	Agents    []string      // patterns; none means all agents
	When      string        // a CEL condition; "" always holds
	Effect    sdk.Effect    // Permit, Deny or Defer
	Code      string        // reason code; "" means RULE_PERMIT, RULE_DENY or RULE_DEFER
	Reason    string        // for humans and logs
	Message   string        // safe to show to a model
	Approvals int           // with Defer: different approvers needed; 0 means 1
	From      []string      // with Defer: who may approve, "key:<name>" or "role:<preset>"; none means everybody who may
	Expires   time.Duration // with Defer: how long it may stay pending; 0 means the configured default
	Priority  sdk.Priority  // how much an approver should care
	Rates     []Rate        // with Permit and Defer: how many permits
	Budgets   []Budget      // with Permit and Defer: how large a sum
	Loops     []Loop        // with Permit and Defer: how often the same call
	Pos       string        // where it was written, "file:line:column", for errors
}

// MaxRules is the most rules a Set takes.
const MaxRules = 1_000_000

// Error is one thing wrong with one rule.
type Error struct {
	Rule         int    // its place in the list, from 0
	Pos          string // the rule's
	RuleID       string //
	Field        string // the key at fault: "id", "tools", "agents", "when", "effect", …
	Line, Column int    // inside `when`, from 1; 0 where they say nothing
	Msg          string
}

// Error says where, which rule, which field and what.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Pos != "" {
		b.WriteString(e.Pos + ": ")
	}
	fmt.Fprintf(&b, "rule %q: %s", e.RuleID, e.Field)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Msg)
	return b.String()
}

type compiled struct {
	tools, agents []*Glob
	when          *condition // nil always holds
	verdict       sdk.Verdict
	amounts       []amount // what of verdict.Limits is known only with the call
}

// Set is a compiled list of rules. It is immutable and safe for concurrent use.
type Set struct {
	rules []compiled
	index *index
}

var _ chain.Checker = (*Set)(nil)

// Compile checks and compiles rules. All faults of all rules come back, joined, each an *Error; there is no Set then.
func Compile(rules []Rule) (*Set, error) {
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("%d rules, the limit is %d", len(rules), MaxRules)
	}
	c := newCompiler(len(rules))
	s := &Set{rules: make([]compiled, len(rules))}
	for i := range rules {
		c.rule = i
		s.rules[i] = c.compile(&rules[i])
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	s.index = newIndex(s.rules)
	return s, nil
}

// HasRule reports whether a rule has that id.
func (s *Set) HasRule(id string) bool {
	return slices.ContainsFunc(s.rules, func(r compiled) bool { return r.verdict.RuleID == id })
}

// Check gives the verdict of the first rule that matches the call, or the zero Verdict if none does. A condition that
// fails counts as not holding for a permit and as holding for a deny or a defer; a budget's amount that fails makes the
// verdict a deny with SCHEMA_INVALID. The error is ctx's or a deadline's: then the list was not walked to its end, and
// the verdict has no more than the effect of the rule that was looked at, if that is a deny or a defer.
func (s *Set) Check(ctx context.Context, call *chain.Call) (sdk.Verdict, error) {
	sc := newScope(ctx, call)
	defer sc.release()
	s.index.start(&sc.cand, call.ToolID, call.AgentID)
	for i := sc.cand.next(call.ToolID); i >= 0; i = sc.cand.next(call.ToolID) {
		r := &s.rules[i]
		if len(r.agents) > 0 && !matchAny(r.agents, call.AgentID) {
			continue
		}
		holds, err := r.holds(sc)
		if holds && r.verdict.Effect == sdk.Permit && !sc.inTime() {
			err = errInterrupted
		}
		if why := sc.over(); err != nil && why != nil {
			return r.unfinished(), interrupted(why)
		}
		if matches, v := r.speak(holds, err); matches {
			return r.limited(sc, v)
		}
	}
	if !sc.inTime() {
		return sdk.Verdict{}, interrupted(sc.late)
	}
	return sdk.Verdict{}, nil
}

func interrupted(why error) error { return fmt.Errorf("evaluating rules: %w", why) }

// unfinished is the verdict beside the error when r could not be looked at to its end: what it would keep from being
// permitted is not. Without its limits, which only a call that was looked at has, a defer is no approver's to permit.
func (r *compiled) unfinished() sdk.Verdict {
	v := r.verdict
	switch {
	case v.Effect == sdk.Deny, v.Effect == sdk.Defer && len(v.Limits) > 0:
		return sdk.Verdict{Effect: sdk.Deny, RuleID: v.RuleID}
	case v.Effect == sdk.Defer:
		return sdk.Verdict{Effect: sdk.Defer, RuleID: v.RuleID, Approvals: v.Approvals, From: v.From, Expires: v.Expires,
			Priority: v.Priority}
	}
	return sdk.Verdict{}
}

// holds answers the condition, if there is one. A context that is done is an error like any other.
func (r *compiled) holds(sc *scope) (bool, error) {
	if r.when == nil {
		return true, nil
	}
	if sc.ctx.Err() != nil {
		return false, errInterrupted
	}
	return r.when.eval(sc)
}

// speak is the one place where an error in a condition becomes an effect.
func (r *compiled) speak(holds bool, err error) (bool, sdk.Verdict) {
	if err == nil {
		return holds, r.verdict
	}
	if r.verdict.Effect != sdk.Deny && r.verdict.Effect != sdk.Defer {
		return false, sdk.Verdict{}
	}
	v := r.verdict
	note := "its condition failed: " + err.Error()
	if v.Reason == "" {
		v.Reason = note
	} else {
		v.Reason += " (" + note + ")"
	}
	return true, v
}

func matchAny(globs []*Glob, name string) bool {
	for _, g := range globs {
		if g.Match(name) {
			return true
		}
	}
	return false
}

// Foresee says what the rules can say of a call of that tool by that agent, whatever its arguments are: may is false if
// every call is denied, silent is true if no rule can match.
func (s *Set) Foresee(agent, tool string) (may, silent bool) {
	var cand candidates
	s.index.start(&cand, tool, agent)
	for i := cand.next(tool); i >= 0; i = cand.next(tool) {
		r := &s.rules[i]
		switch {
		case len(r.agents) > 0 && !matchAny(r.agents, agent):
		case r.verdict.Effect != sdk.Deny:
			return true, false
		case r.when == nil:
			return false, false
		}
	}
	return false, true
}
