package mcpd

import (
	"context"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// notificationsOfServers are MCP's own words: any other name of a notification is a text of the server.
var notificationsOfServers = map[string]bool{
	"notifications/cancelled": true, "notifications/progress": true, "notifications/message": true,
	"notifications/resources/updated": true, "notifications/resources/list_changed": true,
	"notifications/tools/list_changed": true, "notifications/prompts/list_changed": true,
	"notifications/roots/list_changed": true, "notifications/elicitation/complete": true,
	"notifications/subscriptions/acknowledged": true, "notifications/tasks/status": true,
}

// besidePasses scans what a message of a server has beside the part that MCP knows: other members, and the names that
// the server gives to its own requests and notifications. None of these can be redacted, so only what is not may pass.
func (x *exchange) besidePasses(ctx context.Context, m *message) bool {
	var found []string
	for name, v := range m.doc.Root().Members() {
		if !x.knows(m, name, v) {
			found = append(found, string(exact.AppendString(nil, name))+":"+v.Raw())
		}
	}
	if len(found) == 0 {
		return true
	}
	v, f := reparse("{"+strings.Join(found, ",")+"}", x.g.lim)
	if f != nil {
		return false
	}
	raw, is, err := x.scanValue(ctx, x.askedTool(m), v)
	return err == nil && is == passedOn && raw == v.Raw()
}

// knows reports whether a member of a message is scanned as what it is, or can be no text of the server.
func (x *exchange) knows(m *message, name string, v exact.Value) bool {
	switch name {
	case "jsonrpc":
		return true
	case "result", "error":
		return m.kind == response
	case "params":
		return m.kind != response
	case "method":
		_, known := fromServers[m.method]
		return known || notificationsOfServers[m.method]
	case "id":
		return v.Kind() != exact.String || m.kind == response && x.msg != nil && sameID(v, x.msg.id)
	}
	return false
}
