package ops

import (
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// maxHeartbeat bounds how seldom heartbeats may be asked for, seconds. It is part of the contract, not of the
// configuration.
const maxHeartbeat = 300

// callbackEvents are the record types that callback_subscribe brings, under the same names.
var callbackEvents = []string{"decision", "defer_created", "defer_resolved", "defer_expired", "grant_added",
	"grant_revoked", "grant_consumed", "kill", "unkill"}

// AuditSubscribe follows the audit log.
func (s *Service) AuditSubscribe(r *Request, in *wire.AuditSubscribeRequest) (Stream, error) {
	switch {
	case in.FromSeq < 0:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "from_seq", "from_seq must not be negative")
	case in.HeartbeatSeconds < 0 || in.HeartbeatSeconds > maxHeartbeat:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "heartbeat_seconds", "heartbeat_seconds must be 0 to %d, not %d",
			maxHeartbeat, in.HeartbeatSeconds)
	case strings.Contains(in.AgentID, "*"):
		return nil, noPattern()
	case in.AgentID != "" && !r.Key.Sees(in.AgentID):
		return nil, notSeen(r.Key)
	}
	for _, typ := range in.Types {
		if !slices.Contains(store.RecordTypes, typ) {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "types", "there are no records of type %q; types are %s", typ,
				strings.Join(store.RecordTypes, ", "))
		}
	}
	key, agent := r.Key, in.AgentID
	return s.subscribe(r, subOptions{
		from:      uint64(in.FromSeq),
		agent:     agent,
		types:     slices.Clone(in.Types),
		heartbeat: time.Duration(in.HeartbeatSeconds) * time.Second,
		format:    auditFormat(key),
		ends:      killEnds(key, ""),
		first:     &wire.SubscribeResponse{Subscribed: true},
		want: func(e *event) bool {
			return widely(e) || (agent == "" || e.AgentID == agent) && sees(key, e)
		},
	})
}

// CallbackSubscribe follows what happens to calls.
func (s *Service) CallbackSubscribe(r *Request, in *wire.CallbackSubscribeRequest) (Stream, error) {
	switch {
	case in.FromSeq < 0:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "from_seq", "from_seq must not be negative")
	case strings.Contains(in.AgentID, "*"):
		return nil, noPattern()
	case in.AgentID != "" && !follows(r.Key, in.AgentID):
		return nil, notSeen(r.Key)
	}
	for _, name := range in.Events {
		if !slices.Contains(callbackEvents, name) {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "events", "there is no event %q; events are %s", name,
				strings.Join(callbackEvents, ", "))
		}
	}
	key, agent, events := r.Key, in.AgentID, callbackEvents
	if len(in.Events) > 0 {
		events = slices.Clone(in.Events)
	}
	return s.subscribe(r, subOptions{
		from:   uint64(in.FromSeq),
		agent:  agent,
		types:  events,
		format: callbackFormat(key),
		ends:   killEnds(key, agent),
		first:  &wire.SubscribeResponse{Subscribed: true, Stream: "callbacks"},
		want:   func(e *event) bool { return concerns(key, agent, e) },
	})
}

func noPattern() error {
	return sdk.FieldErrf(sdk.CodeInvalidField, "agent_id",
		"agent_id is one agent here, not a pattern; without it the stream brings every agent that the key may follow")
}

func notSeen(k *store.Key) error {
	return sdk.FieldErrf(sdk.CodeAgentNotAllowed, "agent_id", "the key %q may not follow this agent", k.Name)
}

// overlaps reports whether an agent, or a pattern of agents, has something in common with a list of patterns.
func overlaps(globs []string, agent string) bool {
	if strings.Contains(agent, "*") {
		return sdk.OverlapsAgent(globs, agent)
	}
	return sdk.MatchAgent(globs, agent)
}

// follows reports whether a key may follow an agent's callbacks: with scope audit those that its agents list covers,
// else those that it acts as.
func follows(k *store.Key, agent string) bool {
	return k.Scope()&(sdk.ScopeAudit|sdk.ScopeAuthorize) != 0 && overlaps(k.Agents, agent)
}

// sees reports whether an auditor's key may see an event. One with an agents list sees what is about those agents, and
// what stops or frees itself.
func sees(k *store.Key, e *event) bool {
	return len(k.Agents) == 0 || e.AgentID != "" && overlaps(k.Agents, e.AgentID) || isKill(e) && ofKey(k, e)
}

// concerns reports whether an event is one of those that a callback stream brings: about an agent that the key may
// follow and the stream asks for, or a kill that covers it.
func concerns(k *store.Key, agent string, e *event) bool {
	everything := k.Scope()&sdk.ScopeAudit != 0 && len(k.Agents) == 0 && agent == ""
	if isKill(e) {
		switch e.Str("scope") {
		case store.KillAgent:
		case store.KillKey:
			return everything || ofKey(k, e)
		default: // everything, a tool or a session: nobody can say that it does not cover the stream's agents
			return true
		}
	}
	switch {
	case e.AgentID == "":
		return everything
	case agent != "":
		return overlaps([]string{agent}, e.AgentID)
	}
	return follows(k, e.AgentID)
}

// widely reports whether an event is a kill, or the undo of one, that nobody can say does not cover an agent.
func widely(e *event) bool {
	scope := ""
	if isKill(e) {
		scope = e.Str("scope")
	}
	return scope == store.KillGlobal || scope == store.KillTool || scope == store.KillSession
}

func isKill(e *event) bool { return e.Type == "kill" || e.Type == "unkill" }

// ofKey reports whether a kill is of that key, or of the line of rolled keys that it belongs to.
func ofKey(k *store.Key, e *event) bool {
	return e.Str("scope") == store.KillKey && killTarget(e) == k.Line()
}

// killTarget is the name under which a kill is in effect.
func killTarget(e *event) string {
	if line := e.Str("target_line"); line != "" {
		return line
	}
	return e.Str("target")
}

// nameless reports whether an event is a kill that the key may learn of but not whom it names, as in the list of kills.
func nameless(k *store.Key, e *event) bool {
	return isKill(e) && !seesKill(k, &store.Kill{Scope: e.Str("scope"), Target: killTarget(e)})
}

// onlyFor reports whether every agent of the key is covered by the pattern.
func onlyFor(k *store.Key, pattern string) bool {
	for _, agent := range k.Agents {
		if !sdk.CoversAgent([]string{pattern}, agent) {
			return false
		}
	}
	return len(k.Agents) > 0
}

// notKilled refuses a stream that a kill in effect has ended: it would only begin anew what was stopped. Auditors, who
// have to see what goes on, are refused for a kill of their own key alone.
func (s *Service) notKilled(k *store.Key, agent string) error {
	audits := k.Scope()&sdk.ScopeAudit != 0
	for _, kill := range s.set.Store.Kills() {
		switch {
		case kill.Scope == store.KillKey && kill.Target == k.Line():
		case audits:
			continue
		case kill.Scope == store.KillGlobal:
		case kill.Scope == store.KillAgent && (agent != "" && sdk.OverlapsAgent([]string{kill.Target}, agent) ||
			agent == "" && onlyFor(k, kill.Target)):
		default:
			continue
		}
		return sdk.Errf(sdk.CodeConflict, "there is no such stream while a kill of scope %s is in effect", kill.Scope)
	}
	return nil
}

// killEnds is the end of a stream by a kill: of its key, of the agent it asks for, or of everything if the key is no
// auditor's, who has to see what goes on.
func killEnds(k *store.Key, agent string) func(e *event) string {
	return func(e *event) string {
		if e.Type != "kill" {
			return ""
		}
		ends := false
		switch e.Str("scope") {
		case store.KillGlobal:
			ends = k.Scope()&sdk.ScopeAudit == 0
		case store.KillKey:
			ends = ofKey(k, e)
		case store.KillAgent:
			ends = agent != "" && overlaps([]string{agent}, e.AgentID) ||
				agent == "" && k.Scope()&sdk.ScopeAudit == 0 && onlyFor(k, e.AgentID)
		}
		if ends {
			return endKilled
		}
		return ""
	}
}
