package mcpd

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Pins keep which definition of a tool clients have been shown.
type Pins interface {
	// Seen notes the definition of a tool as a server gives it now: by the digest of what it sent, and by the text as far
	// as it may be kept. ok reports whether it is the one that counts. It is called by several goroutines at a time.
	Seen(ctx context.Context, by store.Who, server, tool, digest, text string) (ok bool, err error)
	// Changed reports whether the newest definition of a tool is one that waits for an operator.
	Changed(server, tool string) bool
}

// mostTools bounds the definitions of one page.
const mostTools = 4096

// perScan is how many texts one scan takes.
const perScan = 256

// definitions are what is known of a server's tools since the gateway started. Its size is bounded, whatever a server
// lists. Safe for concurrent use.
type definitions struct {
	mu       sync.Mutex
	schemas  map[string]string // the outputSchema of a tool
	headers  map[string][]paramHeader
	withheld map[string]string // why a tool may not be called
	overfull bool              // more tools were withheld than are remembered: none may be called any more
}

// mostDefinitions bounds the tools of one server that are remembered, and mostSchema each schema, bytes.
const (
	mostDefinitions = 8192
	mostSchema      = 64 << 10
)

// Why a tool may not be called.
const (
	whyPoisoned = "This tool's description is withheld by policy, so its calls are refused. Tell the user."
	whyTwice    = "The server has listed this tool twice, with different definitions, so its calls are refused. Tell " +
		"the user."
	whyUnnoted = "The gateway could not record the definition of this tool, so its calls are refused. List the tools " +
		"again later."
	whyOverfull = "The server has listed too many tools that are withheld, so calls of its tools are refused until the " +
		"gateway is restarted. Tell the user."
	whyChanged = "The definition of this tool has changed since it was accepted. Its calls are refused until an " +
		"operator accepts the new one (yett mcp tools). Tell the user."
	whyNew = "No operator has accepted the definition of this tool as it is now. Its calls are refused until one does " +
		"(yett mcp tools). Tell the user."
)

// note keeps what calls of a tool need. why is not "" if there may be none.
func (d *definitions) note(tool string, def exact.Value, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.schemas == nil {
		d.schemas, d.withheld, d.headers = map[string]string{}, map[string]string{}, map[string][]paramHeader{}
	}
	tool = strings.Clone(tool) // a part of a whole page
	_, known := d.withheld[tool]
	switch {
	case why == "":
		delete(d.withheld, tool)
	case known || len(d.withheld) < mostDefinitions:
		d.withheld[tool] = why
	default:
		d.overfull = true
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

func (d *definitions) of(tool string) (schema, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	why = d.withheld[tool]
	if why == "" && d.overfull {
		why = whyOverfull
	}
	return d.schemas[tool], why
}

// withheldTool says why a tool's calls are refused because of its definition, or "".
func (x *exchange) withheldTool() string {
	if x.msg.method != callTool {
		return ""
	}
	tool := x.msg.params.Get("name").Str()
	if _, why := x.srv.defs.of(tool); why != "" {
		return why
	}
	switch {
	case x.g.set.Pins == nil || !x.g.set.Pins.Changed(x.srv.name, tool):
		return ""
	case x.g.set.Config.Pin == config.MCPPinOperator:
		return whyNew
	}
	return whyChanged
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
	kept, all, err := x.keptTools(ctx, m, tools)
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

// offered is one definition of a page that the caller may be told of.
type offered struct {
	name   string
	def    exact.Value
	raw    string // its very bytes
	digest string // of the definition as sent
	text   string // what the caller gets of it, "" for nothing
	why    string // why the tool may not be called
	counts bool   // it is the definition that counts
}

// keptTools are the definitions that the caller gets, and whether these are all of them, with their very bytes.
func (x *exchange) keptTools(ctx context.Context, m *message, tools exact.Value) (kept []string, all bool,
	err error) {
	page, all := x.offeredTools(m, tools)
	for rest := page; len(rest) > 0; {
		part := rest[:min(len(rest), perScan)]
		rest = rest[len(part):]
		if err := x.scanTools(ctx, part); err != nil {
			return nil, false, err
		}
		x.pinTools(ctx, part)
		for _, o := range part {
			x.srv.defs.note(o.name, o.def, o.why)
			if o.why != "" || !o.counts {
				all = false
				continue
			}
			all = all && o.text == o.raw
			kept = append(kept, o.text)
		}
	}
	return kept, all, nil
}

// offeredTools are the definitions of a page that the caller may be told of, and whether these are all. A tool that is
// there twice is not called: nobody could say which definition counts.
func (x *exchange) offeredTools(m *message, tools exact.Value) (page []*offered, all bool) {
	all = true
	byName := map[string]*offered{}
	for def := range tools.Elements() {
		o := &offered{name: def.Get("name").Str(), def: def}
		if !x.mayList(o.name) {
			all = false
			continue
		}
		from, to := def.Span()
		o.raw = m.raw[from:to]
		o.digest = digestOf(without(m.raw, def, "execution"), x.g.lim)
		page = append(page, o)
		first := byName[o.name]
		switch {
		case first == nil:
			byName[o.name] = o
		case first.why != "" || first.digest != o.digest:
			first.why, o.why = whyTwice, whyTwice
		}
	}
	for _, o := range page { // a third one may have come behind two that are the same
		o.why = byName[o.name].why
	}
	return page, all
}

// digestOf names a definition without its member execution: it says whether a call may be a task, which no model reads,
// and servers give it to clients of one version only.
func digestOf(text string, lim exact.Limits) string {
	def, f := reparse(text, lim)
	if f != nil { // it has escapes that are read as others
		return pin.Digest([]byte(text))
	}
	return pin.Digest(def.AppendCanonical(nil))
}

// mayList reports whether a caller is told of a tool.
func (x *exchange) mayList(tool string) bool {
	id := toolPrefix + x.srv.name + "/" + tool
	if tool == "" || isMethod(tool) || !x.srv.offers(tool) ||
		wire.CheckName("tool_id", id, x.g.set.Limits.Name, true) != nil { // nobody could ask about it
		return false
	}
	return x.g.set.May(x.r.Caller.Key, agentOf(x.r.Caller.Key, x.c), x.c.sessionID(), id)
}

// pinTools notes definitions. One that cannot be noted is not passed on.
func (x *exchange) pinTools(ctx context.Context, page []*offered) {
	var all sync.WaitGroup
	var failed atomic.Pointer[string] // the code of one error
	for _, o := range page {
		if o.why != "" {
			continue
		}
		if x.g.set.Pins == nil {
			o.counts = true
			continue
		}
		all.Go(func() { // the store writes in one go what comes at the same time
			text, f := reparse(tame(o.text), x.g.lim)
			if f != nil {
				o.why = whyUnnoted
				return
			}
			var err error
			o.counts, err = x.g.set.Pins.Seen(ctx, x.r.Caller.Who, x.srv.name, o.name, o.digest,
				string(text.AppendCanonical(nil)))
			if err != nil {
				o.why = whyUnnoted
				failed.Store(new(string(front.AsError(err).Code)))
			}
		})
	}
	all.Wait()
	if code := failed.Load(); code != nil {
		x.srv.logs.Log("left tools out of a list: their definitions could not be recorded: %s", *code)
	}
}

// scanTools scans definitions. One that may not be passed on says why.
func (x *exchange) scanTools(ctx context.Context, page []*offered) error {
	q := &wire.ScanRequest{ToolID: x.listTool(), AgentID: agentOf(x.r.Caller.Key, x.c), SessionID: x.c.sessionID()}
	for _, o := range page {
		q.Outputs = append(q.Outputs, wire.ScanOutput{OutputJSON: json.RawMessage(o.def.Raw())})
	}
	s, err := x.g.set.Asker.Scan(ctx, x.r.Caller, q)
	if err != nil {
		return err
	}
	for i, o := range page {
		if i < len(s.Outputs) {
			switch got := &s.Outputs[i]; got.Outcome {
			case outcomePass, outcomeWarned:
				o.text = o.raw
			case outcomeRedacted:
				o.text = string(got.SanitizedJSON)
			}
		}
		if o.text == "" {
			o.why = whyPoisoned
		}
	}
	return nil
}
