package rules

import (
	"fmt"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// Limits on one rule's other fields.
const (
	maxID        = 256   // bytes
	maxPatterns  = 1_000 // in tools, and in agents
	maxText      = 4096  // bytes of reason, and of message
	maxApprovals = 100
)

// compiler compiles one list. Conditions and patterns that are written twice are compiled once.
type compiler struct {
	seen       map[string]string // rule id → position
	conditions map[string]*condition
	globs      map[string]*Glob
	errs       []error
}

func (c *compiler) fault(r *Rule, field, format string, args ...any) {
	c.errs = append(c.errs, &Error{Pos: r.Pos, RuleID: r.ID, Field: field, Msg: fmt.Sprintf(format, args...)})
}

func (c *compiler) compile(r *Rule) compiled {
	c.checkID(r)
	c.checkTexts(r)
	c.checkDefer(r)
	return compiled{
		tools:   c.patterns(r, "tools", r.Tools),
		agents:  c.patterns(r, "agents", r.Agents),
		when:    c.condition(r),
		verdict: c.verdict(r),
	}
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

func (c *compiler) condition(r *Rule) *condition {
	if r.When == "" {
		return nil
	}
	if cond, known := c.conditions[r.When]; known {
		return cond
	}
	cond, faults := compileCondition(r.When)
	for _, f := range faults {
		f.Pos, f.RuleID, f.Field = r.Pos, r.ID, "when"
		c.errs = append(c.errs, &f)
	}
	if len(faults) == 0 {
		c.conditions[r.When] = cond
	}
	return cond
}

func (c *compiler) verdict(r *Rule) sdk.Verdict {
	v := sdk.Verdict{
		Effect: r.Effect, Code: r.Code, Reason: r.Reason, RuleID: r.ID, Message: r.Message,
		Approvals: r.Approvals, Expires: r.Expires,
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
