package mcpd

import (
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// What becomes of a method's requests.
type handling uint8

const (
	refused handling = iota // not in the table: unknown methods are denied
	passed                  // the request does nothing that a rule decides; its result is scanned
	asked                   // the operations decide before anything is forwarded
)

// method is one row of the table: what becomes of requests in one direction.
type method struct {
	how  handling
	name string // the member of params that Mcp-Name repeats; "" for none
	// what is asked about: "" is the whole params, else that member
	args string
}

// fromClients are the requests that clients may send. Everything else is denied, so that a method that a later version
// of MCP brings runs nothing before somebody has looked at it.
var fromClients = map[string]method{
	"tools/call":     {how: asked, name: "name", args: "arguments"},
	"resources/read": {how: asked, name: "uri"},
	"prompts/get":    {how: asked, name: "name"},

	"completion/complete":   {how: asked},
	"resources/subscribe":   {how: asked},
	"resources/unsubscribe": {how: passed},
	"tasks/get":             {how: asked},
	"tasks/result":          {how: asked},
	"tasks/list":            {how: asked},
	"tasks/cancel":          {how: asked},
	"tasks/update":          {how: asked},

	"initialize":               {how: passed},
	"ping":                     {how: passed},
	"server/discover":          {how: passed},
	"logging/setLevel":         {how: passed},
	"tools/list":               {how: passed},
	"resources/list":           {how: passed},
	"resources/templates/list": {how: passed},
	"prompts/list":             {how: passed},
	"subscriptions/listen":     {how: passed},
}

// fromServers are the requests that servers may send to clients of the older era. Each may use the client's user or
// model, so each is asked about.
var fromServers = map[string]method{
	"ping":                   {how: passed},
	"elicitation/create":     {how: asked},
	"sampling/createMessage": {how: asked},
	"roots/list":             {how: asked},
	"tasks/get":              {how: asked},
	"tasks/result":           {how: asked},
	"tasks/list":             {how: asked},
	"tasks/cancel":           {how: asked},
}

const notifications = "notifications/"

// toolPrefix begins the full name of everything that is asked through this gateway, as at every other door.
const toolPrefix = "mcp."

// callTool is the method with which tools run.
const callTool = "tools/call"

// toolID is the full name of what a request asks about: mcp.SERVER/TOOL for a tool, mcp.SERVER/METHOD for the others.
func toolID(server string, m *message) string {
	if m.method == callTool {
		return toolPrefix + server + "/" + m.params.Get("name").Str()
	}
	return toolPrefix + server + "/" + m.method
}

// isMethod reports whether a tool's name is one of the names under which other requests are asked about. Such a tool
// could be called under the rules of a method.
func isMethod(tool string) bool {
	_, a := fromClients[tool]
	_, b := fromServers[tool]
	return a || b || strings.HasPrefix(tool, notifications)
}

// argsOf is what is asked about: the arguments of a tool, or the params of another method without what only carries it.
func argsOf(row method, m *message, lim exact.Limits) (exact.Value, *fault) {
	if row.args != "" {
		v := m.params.Get(row.args)
		if v.Exists() && v.Kind() != exact.Object {
			return exact.Value{}, &fault{code: codeParams, msg: "the member " + row.args + " must be an object"}
		}
		return v, nil
	}
	if !m.params.Exists() {
		return exact.Value{}, nil
	}
	return reparse(without(m.raw, m.params, "_meta", "inputResponses", "requestState"), lim)
}

func reparse(text string, lim exact.Limits) (exact.Value, *fault) {
	var doc exact.Doc
	if err := doc.Parse(text, lim); err != nil {
		return exact.Value{}, &fault{code: codeInternal, msg: "the request cannot be taken apart"}
	}
	return doc.Root(), nil
}
