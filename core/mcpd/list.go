package mcpd

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Pins keep which definition of a tool clients have been shown. *store.Store has them by its own door.
type Pins interface {
	// Seen notes the definition of a tool as a server gives it now, by its digest and its text. The first one is
	// pinned. ok is false for one that differs from what is pinned and that no operator has accepted.
	Seen(ctx context.Context, by store.Who, server, tool, digest, text string) (ok bool, err error)
	// Changed reports whether the newest definition of a tool is one that no operator has accepted.
	Changed(server, tool string) bool
}

// mostTools bounds the definitions of one page.
const mostTools = 4096

// perScan is how many texts one scan takes.
const perScan = 256

// definitions are what is known of a server's tools since the gateway started. Safe for concurrent use.
type definitions struct {
	mu       sync.Mutex
	schemas  map[string]string // the outputSchema of a tool
	headers  map[string][]paramHeader
	poisoned map[string]bool // tools whose definition may not be passed on
}

// mostDefinitions bounds the tools of one server that are remembered, and mostSchema each schema, bytes.
const (
	mostDefinitions = 8192
	mostSchema      = 64 << 10
)

func (d *definitions) note(tool string, def exact.Value, poisoned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.schemas == nil {
		d.schemas, d.poisoned, d.headers = map[string]string{}, map[string]bool{}, map[string][]paramHeader{}
	}
	if poisoned {
		d.poisoned[tool] = true
	} else {
		delete(d.poisoned, tool)
	}
	if h := paramHeadersOf(def.Get("inputSchema"), nil); len(h) == 0 {
		delete(d.headers, tool)
	} else if len(d.headers) < mostDefinitions || d.headers[tool] != nil {
		d.headers[tool] = h
	}
	schema := def.Get("outputSchema").Raw()
	switch {
	case schema == "" || len(schema) > mostSchema:
		delete(d.schemas, tool)
	case len(d.schemas) < mostDefinitions || d.schemas[tool] != "":
		d.schemas[tool] = strings.Clone(schema)
	}
}

func (d *definitions) headersOf(tool string) []paramHeader {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.headers[tool]
}

func (d *definitions) of(tool string) (schema string, poisoned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.schemas[tool], d.poisoned[tool]
}

// withheldTool says why a tool's calls are refused because of its definition, or "".
func (x *exchange) withheldTool() string {
	if x.msg.method != callTool {
		return ""
	}
	tool := x.msg.params.Get("name").Str()
	if _, poisoned := x.srv.defs.of(tool); poisoned {
		return "This tool's description is withheld by policy, so its calls are refused. Tell the user."
	}
	if x.g.set.Pins != nil && x.g.set.Pins.Changed(x.srv.name, tool) {
		return "The definition of this tool has changed since it was accepted. Its calls are refused until an operator " +
			"accepts the new one (yett mcp tools). Tell the user."
	}
	return ""
}

// breaksSchema reports whether a redacted result no longer is what its tool promises.
func (x *exchange) breaksSchema(text string) bool {
	if x.msg == nil || x.msg.method != callTool || x.g.set.Valid == nil {
		return false
	}
	schema, _ := x.srv.defs.of(x.msg.params.Get("name").Str())
	if schema == "" {
		return false
	}
	m, f := parseAnswer(text, x.g.lim)
	if f != nil {
		return true
	}
	value := m.member("result").Get("structuredContent")
	return value.Exists() && !x.g.set.Valid(schema, value.Raw())
}

// scrubTools filters one page of a list of tools for its caller. A tool that the caller could never call is left out,
// one whose definition has changed or may not be passed on too. This is comfort: the gate is at the call.
func (x *exchange) scrubTools(ctx context.Context, m *message, result, tools exact.Value) string {
	if tools.Len() > mostTools {
		return failure(m.id.Raw(), &fault{code: codeInternal, msg: "the server lists too many tools on one page"})
	}
	kept, all, err := x.keptTools(ctx, tools)
	if err != nil {
		x.srv.logs.Log("withheld a list of tools: %s", front.AsError(err).Code)
		return x.withheldAnswer(m.id.Raw(), "The list of tools is withheld: it could not be scanned", nil)
	}
	rest := apply(m.raw, []edit{replace(tools, "[]")})
	o, f := parseAnswer(rest, x.g.lim)
	if f != nil {
		return failure(m.id.Raw(), f)
	}
	rest, v := x.scan(ctx, x.listTool(), o, o.member("result"))
	if v == withheld {
		return x.withheldAnswer(m.id.Raw(), "The list of tools is withheld by policy", nil)
	}
	scope := result.Get("cacheScope")
	if all && rest == o.raw && scope.Str() != "public" {
		return m.raw
	}
	if o, f = parseAnswer(rest, x.g.lim); f != nil {
		return failure(m.id.Raw(), f)
	}
	edits := []edit{replace(o.member("result").Get("tools"), "["+strings.Join(kept, ",")+"]")}
	if scope := o.member("result").Get("cacheScope"); scope.Str() == "public" { // others may see other tools
		edits = append(edits, replace(scope, `"private"`))
	}
	return apply(rest, edits)
}

func (x *exchange) listTool() string { return toolPrefix + x.srv.name + "/tools/list" }

// keptTools are the definitions that the caller gets, and whether these are all of them, with their very bytes.
func (x *exchange) keptTools(ctx context.Context, tools exact.Value) (kept []string, all bool, err error) {
	var offered []exact.Value
	all = true
	for def := range tools.Elements() {
		if x.mayList(def.Get("name").Str()) {
			offered = append(offered, def)
		} else {
			all = false
		}
	}
	for len(offered) > 0 {
		n := min(len(offered), perScan)
		texts, err := x.scanTools(ctx, offered[:n])
		if err != nil {
			return nil, false, err
		}
		for i, def := range offered[:n] {
			name := def.Get("name").Str()
			x.srv.defs.note(name, def, texts[i] == "")
			ok, err := x.pinned(ctx, name, def)
			if err != nil {
				return nil, false, err
			}
			if !ok || texts[i] == "" {
				all = false
				continue
			}
			all = all && texts[i] == def.Raw()
			kept = append(kept, texts[i])
		}
		offered = offered[n:]
	}
	return kept, all, nil
}

// mayList reports whether a caller is told of a tool.
func (x *exchange) mayList(tool string) bool {
	if tool == "" || isMethod(tool) || !x.srv.offers(tool) {
		return false
	}
	return x.g.set.May(x.r.Caller.Key, agentOf(x.r.Caller.Key, x.c), x.c.sessionID(), toolPrefix+x.srv.name+"/"+tool)
}

// pinned notes a definition, and reports whether it is the one that counts.
func (x *exchange) pinned(ctx context.Context, tool string, def exact.Value) (bool, error) {
	if x.g.set.Pins == nil {
		return true, nil
	}
	text := string(def.AppendCanonical(nil))
	return x.g.set.Pins.Seen(ctx, x.r.Caller.Who, x.srv.name, tool, pin.Digest([]byte(text)), text)
}

// scanTools scans definitions. A text is "" for one that may not be passed on.
func (x *exchange) scanTools(ctx context.Context, defs []exact.Value) ([]string, error) {
	q := &wire.ScanRequest{ToolID: x.listTool(), AgentID: agentOf(x.r.Caller.Key, x.c), SessionID: x.c.sessionID()}
	for _, def := range defs {
		q.Outputs = append(q.Outputs, wire.ScanOutput{OutputJSON: json.RawMessage(def.Raw())})
	}
	s, err := x.g.set.Asker.Scan(ctx, x.r.Caller, q)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(defs))
	for i := range min(len(texts), len(s.Outputs)) {
		switch o := &s.Outputs[i]; o.Outcome {
		case outcomePass, outcomeWarned:
			texts[i] = defs[i].Raw()
		case outcomeRedacted:
			texts[i] = string(o.SanitizedJSON)
		}
	}
	return texts, nil
}
