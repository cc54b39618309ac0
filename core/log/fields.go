package log

import (
	"encoding/json"
	"strconv"
	"time"
)

// fields are the members of a record that a replay needs, as they stand there.
type fields struct {
	typ, principal, at, effect, agent, session, tool, token, grant, decision, key, revokedAt, scope, target, what, status,
	asker, changed, expires, line, event []byte
	dry, repeat    bool
	most, required uint64
}

// text is the value of a JSON string.
func text(value []byte) string {
	if plain, ok := PlainText(value); ok {
		return string(plain)
	}
	var s string
	_ = json.Unmarshal(value, &s) // a record that does not parse was refused before; no member is no text
	return s
}

func (f *fields) read(rec []byte) {
	*f = fields{}
	isTrue := func(value []byte) bool { return string(value) == "true" }
	number := func(value []byte) uint64 { n, _ := strconv.ParseUint(string(value), 10, 64); return n }
	Members(rec, func(name, value []byte) bool {
		switch string(name) {
		case "type":
			f.typ = value
		case "principal_id":
			f.principal = value
		case "timestamp":
			f.at = value
		case "effect":
			f.effect = value
		case "agent_id":
			f.agent = value
		case "session_id":
			f.session = value
		case "tool_id":
			f.tool = value
		case "defer_token":
			f.token = value
		case "grant_id":
			f.grant = value
		case "decision_id":
			f.decision = value
		case "key_id":
			f.key = value
		case "revoked_at":
			f.revokedAt = value
		case "scope":
			f.scope = value
		case "target":
			f.target = value
		case "what":
			f.what = value
		case "status":
			f.status = value
		case "asked_by":
			f.asker = value
		case "modified_digest":
			f.changed = value
		case "expires_at":
			f.expires = value
		case "line":
			f.line = value
		case "action_event":
			f.event = value
		case "dry_run":
			f.dry = isTrue(value)
		case "repeat":
			f.repeat = isTrue(value)
		case "max_uses":
			f.most = number(value)
		case "approvals_required":
			f.required = number(value)
		}
		return true
	})
}

func instant(value []byte) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text(value)) // no member is no time
	return t
}
