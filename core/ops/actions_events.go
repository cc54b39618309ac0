package ops

import (
	"slices"
	"strconv"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// What GET /v1/events sends besides events.
const (
	eventBacklog = 10
	eventPing    = 15 * time.Second
)

// eventTypes are the types of records that events come from: see ofAction.
var eventTypes = []string{"decision", "action_result", "defer_resolved", "defer_expired"}

// Events follows what happens to actions of the agents that the key sees, as server-sent events: id is the seq of the
// audit record that an event comes from.
func (s *Service) Events(r *Request, in *wire.EventsRequest) (Stream, error) {
	key := r.Key
	o := subOptions{
		backlog:   eventBacklog,
		types:     eventTypes,
		heartbeat: eventPing,
		beat:      func(dst []byte, _ uint64, _ time.Time) []byte { return append(dst, ": ping\n\n"...) },
		closing: func(dst []byte, reason string, _ uint64) []byte {
			return append(append(append(dst, ": closing "...), reason...), "\n\n"...)
		},
		gone: func(dst []byte, last uint64) []byte {
			return append(strconv.AppendUint(append(dst, ": gone up to "...), last, 10), "\n\n"...)
		},
		ends:   killEnds(key, ""),
		format: eventFormat,
		want:   func(e *event) bool { return ofAction(e) && key.Sees(e.AgentID) },
	}
	if in.LastEventID != "" {
		last, err := strconv.ParseUint(in.LastEventID, 10, 62)
		switch {
		case err != nil:
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "last_event_id",
				"Last-Event-ID must be the id of an event of this stream")
		case s.set.Log != nil && last > s.set.Log.Seq():
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "last_event_id", "there is no event %d yet; the log ends with %d",
				last, s.set.Log.Seq())
		}
		o.from = last + 1
	}
	return s.subscribe(r, o)
}

// ofAction reports whether a record is about an action: the decision on one, its end, or the end of the defer it
// follows.
func ofAction(e *event) bool {
	switch e.Type {
	case "decision", "action_result":
		return e.Str("action_id") != "" && e.Str("action_event") != ""
	case "defer_resolved", "defer_expired":
		return e.Get("action_ids").Len() > 0
	}
	return false
}

// eventFormat appends an event as server-sent events, one for each action that it is about. Only the last of them has
// the id, so that a client which lost the others asks for all of them again.
func eventFormat(dst []byte, e *event) []byte { return e.once(slotAction, dst, eventLines) }

func eventLines(dst []byte, e *event) []byte {
	ids := []string{e.Str("action_id")}
	if list := e.Get("action_ids"); list.Kind() == exact.Array {
		ids = slices.Collect(func(yield func(string) bool) {
			for v := range list.Elements() {
				if !yield(v.Str()) {
					return
				}
			}
		})
	}
	for i, id := range ids {
		if i == len(ids)-1 {
			dst = append(strconv.AppendUint(append(dst, "id: "...), e.Seq, 10), '\n')
		}
		dst = append(eventData(append(dst, "data: "...), e, id), "\n\n"...)
	}
	return dst
}

// eventKind is what happened, as an action's list of events calls it.
func eventKind(e *event) string {
	if kind := e.Str("action_event"); kind != "" {
		return kind
	}
	if e.Str("status") == store.Approved {
		return store.EventApproved
	}
	return store.EventDenied
}

// eventData appends one event as JSON, on one line: JSON text as we write it has no line break in it.
func eventData(dst []byte, e *event, action string) []byte {
	kind := eventKind(e)
	o := wire.Object(dst)
	o.Str("event_type", "action_"+kind)
	o.Str("type", "action."+kind)
	o.Str("action_id", action)
	in := wire.Object(nil)
	in.Str("id", action)
	in.Str("agent_id", e.AgentID)
	in.Opt("session_id", e.Str("session_id"))
	in.Str("tool", actionTool(e))
	in.Opt("operation", e.Str("operation"))
	in.Str("status", eventStatus(e, kind))
	if effect := e.Str("effect"); effect != "" {
		outcome, decision := wire.OutcomeOf(effect)
		in.Str("outcome", outcome)
		in.Str("decision", decision)
	}
	for _, name := range []string{"reason_code", "reason", "rule_id", "policy_version", "decision_id", "request_hash"} {
		in.Opt(name, e.Str(name))
	}
	in.Int("seq", int64(e.Seq))
	o.Raw("data", in.Close())
	o.Str("timestamp", e.Str("timestamp"))
	return o.Close()
}

func actionTool(e *event) string {
	if tool := e.Str("tool_name"); tool != "" {
		return tool
	}
	return e.Str("tool_id")
}

// eventStatus is the state that the event brought the action to.
func eventStatus(e *event, kind string) string {
	switch kind {
	case store.EventCreated, store.EventDecision:
		switch e.Str("effect") {
		case sdk.Permit.String():
			return store.ActionAllowed
		case sdk.Defer.String():
			return store.ActionPending
		}
		return store.ActionDenied
	case store.EventStarted:
		return store.ActionExecuting
	}
	return kind // approved, denied, succeeded and failed are states too
}
