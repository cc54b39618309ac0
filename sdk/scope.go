package sdk

import "strings"

// Scope is a set of things a key may do.
type Scope uint8

// The scopes of wire v1.
const (
	ScopeAuthorize Scope = 1 << iota
	ScopeScan
	ScopeApprove
	ScopeGrants
	ScopeKill
	ScopeAudit
)

var scopeNames = []struct {
	s    Scope
	name string
}{{ScopeAuthorize, "authorize"}, {ScopeScan, "scan"}, {ScopeApprove, "approve"}, {ScopeGrants, "grants"}, {ScopeKill, "kill"}, {ScopeAudit, "audit"}}

// Presets name the usual sets of scopes.
var Presets = map[string]Scope{
	"agent":    ScopeAuthorize | ScopeScan,
	"approver": ScopeApprove,
	"auditor":  ScopeAudit,
	"operator": ScopeApprove | ScopeGrants | ScopeKill | ScopeAudit,
}

// Names lists the scopes in the contract's order.
func (s Scope) Names() []string {
	var out []string
	for _, n := range scopeNames {
		if s&n.s != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// String joins the names with spaces.
func (s Scope) String() string { return strings.Join(s.Names(), " ") }

// ParseScope reads one scope name.
func ParseScope(name string) (Scope, bool) {
	for _, n := range scopeNames {
		if n.name == name {
			return n.s, true
		}
	}
	return 0, false
}

// MatchAgent reports whether an agent id is covered by a list of globs. An empty list covers every agent, and so does a
// lone "*"; otherwise "*" stays within one "/" segment and "**" crosses segments, as in tool patterns.
func MatchAgent(globs []string, agent string) bool {
	if len(globs) == 0 {
		return true
	}
	for _, g := range globs {
		if g == "*" || MatchGlob(g, agent) {
			return true
		}
	}
	return false
}

// MatchGlob matches one pattern: "*" is any run within one "/" segment, "**" any run at all; all else is literal.
func MatchGlob(pattern, s string) bool {
	for pattern != "" {
		if pattern[0] != '*' {
			if s == "" || s[0] != pattern[0] {
				return false
			}
			pattern, s = pattern[1:], s[1:]
			continue
		}
		cross := strings.HasPrefix(pattern, "**")
		rest := strings.TrimLeft(pattern, "*")
		for i := 0; ; i++ {
			if MatchGlob(rest, s[i:]) {
				return true
			}
			if i == len(s) || s[i] == '/' && !cross {
				return false
			}
		}
	}
	return s == ""
}
