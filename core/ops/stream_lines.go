package ops

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// auditMembers are the members that every line of audit_subscribe has, in this order, behind seq. What a record does
// not have is an empty string.
var auditMembers = []string{"type", "timestamp", "record_id", "call_id", "agent_id", "session_id", "tool_id",
	"tool_name", "operation", "effect", "reason_code", "reason", "rule_id",
	"defer_token", "policy_version", "latency_ms", "principal_id", "principal_method", "args", "blast_radius",
	"reversibility", "incident_category", "incident_severity"}

var auditNamed = named(append([]string{"seq"}, auditMembers...))

// callbackNamed are the members of a callback's line that do not come as the record has them.
var callbackNamed = named([]string{"event_type", "timestamp", "seq", "modified_args"})

func named(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// auditFormat appends an event as audit_subscribe sends it to that key: the members that clients count on, then all
// others of the record.
func auditFormat(k *store.Key) func(dst []byte, e *event) []byte {
	return func(dst []byte, e *event) []byte {
		if nameless(k, e) {
			return e.once(slotAuditNameless, dst, namelessAuditLine)
		}
		return e.once(slotAudit, dst, auditLine)
	}
}

// namelessAuditLine is the line of a kill that names nobody.
func namelessAuditLine(dst []byte, e *event) []byte {
	o := wire.Object(dst)
	o.Int("seq", int64(e.Seq))
	for _, name := range auditMembers {
		switch name {
		case "type", "timestamp":
			o.Str(name, e.Str(name))
		case "record_id":
			id := recordID(e)
			o.Ascii(name, id[:])
		case "latency_ms":
			o.Int(name, 0)
		case "args":
			o.Raw(name, []byte("{}"))
		default:
			o.Str(name, "")
		}
	}
	return append(killOnly(&o, e), '\n')
}

// killOnly ends a line with what a kill stops, and not whom.
func killOnly(o *wire.Writer, e *event) []byte {
	o.Str("scope", e.Str("scope"))
	o.Str("target", "")
	return o.Close()
}

func auditLine(dst []byte, e *event) []byte {
	o := wire.Object(dst)
	o.Int("seq", int64(e.Seq))
	for _, name := range auditMembers {
		v := e.Get(name)
		switch name {
		case "record_id":
			id := recordID(e)
			o.Ascii(name, id[:])
		case "tool_name":
			o.Str(name, toolName(e))
		case "latency_ms":
			us, _ := e.Get("latency_us").Decimal().Int64()
			o.Int(name, us/1000)
		case "args":
			if v.Exists() {
				o.Raw(name, []byte(v.Raw()))
			} else {
				o.Raw(name, []byte("{}")) // an object to whoever reads it as one; what was asked is in digest
			}
		default:
			if v.Kind() == exact.String || !v.Exists() {
				o.Str(name, v.Str())
			} else {
				o.Raw(name, []byte(v.Raw()))
			}
		}
	}
	rest(&o, e, auditNamed)
	return append(o.Close(), '\n')
}

// rest adds the record's members that have not been said yet.
func rest(o *wire.Writer, e *event, said map[string]bool) {
	for name, v := range e.Body.Members() {
		if said[name] {
			continue
		}
		if strings.ContainsFunc(name, escaped) { // a Writer takes names as they are
			quoted := exact.AppendString(nil, name)
			name = string(quoted[1 : len(quoted)-1])
		}
		o.Raw(name, []byte(v.Raw()))
	}
}

// escaped reports whether a JSON string may hold c in another form only.
func escaped(c rune) bool { return c < ' ' || c == '"' || c == '\\' || c == utf8.RuneError }

// recordIDLen is the length of "evt_" and a ULID.
const recordIDLen = 4 + ulid.EncodedSize

// recordID names a record: it is made of its time, store and seq, so that it is the same for everybody and for ever.
func recordID(e *event) (id [recordIDLen]byte) {
	var u ulid.ULID
	if at := e.Time(); at.UnixMilli() > 0 {
		_ = u.SetTime(ulid.Timestamp(at)) // fails in the year 10889
	}
	sum := sha256.Sum256(strconv.AppendUint([]byte(e.Str("store_id")+"|"), e.Seq, 10))
	copy(u[6:], sum[:])
	n := copy(id[:], "evt_")
	_ = u.MarshalTextTo(id[n:]) // fails for a wrong length only
	return id
}

// toolName is the tool without the operation that was joined to it.
func toolName(e *event) string {
	tool, operation := e.Str("tool_id"), e.Str("operation")
	if operation == "" {
		return tool
	}
	return strings.TrimSuffix(tool, "/"+operation)
}

// callbackFormat appends an event as callback_subscribe sends it to that key: what it is, and the members of its
// record. modified_args are for the key that asked.
func callbackFormat(k *store.Key) func(dst []byte, e *event) []byte {
	return func(dst []byte, e *event) []byte {
		switch {
		case nameless(k, e):
			return e.once(slotCallbackNameless, dst, namelessCallbackLine)
		case e.Get("modified_args").Exists() && e.Str("asked_by") == k.ID:
			return e.once(slotCallbackOwn, dst, ownCallbackLine)
		}
		return e.once(slotCallback, dst, callbackLine)
	}
}

func namelessCallbackLine(dst []byte, e *event) []byte {
	o := wire.Object(dst)
	o.Str("event_type", e.Type)
	o.Str("timestamp", e.Str("timestamp"))
	o.Int("seq", int64(e.Seq))
	return append(killOnly(&o, e), '\n')
}

func callbackLine(dst []byte, e *event) []byte { return callback(dst, e, false) }

func ownCallbackLine(dst []byte, e *event) []byte { return callback(dst, e, true) }

func callback(dst []byte, e *event, own bool) []byte {
	o := wire.Object(dst)
	o.Str("event_type", e.Type)
	o.Str("timestamp", e.Str("timestamp"))
	o.Int("seq", int64(e.Seq))
	if e.Type == "defer_resolved" {
		resolved(&o, e)
	}
	if own {
		o.Raw("modified_args", []byte(e.Get("modified_args").Raw()))
	}
	rest(&o, e, callbackNamed)
	return append(o.Close(), '\n')
}

// resolved adds what clients look for when a deferred call has got its answer, where the record does not have it
// itself.
func resolved(o *wire.Writer, e *event) {
	if !e.Get("approved").Exists() {
		o.Bool("approved", e.Str("status") == "approved")
	}
	if !e.Get("approver_id").Exists() {
		o.Str("approver_id", e.Str("principal_id"))
	}
	if !e.Get("reason").Exists() {
		o.Str("reason", "")
	}
}
