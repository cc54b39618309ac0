package mcpd

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// The gateway's own server, at /mcp: an operator's assistant looks up what waits and why something was decided. It
// changes nothing. Each tool is an operation, so a key sees what it may see.

// ownTool is one of its tools.
type ownTool struct {
	name, doc, schema string
	run               func(g *Gateway, r *front.Request, args exact.Value) (string, error)
}

var ownTools = []ownTool{
	{"yett_pending", "List the calls that wait for a person's approval, soonest expiry first. The key needs the scope approve.",
		`{"type":"object","properties":{"agent_id":{"type":"string","description":"Only calls of this agent."},` +
			`"limit":{"type":"integer","minimum":1,"maximum":100,"description":"How many. 20 if not given."}},` +
			`"additionalProperties":false}`, ownPending},
	{"yett_decision", "Read the record of one decision by its id, dec_…: who asked for what, what was answered and why. The key needs the scope audit. It finds decisions among the newest 100000 records.",
		`{"type":"object","properties":{"decision_id":{"type":"string"}},"required":["decision_id"],` +
			`"additionalProperties":false}`, ownDecision},
	{"yett_policy_explain", "Ask what the rules would answer to a call, with a row for each step of the chain. Nothing is permitted or spent; the question is recorded as a dry run. The key needs the scope authorize and must be able to act as the agent.",
		`{"type":"object","properties":{"agent_id":{"type":"string"},"tool_id":{"type":"string"},` +
			`"args":{"type":"object"},"session_id":{"type":"string"}},"required":["agent_id","tool_id"],` +
			`"additionalProperties":false}`, ownExplain},
}

// ownRoutes are those of the own server. Every key that may anything may speak to it; each tool asks for its own scope.
func (g *Gateway) ownRoutes() []front.Route {
	return []front.Route{{Pattern: "POST /mcp", Needs: sdk.ScopeAuthorize | sdk.ScopeApprove | sdk.ScopeAudit,
		Body: int64(g.set.Limits.AuthorizeBody), Refuse: refuseRequest, Handle: g.own}}
}

// own answers one message to the own server.
func (g *Gateway) own(w http.ResponseWriter, r *front.Request) {
	m, f := g.received(r)
	if f != nil {
		writeJSON(w, f.status, failure("", f))
		return
	}
	c, f := g.clientOf(r, &server{}, m)
	switch {
	case f != nil:
		writeJSON(w, f.status, failure(m.id.Raw(), f))
	case m.kind != request:
		w.WriteHeader(http.StatusAccepted)
	default:
		g.ownRequest(w, r, c, m)
	}
}

// ownVersions are the versions of the protocol that the own server speaks, newest first.
var ownVersions = []string{versionModern, "2025-11-25", "2025-06-18"}

const ownInstructions = "Read-only tools for operators of the Yett gateway: which calls wait for approval, why a " +
	"decision was made, and what the rules would say. Approvals are given in the console, never here."

func (g *Gateway) ownRequest(w http.ResponseWriter, r *front.Request, c *client, m *message) {
	reply := func(fill func(*wire.Writer)) {
		o := wire.Object(nil)
		o.Str("jsonrpc", "2.0")
		o.Raw("id", []byte(m.id.Raw()))
		o.Object("result", func(w *wire.Writer) {
			if c.modern {
				w.Str("resultType", "complete")
			}
			fill(w)
		})
		writeJSON(w, http.StatusOK, string(o.Close()))
	}
	about := func(w *wire.Writer) {
		w.Object("capabilities", func(w *wire.Writer) { w.Raw("tools", []byte("{}")) })
		w.Object("serverInfo", func(w *wire.Writer) {
			w.Str("name", "yett")
			w.Str("version", g.set.Version)
		})
		w.Str("instructions", ownInstructions)
	}
	switch m.method {
	case "initialize":
		version := m.params.Get("protocolVersion").Str()
		if version != ownVersions[1] && version != ownVersions[2] {
			version = ownVersions[1]
		}
		reply(func(w *wire.Writer) {
			w.Str("protocolVersion", version)
			about(w)
		})
	case "server/discover":
		reply(func(w *wire.Writer) {
			w.Strs("supportedVersions", ownVersions)
			about(w)
		})
	case "ping":
		reply(func(*wire.Writer) {})
	case "tools/list":
		reply(func(w *wire.Writer) { listOwn(w, c.modern) })
	case callTool:
		g.callOwn(w, r, c, m)
	default:
		status := http.StatusOK
		if c.modern {
			status = http.StatusNotFound
		}
		writeJSON(w, status, failure(m.id.Raw(), &fault{code: codeNoMethod, msg: "unknown method"}))
	}
}

func listOwn(w *wire.Writer, modern bool) {
	w.List("tools", len(ownTools), func(i int, w *wire.Writer) {
		t := &ownTools[i]
		w.Str("name", t.name)
		w.Str("description", t.doc)
		w.Raw("inputSchema", []byte(t.schema))
		w.Object("annotations", func(w *wire.Writer) { w.Bool("readOnlyHint", true) })
	})
	if modern {
		w.Int("ttlMs", 3_600_000)
		w.Str("cacheScope", "public")
	}
}

// callOwn runs one of the own tools. What goes wrong is a failed result, which the assistant reads.
func (g *Gateway) callOwn(w http.ResponseWriter, r *front.Request, c *client, m *message) {
	args := m.params.Get("arguments")
	if args.Exists() && args.Kind() != exact.Object {
		writeJSON(w, http.StatusOK, failure(m.id.Raw(), &fault{code: codeParams, msg: "arguments must be an object"}))
		return
	}
	for i := range ownTools {
		t := &ownTools[i]
		if t.name != m.params.Get("name").Str() {
			continue
		}
		text, err := t.run(g, r, args)
		if err != nil {
			e := front.AsError(err)
			msg := e.Msg
			if msg == "" {
				msg = wire.StatusOf(e.Code).Title
			}
			writeJSON(w, http.StatusOK, refusedResult(m.id.Raw(), string(e.Code)+": "+msg, c.modern))
			return
		}
		o := wire.Object(nil)
		o.Str("jsonrpc", "2.0")
		o.Raw("id", []byte(m.id.Raw()))
		o.Object("result", func(w *wire.Writer) {
			if c.modern {
				w.Str("resultType", "complete")
			}
			w.List("content", 1, func(_ int, w *wire.Writer) {
				w.Str("type", "text")
				w.Str("text", text)
			})
			w.Raw("structuredContent", []byte(text))
		})
		writeJSON(w, http.StatusOK, string(o.Close()))
		return
	}
	writeJSON(w, http.StatusOK, failure(m.id.Raw(), &fault{code: codeParams, msg: "unknown tool"}))
}

// only refuses members that a tool does not know.
func only(args exact.Value, names ...string) error {
	for name := range args.Members() {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known {
			return sdk.FieldErrf(sdk.CodeInvalidField, name, "unknown argument; known are %s", strings.Join(names, ", "))
		}
	}
	return nil
}

func ownPending(g *Gateway, r *front.Request, args exact.Value) (string, error) {
	if err := only(args, "agent_id", "limit"); err != nil {
		return "", err
	}
	o := wire.Object(nil)
	o.Opt("agent_id", args.Get("agent_id").Str())
	if limit := args.Get("limit"); limit.Exists() {
		o.Raw("limit", []byte(limit.Raw()))
	} else {
		o.Int("limit", 20)
	}
	return g.set.Asker.Read(r.Context(), r.Caller, ask.Pending, o.Close())
}

func ownDecision(g *Gateway, r *front.Request, args exact.Value) (string, error) {
	if err := only(args, "decision_id"); err != nil {
		return "", err
	}
	id := args.Get("decision_id").Str()
	if !strings.HasPrefix(id, "dec_") {
		return "", sdk.FieldErrf(sdk.CodeInvalidField, "decision_id", "decision_id begins with dec_")
	}
	if r.Caller.Key.Scope()&sdk.ScopeAudit == 0 {
		return "", sdk.Errf(sdk.CodeMissingScope, "the key %q lacks scope %s", r.Caller.Key.Name, sdk.ScopeAudit)
	}
	record, err := g.set.Decision(id)
	if err != nil {
		return "", err
	}
	var x struct {
		Agent string `json:"agent_id"`
	}
	if record != nil && json.Unmarshal(record, &x) == nil && r.Caller.Key.Sees(x.Agent) {
		return string(record), nil
	}
	return "", sdk.Errf(sdk.CodeNotFound, "the newest records of agents that this key sees have no such decision")
}

func ownExplain(g *Gateway, r *front.Request, args exact.Value) (string, error) {
	if err := only(args, "agent_id", "tool_id", "args", "session_id"); err != nil {
		return "", err
	}
	o := wire.Object(nil)
	o.Str("agent_id", args.Get("agent_id").Str())
	o.Str("tool_id", args.Get("tool_id").Str())
	o.Opt("session_id", args.Get("session_id").Str())
	if v := args.Get("args"); v.Exists() {
		o.Raw("args", []byte(v.Raw()))
	}
	o.Bool("dry_run", true)
	o.Bool("explain", true)
	return g.set.Asker.Read(r.Context(), r.Caller, ask.Explain, o.Close())
}
