package mcpd_test

import (
	"strings"
	"testing"
)

// The gateway's own server shows each key what it may see, and changes nothing.
func TestOwnServer(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	up := g.url
	_, _, deferred := g.send(call(1, "defer", `{"a":1}`))
	_, id, _ := strings.Cut(deferred, "/approvals/")
	id, _, _ = strings.Cut(id, ".")
	agent, approver, auditor := g.key, g.bench.Key("approver", "approver").Value, g.bench.Key("auditor", "auditor").Value
	g.url = strings.TrimSuffix(up, "/up")
	for _, c := range []struct{ name, key, body, want string }{
		{"initialize", approver, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`,
			`"protocolVersion":"2025-06-18"`},
		{"discover", approver, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":` +
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, `"supportedVersions":["2026-07-28"`},
		{"list", auditor, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"name":"yett_policy_explain"`},
		{"ping", auditor, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `"result":{}`},
		{"unknown method", auditor, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, `"code":-32601`},
		{"unknown tool", auditor, call(1, "yett_approve", `{}`), `"code":-32602`},
		{"unknown argument", approver, call(1, "yett_pending", `{"limt":1}`), "known are agent_id, limit"},
		{"pending", approver, call(1, "yett_pending", `{}`), `"tool_id":"mcp.up/defer"`},
		{"pending without the scope", agent, call(1, "yett_pending", `{}`), "missing_scope"},
		{"decision", auditor, call(1, "yett_decision", `{"decision_id":"`+id+`"}`), `"effect":"DEFER"`},
		{"no decision", auditor, call(1, "yett_decision", `{"decision_id":"dec_none"}`), "not_found"},
		{"no id", auditor, call(1, "yett_decision", `{"decision_id":"x"}`), "begins with dec_"},
		{"decision without the scope", agent, call(1, "yett_decision", `{"decision_id":"`+id+`"}`), "missing_scope"},
		{"explain", agent, call(1, "yett_policy_explain", `{"agent_id":"a","tool_id":"deny","args":{"n":1.0}}`),
			`"effect":"DENY"`},
		{"explain is a dry run", agent, call(1, "yett_policy_explain", `{"agent_id":"a","tool_id":"read"}`), `"dry_run":true`},
		{"explain without the scope", auditor, call(1, "yett_policy_explain", `{"agent_id":"a","tool_id":"read"}`),
			"missing_scope"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.key = c.key
			if _, _, got := g.send(c.body); !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if n := g.bench.AnswerPending(false); n != 1 {
		t.Errorf("%d calls wait", n)
	}
}
