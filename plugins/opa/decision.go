package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// codeUndefined is the reason code of a denial because the policies said nothing.
const codeUndefined = "OPA_UNDEFINED"

// The bounds of a decision's members, which are those of the protocol.
const (
	maxText      = 1024
	maxRuleID    = 256
	maxApprovals = 100
	maxApprovers = 100
	maxExpires   = 30 * 24 * time.Hour
)

var codes = regexp.MustCompile(`^[A-Z0-9_]{1,64}$`)

var approvers = regexp.MustCompile(`^(key|role):[^\s:]{1,128}$`)

// effects are the wire's names, and the same in lower case as rule files have them.
var effects = map[string]sdk.Effect{
	"PERMIT": sdk.Permit, "permit": sdk.Permit,
	"DENY": sdk.Deny, "deny": sdk.Deny,
	"DEFER": sdk.Defer, "defer": sdk.Defer,
	"ABSTAIN": sdk.Abstain, "abstain": sdk.Abstain,
}

var defaultCodes = map[sdk.Effect]string{
	sdk.Permit: sdk.ReasonRulePermit,
	sdk.Deny:   sdk.ReasonRuleDeny,
	sdk.Defer:  sdk.ReasonRuleDefer,
}

// parseDecision reads the decision document: true, false, or an object with an effect. Everything else, and every
// member that is unknown, of another type or too long, is an error.
func parseDecision(v any) (sdk.Verdict, error) {
	switch v := v.(type) {
	case bool:
		effect := sdk.Deny
		if v {
			effect = sdk.Permit
		}
		return sdk.Verdict{Effect: effect, Code: defaultCodes[effect]}, nil
	case map[string]any:
		r := reader{doc: v}
		d := r.verdict()
		if r.err != nil {
			return sdk.Verdict{}, fmt.Errorf("the decision document: %w", r.err)
		}
		return d, nil
	}
	return sdk.Verdict{}, fmt.Errorf("the decision is neither a boolean nor an object with an effect")
}

// reader takes members out of a decision document. The first error stays.
type reader struct {
	doc  map[string]any
	used int
	err  error
}

func (r *reader) failf(format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, a...)
	}
}

func (r *reader) verdict() sdk.Verdict {
	name, _ := r.takeMember("effect")
	s, _ := name.(string)
	effect, ok := effects[s]
	if !ok {
		r.failf("effect is not one of PERMIT DENY DEFER ABSTAIN")
	}
	d := sdk.Verdict{
		Effect:  effect,
		Code:    r.code(effect),
		Reason:  r.text("reason", maxText),
		RuleID:  r.text("rule_id", maxRuleID),
		Message: r.text("message", maxText),
		TTL:     r.duration("ttl"),
	}
	if effect == sdk.Defer {
		d.Approvals = r.approvals()
		d.From = r.approvers()
		d.Expires = r.duration("expires")
		d.Priority = r.priority()
	}
	if r.err == nil && r.used != len(r.doc) {
		r.failf("%s", r.stray(effect))
	}
	return d
}

func (r *reader) takeMember(name string) (any, bool) {
	v, ok := r.doc[name]
	if ok {
		r.used++
	}
	return v, ok
}

var members = []string{"effect", "code", "reason", "rule_id", "message", "ttl", "approvals", "approvers", "expires",
	"priority"}

// stray names a member that should not be there. The names are the policy's own, not the call's.
func (r *reader) stray(effect sdk.Effect) string {
	names := make([]string, 0, len(r.doc))
	for n := range r.doc {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		switch i := slices.Index(members, n); {
		case i < 0:
			return fmt.Sprintf("unknown member %.64q", n)
		case i >= slices.Index(members, "approvals") && effect != sdk.Defer:
			return fmt.Sprintf("%s without the effect DEFER", n)
		case n == "code" && effect == sdk.Abstain:
			return "code with the effect ABSTAIN"
		}
	}
	return "a member that is not allowed"
}

func (r *reader) code(effect sdk.Effect) string {
	if effect == sdk.Abstain {
		return ""
	}
	v, ok := r.takeMember("code")
	if !ok {
		return defaultCodes[effect]
	}
	s, _ := v.(string)
	if !codes.MatchString(s) {
		r.failf("code is not 1 to 64 of A-Z 0-9 _")
	}
	return s
}

func (r *reader) text(name string, limit int) string {
	v, ok := r.takeMember(name)
	if !ok {
		return ""
	}
	s, isString := v.(string)
	switch {
	case !isString:
		r.failf("%s is not a string", name)
	case len(s) > limit:
		r.failf("%s has %d bytes; at most %d", name, len(s), limit)
	case !utf8.ValidString(s):
		r.failf("%s is not UTF-8", name)
	}
	return s
}

func (r *reader) duration(name string) time.Duration {
	v, ok := r.takeMember(name)
	if !ok {
		return 0
	}
	s, _ := v.(string)
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond || d > maxExpires {
		r.failf("%s is not a duration with a unit from 1ms to %v", name, maxExpires)
		return 0
	}
	return d
}

func (r *reader) approvals() int {
	v, ok := r.takeMember("approvals")
	if !ok {
		return 0
	}
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil || i < 1 || i > maxApprovals {
		r.failf("approvals is not a whole number from 1 to %d", maxApprovals)
		return 0
	}
	return int(i)
}

func (r *reader) approvers() []string {
	v, ok := r.takeMember("approvers")
	if !ok {
		return nil
	}
	list, isList := v.([]any)
	if !isList || len(list) == 0 || len(list) > maxApprovers {
		r.failf("approvers is not a list of 1 to %d", maxApprovers)
		return nil
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, _ := e.(string)
		if !approvers.MatchString(s) {
			r.failf("approvers has an entry that is not key:NAME or role:PRESET")
			return nil
		}
		out = append(out, s)
	}
	return out
}

func (r *reader) priority() sdk.Priority {
	v, ok := r.takeMember("priority")
	if !ok {
		return ""
	}
	s, _ := v.(string)
	switch p := sdk.Priority(strings.ToLower(s)); p {
	case sdk.PriorityLow, sdk.PriorityMedium, sdk.PriorityHigh:
		return p
	}
	r.failf("priority is not one of low medium high")
	return ""
}
