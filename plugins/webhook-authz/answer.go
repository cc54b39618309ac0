package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// The limits of an answer.
const (
	maxAnswer    = 64 << 10
	maxText      = 1024 // bytes of reason and message
	maxRule      = 256
	maxApprovers = 100
	maxSeconds   = 30 * 24 * 3600
	maxTTL       = 24 * 3600
)

// deferOnly are members that say how a person decides. With another effect they would be ignored, so they are refused.
var deferOnly = map[string]bool{"approvals": true, "approvers": true, "expires_seconds": true, "priority": true}

// decode reads an answer strictly: a member that is not known, a value of the wrong type, or one beyond its limit is an
// error, and so is what two parsers could read differently.
func decode(text []byte) (sdk.Verdict, error) {
	var doc exact.Doc
	if err := doc.Parse(string(text), exact.Limits{Depth: 4, Tokens: 512}); err != nil {
		return sdk.Verdict{}, err
	}
	root := doc.Root()
	if root.Kind() != exact.Object {
		return sdk.Verdict{}, fmt.Errorf("is %s, not an object", root.Kind())
	}
	effect := root.Get("effect")
	if effect.Kind() != exact.String {
		return sdk.Verdict{}, fmt.Errorf("effect: must be a string")
	}
	var v sdk.Verdict
	var known bool
	if v.Effect, known = sdk.ParseEffect(effect.Str()); !known {
		return sdk.Verdict{}, fmt.Errorf("effect: must be ABSTAIN, PERMIT, DEFER or DENY")
	}
	for name, value := range root.Members() {
		if deferOnly[name] && v.Effect != sdk.Defer {
			return sdk.Verdict{}, fmt.Errorf("%s: allowed only with DEFER", name)
		}
		if err := member(&v, name, value); err != nil {
			return sdk.Verdict{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if v.Effect != sdk.Abstain && v.Code == "" {
		return sdk.Verdict{}, fmt.Errorf("code: is required with %s", v.Effect)
	}
	return v, nil
}

func member(v *sdk.Verdict, name string, value exact.Value) (err error) {
	var n int64
	switch name {
	case "effect":
	case "code":
		if v.Code, err = str(value, 64); err == nil && (v.Effect == sdk.Abstain || !isCode(v.Code)) {
			err = fmt.Errorf("must be 1 to 64 of A-Z 0-9 _, and none with ABSTAIN")
		}
	case "reason":
		v.Reason, err = str(value, maxText)
	case "message":
		v.Message, err = str(value, maxText)
	case "rule_id":
		v.RuleID, err = str(value, maxRule)
	case "approvals":
		n, err = integer(value, 1, 100)
		v.Approvals = int(n)
	case "approvers":
		v.From, err = approvers(value)
	case "expires_seconds":
		n, err = integer(value, 1, maxSeconds)
		v.Expires = time.Duration(n) * time.Second
	case "ttl_seconds":
		n, err = integer(value, 0, maxTTL)
		v.TTL = time.Duration(n) * time.Second
	case "priority":
		v.Priority, err = priority(value)
	default:
		err = fmt.Errorf("is not a member of an answer")
	}
	return err
}

func str(v exact.Value, most int) (string, error) {
	if v.Kind() != exact.String {
		return "", fmt.Errorf("must be a string, not %s", v.Kind())
	}
	if s := v.Str(); len(s) <= most {
		return s, nil
	}
	return "", fmt.Errorf("has more than %d bytes", most)
}

func isCode(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != ""
}

// integer takes the plain form only: 1e2 and 1.0 are refused.
func integer(v exact.Value, least, most int64) (int64, error) {
	if v.Kind() == exact.Number && !strings.ContainsAny(v.Raw(), ".eE") {
		if n, ok := v.Decimal().Int64(); ok && n >= least && n <= most {
			return n, nil
		}
	}
	return 0, fmt.Errorf("must be a whole number of %d to %d", least, most)
}

func approvers(v exact.Value) ([]string, error) {
	if v.Kind() != exact.Array || v.Len() == 0 || v.Len() > maxApprovers {
		return nil, fmt.Errorf("must be a list of 1 to %d", maxApprovers)
	}
	var out []string
	for e := range v.Elements() {
		s, err := str(e, maxRule)
		if err != nil {
			return nil, err
		}
		if kind, name, _ := strings.Cut(s, ":"); kind != "key" && kind != "role" || name == "" {
			return nil, fmt.Errorf("each must be key:NAME or role:PRESET")
		}
		out = append(out, s)
	}
	return out, nil
}

func priority(v exact.Value) (sdk.Priority, error) {
	switch p := sdk.Priority(v.Str()); p {
	case sdk.PriorityLow, sdk.PriorityMedium, sdk.PriorityHigh:
		return p, nil
	}
	return "", fmt.Errorf("must be low, medium or high")
}
