package rules

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// Limits on one rule's other fields.
const (
	maxID        = 256   // bytes
	maxPatterns  = 1_000 // in tools, and in agents
	maxText      = 4096  // bytes of reason, and of message
	maxApprovals = 100
	maxFrom      = 100 // who may approve
)

// compiler compiles one list. Conditions and patterns that are written twice are compiled once.
type compiler struct {
	rule       int               // the place in the list of the one that is compiled
	seen       map[string]string // rule id → position
	conditions map[string]*condition
	amounts    map[string]*condition
	globs      map[string]*Glob
	errs       []error
}

func newCompiler(rules int) *compiler {
	return &compiler{seen: make(map[string]string, rules), conditions: map[string]*condition{},
		amounts: map[string]*condition{}, globs: map[string]*Glob{}}
}

func (c *compiler) fault(r *Rule, field, format string, args ...any) {
	c.errs = append(c.errs, &Error{Rule: c.rule, Pos: r.Pos, RuleID: r.ID, Field: field,
		Msg: fmt.Sprintf(format, args...)})
}

func (c *compiler) compile(r *Rule) compiled {
	c.checkID(r)
	c.checkTexts(r)
	c.checkPriority(r)
	c.checkDefer(r)
	c.checkFrom(r)
	out := compiled{
		tools:   c.patterns(r, "tools", r.Tools),
		agents:  c.patterns(r, "agents", agentPatterns(r.Agents)),
		when:    c.when(r),
		verdict: c.verdict(r),
	}
	out.verdict.Limits, out.amounts = c.limits(r)
	return out
}

func (c *compiler) checkID(r *Rule) {
	if r.ID == "" {
		c.fault(r, "id", "missing")
		return
	}
	if len(r.ID) > maxID {
		c.fault(r, "id", "%d bytes, the limit is %d", len(r.ID), maxID)
	}
	if first, twice := c.seen[r.ID]; twice {
		c.fault(r, "id", "used before, by the rule at %q", first)
		return
	}
	c.seen[r.ID] = r.Pos
}

func (c *compiler) checkTexts(r *Rule) {
	for _, f := range []struct{ name, text string }{{"code", r.Code}, {"reason", r.Reason}, {"message", r.Message}} {
		if len(f.text) > maxText {
			c.fault(r, f.name, "%d bytes, the limit is %d", len(f.text), maxText)
		}
		if !utf8.ValidString(f.text) {
			c.fault(r, f.name, "not valid UTF-8")
		}
	}
}

func (c *compiler) checkPriority(r *Rule) {
	switch r.Priority {
	case "", sdk.PriorityLow, sdk.PriorityMedium, sdk.PriorityHigh:
	default:
		c.fault(r, "priority", "%q, must be low, medium or high", r.Priority)
	}
}

func (c *compiler) checkDefer(r *Rule) {
	switch {
	case r.Approvals < 0 || r.Approvals > maxApprovals:
		c.fault(r, "approvals", "%d, must be 0 to %d", r.Approvals, maxApprovals)
	case r.Approvals > 0 && r.Effect != sdk.Defer:
		c.fault(r, "approvals", "only a rule that defers can ask for approvals")
	}
	switch {
	case r.Expires < 0:
		c.fault(r, "expires", "%v, must not be negative", r.Expires)
	case r.Expires > 0 && r.Effect != sdk.Defer:
		c.fault(r, "expires", "only a rule that defers can expire")
	}
}

// checkFrom wants names that somebody who may approve can have, and enough of them.
func (c *compiler) checkFrom(r *Rule) {
	if len(r.From) == 0 {
		return
	}
	if r.Effect != sdk.Defer {
		c.fault(r, "approvals.from", "only a rule that defers can ask for approvals")
	}
	if len(r.From) > maxFrom {
		c.fault(r, "approvals.from", "%d entries, the limit is %d", len(r.From), maxFrom)
		return
	}
	seen, keys := map[string]bool{}, 0
	for _, from := range r.From {
		kind, name, _ := strings.Cut(from, ":")
		switch {
		case kind == "key" && name != "":
			keys++
		case kind == "role" && sdk.Presets[name]&sdk.ScopeApprove != 0:
		default:
			c.fault(r, "approvals.from", "%q, must be key:<name>, role:approver or role:operator", from)
		}
		if seen[from] {
			c.fault(r, "approvals.from", "%q stands there twice", from)
		}
		seen[from] = true
	}
	if keys > 0 && keys == len(r.From) && r.Approvals > keys {
		c.fault(r, "approvals", "%d, but only %d keys are named that may approve", r.Approvals, keys)
	}
}

func (c *compiler) patterns(r *Rule, field string, texts []string) []*Glob {
	if len(texts) > maxPatterns {
		c.fault(r, field, "%d patterns, the limit is %d", len(texts), maxPatterns)
		return nil
	}
	globs := make([]*Glob, 0, len(texts))
	for _, text := range texts {
		g, known := c.globs[text]
		if !known {
			var err error
			if g, err = ParseGlob(text); err != nil {
				c.fault(r, field, "%v", err)
				continue
			}
			c.globs[text] = g
		}
		globs = append(globs, g)
	}
	return globs
}

// agentPatterns are patterns of agents, in which a lone star is everybody, as sdk.MatchAgent has it.
func agentPatterns(texts []string) []string {
	if !slices.Contains(texts, "*") {
		return texts
	}
	texts = slices.Clone(texts)
	for i := range texts {
		if texts[i] == "*" {
			texts[i] = "**"
		}
	}
	return texts
}

func (c *compiler) when(r *Rule) *condition {
	if r.When == "" {
		return nil
	}
	return c.expression(r, "when", r.When, c.conditions, compileCondition)
}

// expression compiles what a rule's field says, once for all rules that say the same.
func (c *compiler) expression(r *Rule, field, source string, known map[string]*condition,
	compile func(string) (*condition, []Error)) *condition {
	if cond, ok := known[source]; ok {
		return cond
	}
	cond, faults := compile(source)
	for _, f := range faults {
		f.Rule, f.Pos, f.RuleID, f.Field = c.rule, r.Pos, r.ID, field
		c.errs = append(c.errs, &f)
	}
	if len(faults) == 0 {
		known[source] = cond
	}
	return cond
}

func (c *compiler) verdict(r *Rule) sdk.Verdict {
	v := sdk.Verdict{
		Effect: r.Effect, Code: r.Code, Reason: r.Reason, RuleID: r.ID, Message: r.Message,
		Approvals: r.Approvals, Expires: r.Expires, From: r.From, Priority: r.Priority,
	}
	code := ""
	switch r.Effect {
	case sdk.Permit:
		code = sdk.ReasonRulePermit
	case sdk.Deny:
		code = sdk.ReasonRuleDeny
	case sdk.Defer:
		code = sdk.ReasonRuleDefer
	default:
		c.fault(r, "effect", "must be permit, deny or defer")
	}
	if v.Code == "" {
		v.Code = code
	}
	return v
}
