package prochost

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// What an answer may hold. The first five are the protocol's.
const (
	maxCode     = 64
	maxReason   = 1024
	maxRule     = 256
	maxText     = 1024
	maxFindings = 256

	maxApprovals   = 100
	maxApprover    = 256
	maxExpires     = 365 * 24 * time.Hour
	maxTTL         = 365 * 24 * time.Hour
	maxReplacement = 64 << 10
)

// ErrAnswer is the error of a call whose answer broke a rule of the protocol, or said that it had failed.
var ErrAnswer = errors.New("the plugin's answer is an error")

// wrongf is for what is wrong with an answer. It quotes nothing of it that is not known or a name.
func wrongf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrAnswer, quote.Short(fmt.Sprintf(format, args...), 512))
}

var effects = [...]sdk.Effect{
	pluginv1.CheckResponse_EFFECT_ABSTAIN: sdk.Abstain,
	pluginv1.CheckResponse_EFFECT_PERMIT:  sdk.Permit,
	pluginv1.CheckResponse_EFFECT_DEFER:   sdk.Defer,
	pluginv1.CheckResponse_EFFECT_DENY:    sdk.Deny,
}

// verdict judges an answer. Nothing is repaired: what breaks a rule is an error. Beside it is only the effect that the
// answer wanted to have, if that is DENY or DEFER: a plugin that says no in a wrong way has not said yes.
func (a *answer) verdict() (sdk.Verdict, error) {
	var wanted sdk.Verdict
	if e := a.effect; e < uint64(len(effects)) && (effects[e] == sdk.Deny || effects[e] == sdk.Defer) {
		wanted.Effect = effects[e]
	}
	switch {
	case a.failure != "":
		return wanted, &chain.Spoken{Err: ErrAnswer, Words: chain.Heard(a.failure)}
	case a.effect == 0 || a.effect >= uint64(len(effects)):
		return sdk.Verdict{}, wrongf("unknown effect %d: expected 1 (abstain) to 4 (deny)", a.effect)
	}
	v := sdk.Verdict{Effect: effects[a.effect], Code: a.code, Reason: a.reason, RuleID: a.rule, Message: a.message}
	if err := a.checkTexts(v.Effect); err != nil {
		return wanted, err
	}
	if a.ttl < 0 || a.ttl > maxTTL.Milliseconds() {
		return wanted, wrongf("ttl_ms %d is not within 0 and %d", a.ttl, maxTTL.Milliseconds())
	}
	v.TTL = time.Duration(a.ttl) * time.Millisecond
	if err := a.hold(&v); err != nil {
		return wanted, err
	}
	if v.Effect == sdk.Abstain { // it says nothing: nothing of it may reach a client
		return sdk.Verdict{Reason: v.Reason}, nil
	}
	return v, nil
}

// verdict checks an answer of this instance and hides the plugin's secrets in it.
func (in *instance) verdict(a *answer) (sdk.Verdict, error) {
	v, err := a.verdict()
	if err != nil {
		return v, err
	}
	if v, err = in.spec.Hide.Verdict(v, maxReason); err != nil { // of a PERMIT: the others become denials there
		return v, wrongf("%v", err)
	}
	return v, nil
}

func (a *answer) checkTexts(effect sdk.Effect) error {
	switch {
	case !isCode(a.code) && (a.code != "" || effect != sdk.Abstain):
		return wrongf("code has %d bytes and is not a code: use 1 to %d of A-Z, 0-9 and _", len(a.code), maxCode)
	case len(a.reason) > maxReason:
		return wrongf("reason of %d bytes, at most %d are allowed", len(a.reason), maxReason)
	case len(a.rule) > maxRule:
		return wrongf("rule_id of %d bytes, at most %d are allowed", len(a.rule), maxRule)
	case len(a.message) > maxText:
		return wrongf("message of %d bytes, at most %d are allowed", len(a.message), maxText)
	}
	return nil
}

// hold takes over what only a DEFER may say.
func (a *answer) hold(v *sdk.Verdict) error {
	if v.Effect != sdk.Defer {
		if a.approvals != 0 || len(a.approvers) > 0 || a.expires != 0 || a.priority != "" {
			return wrongf("approvals, approvers, expires_ms and priority go with DEFER, not with %s", v.Effect)
		}
		return nil
	}
	if a.approvals > maxApprovals {
		return wrongf("approvals %d, at most %d are allowed", a.approvals, maxApprovals)
	}
	if a.expires < 0 || a.expires > maxExpires.Milliseconds() {
		return wrongf("expires_ms %d is not within 0 and %d", a.expires, maxExpires.Milliseconds())
	}
	if err := a.answerable(); err != nil {
		return err
	}
	switch p := sdk.Priority(a.priority); p {
	case "", sdk.PriorityLow, sdk.PriorityMedium, sdk.PriorityHigh:
		v.Priority = p
	default:
		return wrongf("priority has %d bytes: it must be low, medium or high", len(a.priority))
	}
	v.Approvals, v.Expires, v.From = int(a.approvals), time.Duration(a.expires)*time.Millisecond, a.approvers
	return nil
}

// answerable refuses a DEFER that nobody could ever approve.
func (a *answer) answerable() error {
	keys, roles := map[string]bool{}, false
	for i, who := range a.approvers {
		if len(who) > maxApprover {
			return wrongf("approver %d of %d bytes: at most %d are allowed", i, len(who), maxApprover)
		}
		key, isKey := strings.CutPrefix(who, "key:")
		role, isRole := strings.CutPrefix(who, "role:")
		scopes, isPreset := sdk.Presets[role]
		switch {
		case isKey && key != "":
			keys[key] = true
		case !isRole || !isPreset:
			return wrongf("approver %d must be key:NAME, role:approver or role:operator", i)
		case scopes&sdk.ScopeApprove == 0:
			return wrongf("approver %d: keys of preset %s may not approve; use role:approver or role:operator", i, role)
		default:
			roles = true
		}
	}
	if n := len(keys); n > 0 && !roles && int(a.approvals) > n {
		return wrongf("approvals %d of %d keys", a.approvals, n)
	}
	return nil
}

// isCode: 1 to 64 of A-Z 0-9 _.
func isCode(s string) bool {
	if s == "" || len(s) > maxCode {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}

var severities = [...]sdk.Severity{
	pluginv1.Finding_SEVERITY_INFO:     sdk.Info,
	pluginv1.Finding_SEVERITY_LOW:      sdk.Low,
	pluginv1.Finding_SEVERITY_MEDIUM:   sdk.Medium,
	pluginv1.Finding_SEVERITY_HIGH:     sdk.High,
	pluginv1.Finding_SEVERITY_CRITICAL: sdk.Critical,
}

var actions = [...]sdk.Action{
	pluginv1.Finding_ACTION_UNSPECIFIED: sdk.Flag,
	pluginv1.Finding_ACTION_FLAG:        sdk.Flag,
	pluginv1.Finding_ACTION_REDACT:      sdk.Redact,
	pluginv1.Finding_ACTION_REPLACE:     sdk.Replace,
	pluginv1.Finding_ACTION_DENY:        sdk.Drop,
}

// findings judges a scanner's answer: all of it holds, or none.
func findings(r *pluginv1.ScanResponse, scanner string, kinds map[string]string, in *chain.Input) ([]sdk.Finding,
	error) {
	switch {
	case r.Error != "":
		return nil, &chain.Spoken{Err: ErrAnswer, Words: chain.Heard(r.Error)}
	case len(r.Findings) > maxFindings:
		return nil, wrongf("%d findings, at most %d are allowed", len(r.Findings), maxFindings)
	}
	if len(r.Findings) == 0 {
		return nil, nil
	}
	out := make([]sdk.Finding, 0, len(r.Findings))
	for i, f := range r.Findings {
		x, err := finding(f, scanner, kinds, in.Text)
		if err != nil {
			return nil, wrongf("finding %d: %v", i, err)
		}
		out = append(out, x)
	}
	return out, nil
}

func finding(f *pluginv1.Finding, scanner string, kinds map[string]string, text string) (sdk.Finding, error) {
	kind, declared := kinds[f.Kind]
	switch {
	case !declared:
		return sdk.Finding{}, fmt.Errorf("kind %s was not declared", kindName(f.Kind))
	case f.Start >= f.End || f.End > uint64(len(text)):
		return sdk.Finding{}, fmt.Errorf("span %d to %d of %d bytes", f.Start, f.End, len(text))
	case !onRune(text, f.Start) || !onRune(text, f.End):
		return sdk.Finding{}, fmt.Errorf("span %d to %d cuts a character", f.Start, f.End)
	case !(f.Confidence >= 0 && f.Confidence <= 1): // also for NaN
		return sdk.Finding{}, fmt.Errorf("confidence %v is not within 0 and 1", f.Confidence)
	case f.Severity <= 0 || int(f.Severity) >= len(severities):
		return sdk.Finding{}, fmt.Errorf("unknown severity %d: expected 1 to %d", f.Severity, len(severities)-1)
	case f.Suggested < 0 || int(f.Suggested) >= len(actions):
		return sdk.Finding{}, fmt.Errorf("unknown suggested action %d: expected 0 to %d", f.Suggested, len(actions)-1)
	case len(f.Replacement) > maxReplacement:
		return sdk.Finding{}, fmt.Errorf("replacement of %d bytes, at most %d are allowed", len(f.Replacement),
			maxReplacement)
	case f.Replacement != "" && f.Suggested != pluginv1.Finding_ACTION_REPLACE:
		return sdk.Finding{}, fmt.Errorf("only ACTION_REPLACE may have a replacement")
	}
	return sdk.Finding{Kind: kind, Scanner: scanner, Start: int(f.Start), End: int(f.End), Confidence: f.Confidence,
		Severity: severities[f.Severity], Suggested: actions[f.Suggested], Replacement: f.Replacement}, nil
}

// kindName is a kind of a plugin's as an error tells it. What is no name is not quoted: it may be a text that the
// plugin was asked about, and of a part of a secret nobody sees that it is to be masked.
func kindName(name string) string {
	if isCode(name) {
		return name
	}
	return fmt.Sprintf("of %d bytes", len(name))
}

func onRune(text string, at uint64) bool {
	return at == uint64(len(text)) || utf8.RuneStart(text[at])
}
