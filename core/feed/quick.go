package feed

import (
	"context"

	"github.com/yett-dev/yett/core/log"
)

// Most records need no parser: they stand there as they are delivered but for a text or two. Parsing each of them made
// as much garbage for the collector as deciding did, and while it collects, decisions wait.

// quickMembers is how many members a record may have for the quick way.
const quickMembers = log.PlainNames

// member is one of a record's own members, as it stands there.
type member struct {
	name, value []byte
	nested      bool // texts lie somewhere in it
}

// quick appends what object does for a record that is written as records are. ok is false for all others, and then dst
// is worth nothing: what is delivered is the same either way, or it is not delivered this way.
func (p *payload) quick(ctx context.Context, dst, record []byte) (out []byte, ok bool) {
	var all [quickMembers]member
	n, nested, t := 0, false, Text{}
	ok = log.PlainMembers(record, func(name []byte) {
		nested = nested || texts[string(name)]
	}, func(name, value []byte) bool {
		all[n], nested = member{name, value, nested}, false
		n++
		return true
	})
	if !ok {
		return nil, false
	}
	for _, m := range all[:n] {
		switch string(m.name) {
		case "tool_id":
			t.ToolID, ok = log.Text(m.value)
		case "agent_id":
			t.AgentID, ok = log.Text(m.value)
		}
		if !ok || m.nested && p.kind == PayloadRedacted && !contents[string(m.name)] {
			return nil, false
		}
	}
	dst = append(dst, '{')
	for _, m := range all[:n] {
		content := contents[string(m.name)]
		if content && p.without() {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.name...), '"', ':')
		switch {
		case p.kind != PayloadRedacted:
			dst = append(dst, m.value...)
		case content && !texts[string(m.name)] && string(m.value) != "{}" && string(m.value) != "[]":
			dst = p.contentMasked(ctx, dst, string(m.value), t)
		case texts[string(m.name)] && m.value[0] == '"' && len(m.value) > len(`""`):
			if t.Text, ok = log.Text(m.value); !ok {
				return nil, false
			}
			dst = masked(ctx, p, dst, m.value, t)
		default:
			dst = append(dst, m.value...)
		}
	}
	return append(dst, '}'), true
}
