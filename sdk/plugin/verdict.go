package plugin

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Limits on one answer.
const (
	maxRule      = 256 // bytes
	maxApprovals = 100
	maxFrom      = 100
	maxFindings  = 256
	maxLong      = 365 * 24 * time.Hour // TTL and Expires
	maxReplace   = 64 << 10             // bytes
)

var effects = map[sdk.Effect]pluginv1.CheckResponse_Effect{
	sdk.Abstain: pluginv1.CheckResponse_EFFECT_ABSTAIN,
	sdk.Permit:  pluginv1.CheckResponse_EFFECT_PERMIT,
	sdk.Defer:   pluginv1.CheckResponse_EFFECT_DEFER,
	sdk.Deny:    pluginv1.CheckResponse_EFFECT_DENY,
}

// answer fills in what a verdict says. The error says which rule the verdict breaks; then out must not be sent.
func answer(out *pluginv1.CheckResponse, v *sdk.Verdict) error {
	effect, ok := effects[v.Effect]
	switch {
	case !ok:
		return fmt.Errorf("unknown effect %d: expected 0 (abstain), 1 (permit), 2 (deny) or 3 (defer)", v.Effect)
	case v.Effect != sdk.Abstain && v.Code == "":
		return fmt.Errorf("code: %s needs one, such as LIMIT_EXCEEDED", v.Effect)
	case v.Code != "" && !isCode(v.Code):
		return fmt.Errorf("code: %q, must be 1 to 64 of A-Z 0-9 _", v.Code)
	case len(v.Limits) > 0:
		return errors.New("limits: a plugin's verdict carries none")
	case v.TTL < 0 || v.TTL > maxLong:
		return fmt.Errorf("ttl: %v, must be 0 to %v", v.TTL, maxLong)
	}
	for _, text := range []struct {
		name, text string
		max        int
	}{{"reason", v.Reason, maxLine}, {"message", v.Message, maxLine}, {"rule id", v.RuleID, maxRule}} {
		if len(text.text) > text.max || !utf8.ValidString(text.text) {
			return fmt.Errorf("%s: %d bytes, must be at most %d of UTF-8", text.name, len(text.text), text.max)
		}
	}
	if err := deferral(v); err != nil {
		return err
	}
	out.Effect, out.Code, out.Reason, out.RuleId, out.Message = effect, v.Code, v.Reason, v.RuleID, v.Message
	out.TtlMs, out.ExpiresMs = v.TTL.Milliseconds(), v.Expires.Milliseconds()
	// #nosec G115 -- deferral bounds it
	out.Approvals, out.Approvers, out.Priority = uint32(v.Approvals), v.From, string(v.Priority)
	return nil
}

// deferral checks the fields that only a DEFER has.
func deferral(v *sdk.Verdict) error {
	if v.Approvals == 0 && v.Expires == 0 && len(v.From) == 0 && v.Priority == "" {
		return nil
	}
	switch {
	case v.Effect != sdk.Defer:
		return fmt.Errorf("approvals, expires, from, priority: only DEFER has them, not %s", v.Effect)
	case v.Approvals < 0 || v.Approvals > maxApprovals:
		return fmt.Errorf("approvals: %d, must be 0 to %d", v.Approvals, maxApprovals)
	case v.Expires < 0 || v.Expires > maxLong || v.Expires%time.Millisecond != 0:
		return fmt.Errorf("expires: %v, must be 0 to %v in whole milliseconds", v.Expires, maxLong)
	case len(v.From) > maxFrom:
		return fmt.Errorf("from: %d entries, the limit is %d", len(v.From), maxFrom)
	}
	switch v.Priority {
	case "", sdk.PriorityLow, sdk.PriorityMedium, sdk.PriorityHigh:
	default:
		return fmt.Errorf("priority: %q, must be low, medium, high or empty", v.Priority)
	}
	return approvers(v)
}

// approvers checks who may approve: a verdict that nobody could ever approve is a mistake, not a DEFER.
func approvers(v *sdk.Verdict) error {
	keys, roles := map[string]bool{}, false
	for _, from := range v.From {
		kind, name, _ := strings.Cut(from, ":")
		scope, preset := sdk.Presets[name]
		switch {
		case len(from) > maxRule || !utf8.ValidString(from) || !(kind == "key" && name != "") && !(kind == "role" && preset):
			return fmt.Errorf("from: %q, must be key:NAME, role:approver or role:operator", clip(from))
		case kind == "role" && scope&sdk.ScopeApprove == 0:
			return fmt.Errorf("from: %q, must be role:approver or role:operator: keys of the preset %s may not approve", from,
				name)
		case kind == "role":
			roles = true
		default:
			keys[name] = true
		}
	}
	if len(keys) > 0 && !roles && v.Approvals > len(keys) {
		return fmt.Errorf("approvals: %d, but from names only %d keys that may approve", v.Approvals, len(keys))
	}
	return nil
}

// findings makes the wire form of what a scanner found. The error says which rule a finding breaks.
func (p *parts) findings(text string, found []sdk.Finding) ([]*pluginv1.Finding, error) {
	if len(found) > maxFindings {
		return nil, fmt.Errorf("%d findings, the limit is %d", len(found), maxFindings)
	}
	out := make([]*pluginv1.Finding, len(found))
	for i := range found {
		f := &found[i]
		switch {
		case !p.found[f.Kind]:
			return nil, fmt.Errorf("finding %d: Kind: %q is not in Info.Findings", i, clip(f.Kind))
		case f.Start < 0 || f.Start >= f.End || f.End > len(text):
			return nil, fmt.Errorf("finding %d: Start, End: %d and %d, must be 0 <= Start < End <= %d", i, f.Start, f.End,
				len(text))
		case !boundary(text, f.Start) || !boundary(text, f.End):
			return nil, fmt.Errorf("finding %d: Start, End: %d or %d is within a character", i, f.Start, f.End)
		case !(f.Confidence >= 0 && f.Confidence <= 1):
			return nil, fmt.Errorf("finding %d: Confidence: %v, must be 0 to 1", i, f.Confidence)
		case f.Severity > sdk.Critical:
			return nil, fmt.Errorf("finding %d: Severity: %d, must be 0 (info) to 4 (critical)", i, f.Severity)
		case f.Suggested > sdk.Drop:
			return nil, fmt.Errorf("finding %d: Suggested: %d is no action", i, f.Suggested)
		case f.Replacement != "" && f.Suggested != sdk.Replace:
			return nil, fmt.Errorf("finding %d: Replacement: only with Suggested Replace", i)
		case len(f.Replacement) > maxReplace || !utf8.ValidString(f.Replacement):
			return nil, fmt.Errorf("finding %d: Replacement: %d bytes, must be at most %d of UTF-8", i, len(f.Replacement),
				maxReplace)
		}
		out[i] = &pluginv1.Finding{
			// #nosec G115 -- not negative, as checked above
			Kind: f.Kind, Start: uint64(f.Start), End: uint64(f.End), Confidence: f.Confidence,
			Severity: pluginv1.Finding_Severity(f.Severity) + pluginv1.Finding_SEVERITY_INFO, Replacement: f.Replacement,
			Suggested: pluginv1.Finding_Action(f.Suggested), // Allow suggests nothing: both lists go on in the same order
		}
	}
	return out, nil
}

func boundary(text string, at int) bool { return at == len(text) || utf8.RuneStart(text[at]) }
