// Package sdk holds the nouns that cross Yett's boundaries: effects, outcomes, findings, verdicts, error codes. It owns
// their names and values, which are promised to clients, scanners and plugins alike. It must never import anything
// but the standard library and sdk/exact, and never contains behaviour that decides: it is the bottom of the graph.
package sdk

import (
	"strings"
	"time"
)

// Effect is what a chain, a step or a rule says about one call.
type Effect uint8

// The effects, ordered as the verdict lattice orders them: a larger one wins over a smaller one.
const (
	Abstain Effect = iota // says nothing; never leaves the chain
	Permit
	Defer
	Deny
)

var effectNames = [...]string{Abstain: "ABSTAIN", Permit: "PERMIT", Defer: "DEFER", Deny: "DENY"}

// String gives the wire name. A value outside the list reads as DENY, so that no corruption can look like a permit.
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return "DENY"
}

// ParseEffect reads a wire name (exact case). ok is false for anything else.
func ParseEffect(s string) (e Effect, ok bool) {
	for i, n := range effectNames {
		if n == s {
			return Effect(i), true
		}
	}
	return Deny, false
}

// Verdict is what one authorize step answers. The zero Verdict abstains.
type Verdict struct {
	Effect    Effect
	Code      string        // reason code, e.g. RULE_DENY; "" on Abstain
	Reason    string        // for humans and logs
	RuleID    string        // the rule that spoke, if any
	Message   string        // safe to show to a model
	Approvals int           // on Defer: how many different approvers are needed; 0 means 1
	Expires   time.Duration // on Defer: how long it may stay pending; 0 means the configured default
	TTL       time.Duration // how long the answer may be cached by the caller; 0 means not at all
	// on Defer: only these may approve, "key:<name>" or "role:<preset>"; none means everybody who may approve
	From     []string
	Priority Priority // how much an approver should care
	Limits   []Limit  // what a permit must stay within. Shared: never written to
}

// Quorum is how many different approvers, and of which, one step asks for.
type Quorum struct {
	N    int      `json:"n"`
	From []string `json:"from,omitempty"` // "key:<name>" or "role:<preset>"; none means everybody who may approve
	Step string   `json:"step,omitempty"` // that asks; "" for the chain's default
	// the rule of that step, "step NAME" if it named none, or "failure of step NAME"; "" for the chain's default
	Rule string `json:"rule,omitempty"`

	Named string `json:"-"` // the rule as the step named it, where Rule is what may be shown of that; never kept
}

// Beginnings of rule names that only the gateway gives: for a step that names no rule, and for a step that failed. No
// step can give its own rules such a name.
const (
	RuleOfStep    = "step "
	RuleOfFailure = "failure of step "
)

// OwnRule reports whether only the gateway gives such a rule name: those above, and names that end with a digest.
func OwnRule(rule string) bool {
	return strings.HasPrefix(rule, RuleOfStep) || strings.HasPrefix(rule, RuleOfFailure) || endsWithDigest(rule)
}

// endsWithDigest reports whether a name ends as those do that the gateway gives to rules which it must not name: " #"
// and 16 hex digits.
func endsWithDigest(rule string) bool {
	_, digest, ok := strings.Cut(rule[max(len(rule)-18, 0):], " #")
	return ok && len(digest) == 16 && strings.Trim(digest, "0123456789abcdef") == ""
}

// Priority says how much a call matters to whoever looks at it. The zero Priority means that nobody said.
type Priority string

// The priorities.
const (
	PriorityLow    Priority = "low"
	PriorityMedium Priority = "medium"
	PriorityHigh   Priority = "high"
)

// LimitKind says what a Limit counts.
type LimitKind uint8

// The kinds of limits.
const (
	LimitRate LimitKind = iota + 1 // permits in a window; RATE_EXCEEDED
	// the sum of an amount in a window; BUDGET_SESSION_EXCEEDED per session, BUDGET_DAILY_EXCEEDED else
	LimitBudget
	LimitLoop // permits of one and the same call in a window; LOOP_DETECTED
)

// Limit is one count or sum that a permit must stay within. It is checked and charged in the permit's own commit, on
// windows of fixed length that begin at the Unix epoch (UTC).
type Limit struct {
	Kind   LimitKind
	Rule   string        // the rule that asks for it
	Per    string        // agent, session or key; "" with LimitLoop
	Window time.Duration // whole seconds
	Amount string        // to be added, a canonical decimal that is not negative: "1" for rate and loop
	Max    string        // the most that the window takes, a canonical decimal
}

// Severity of a finding.
type Severity uint8

// The severities of ABI v1.
const (
	Info Severity = iota
	Low
	Medium
	High
	Critical
)

var severityNames = [...]string{"info", "low", "medium", "high", "critical"}

// String gives the wire name of the severity.
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "critical"
}

// ParseSeverity reads a wire name (exact case).
func ParseSeverity(s string) (Severity, bool) {
	for i, n := range severityNames {
		if n == s {
			return Severity(i), true
		}
	}
	return Critical, false
}

// Action is what is done about a finding.
type Action uint8

// The actions. Allow and Flag leave the text as it is; Redact and Replace change it; Drop (wire name "deny") stops it.
const (
	Allow Action = iota
	Flag
	Redact
	Replace
	Drop
)

var actionNames = [...]string{"allow", "flag", "redact", "replace", "deny"}

// String gives the wire name of the action.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "deny"
}

// ParseAction reads a wire name (exact case).
func ParseAction(s string) (Action, bool) {
	for i, n := range actionNames {
		if n == s {
			return Action(i), true
		}
	}
	return Drop, false
}

// Finding is one span of a text that a scanner flags. It never carries the matched text.
type Finding struct {
	Kind        string   // e.g. SECRET_GITHUB_PAT; declared in the scanner's metadata
	Scanner     string   // the configured name of the scanner
	Start, End  int      // byte offsets into the scanned text, 0 ≤ Start < End ≤ len
	Confidence  float32  // 0…1
	Severity    Severity //
	Suggested   Action   // what the scanner suggests
	Replacement string   // what the scanner would put there instead; only with Suggested == Replace
	Action      Action   // what the operator's config makes of it; set by the host
}
