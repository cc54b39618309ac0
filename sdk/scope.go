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
	ScopeReveal // in no preset: whoever reads personal data is named
)

// AnyScope is all of them.
const AnyScope = ScopeReveal<<1 - 1

var scopeNames = []struct {
	s    Scope
	name string
}{{ScopeAuthorize, "authorize"}, {ScopeScan, "scan"}, {ScopeApprove, "approve"}, {ScopeGrants, "grants"},
	{ScopeKill, "kill"}, {ScopeAudit, "audit"}, {ScopeReveal, "reveal"}}

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

// MatchGlob matches one pattern: "*" is any run within one "/" segment, "**" any run at all; all else is literal. On a
// mismatch only the last star of each kind is tried again, so hostile names cost no exponential time; that is enough,
// because the shortest run of an earlier star leaves the most to the later ones.
func MatchGlob(pattern, s string) bool {
	p, i := 0, 0
	starP, starI := -1, 0 // behind the last "*", and where it ends in s for now
	crossP, crossI := -1, 0
	for {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			n := 1
			for p+n < len(pattern) && pattern[p+n] == '*' {
				n++
			}
			p += n
			if n > 1 {
				crossP, crossI, starP = p, i, -1
			} else {
				starP, starI = p, i
			}
			continue
		case p == len(pattern) && i == len(s):
			return true
		case p < len(pattern) && i < len(s) && pattern[p] == s[i]:
			p++
			i++
			continue
		}
		switch {
		case starP >= 0 && starI < len(s) && s[starI] != '/':
			starI++
			p, i = starP, starI
		case crossP >= 0 && crossI < len(s):
			crossI++
			p, i, starP = crossP, crossI, -1
		default:
			return false
		}
	}
}
