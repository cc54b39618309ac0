package mesh

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// mcpService is agentgateway's protocol for MCP guardrails. Its field numbers are those of crates/protos/proto/
// ext_mcp.proto as it is since params and results are bytes of JSON; older ones sent them as google.protobuf.Struct,
// which is no JSON and refused.
const mcpService = "agentgateway.dev.ext_mcp.ExtMcp"

// The errors of JSON-RPC that answers carry.
const (
	rpcRefused  = -32001
	rpcNoMethod = -32601
	rpcInvalid  = -32602
	rpcInternal = -32603
)

// way is what is done about a method of MCP.
type way int

const (
	deny  way = iota // not known
	pass             // it opens, keeps or lists: nothing runs and nothing is read
	gate             // the rules decide, by the name of the method
	calls            // the rules decide, by the name of the tool
)

// methods are those that are known, as the gateway for MCP (core/mcpd) treats them.
var methods = map[string]way{
	"tools/call": calls,
	"initialize": pass, "ping": pass, "server/discover": pass, "tools/list": pass, "prompts/list": pass,
	"resources/list": pass, "resources/templates/list": pass, "logging/setLevel": pass,
	"resources/unsubscribe": pass, "subscriptions/listen": pass,
	"prompts/get": gate, "resources/read": gate, "resources/subscribe": gate, "roots/list": gate,
	"completion/complete": gate, "sampling/createMessage": gate,
	"elicitation/create": gate, "tasks/get": gate, "tasks/result": gate, "tasks/list": gate, "tasks/update": gate,
	"tasks/cancel": gate,
}

func wayOf(method string) way {
	if strings.HasPrefix(method, "notifications/") {
		return pass
	}
	return methods[method]
}

// keyInside is the text yett_authorization of metadata_context, which agentgateway fills from its configuration.
func keyInside(b []byte) string {
	const metadataContext, fields, textValue = 3, 1, 3
	var found []string
	err := inside(b, metadataContext, func(b []byte) error { // google.protobuf.Struct: a map of names to values
		return inside(b, fields, func(b []byte) error {
			var name, text string
			err := each(b, func(f number, v []byte) error {
				switch f {
				case 1:
					name = string(v)
				case 2:
					return inside(v, textValue, func(b []byte) error { return setText(&text, b) })
				}
				return nil
			}, nil)
			if name == "yett_authorization" {
				found = append(found, text)
			}
			return err
		})
	})
	if err != nil || len(found) != 1 {
		return ""
	}
	return found[0]
}

// checkRequest answers one CheckRequest of ExtMcp.
func (s *Server) checkRequest(ctx context.Context, c ask.Caller, b []byte) (reply, error) {
	m, err := parseMCP(b, true)
	if err != nil {
		return reply{}, malformed(err)
	}
	var q *wire.AuthorizeRequest
	switch wayOf(m.method) {
	case pass:
		return reply{b: (&mcpResult{pass: true}).encode()}, nil
	case calls:
		q, err = m.toolCall(s.set.Limits.JSON())
	case gate:
		q, err = m.gated(s.set.Limits.JSON())
	default:
		return reply{b: (&mcpResult{code: mcpDenied, reason: "the method is not known to the gateway",
			problem: problem(rpcNoMethod, &refused{effect: sdk.Deny.String(), code: "UNKNOWN_METHOD",
				message: "The gateway does not know this method, so it is denied."})}).encode()}, nil
	}
	if err != nil {
		return reply{}, err
	}
	if q.AgentID, err = agentOf(c.Key, m.headers, s.set.Config.ExtMCP.AgentHeader); err != nil {
		return reply{}, err
	}
	d, err := s.set.Asker.Authorize(ctx, c, q)
	if err != nil {
		return reply{}, err
	}
	if d.Permits() {
		return reply{b: (&mcpResult{pass: true}).encode(), sent: d.Sent}, nil
	}
	why := ofDecision(d, s.set.Console())
	return reply{b: (&mcpResult{code: mcpDenied, reason: why.message, problem: problem(rpcRefused, why)}).encode(),
		sent: d.Sent}, nil
}

// params is the message as an object; one that is not there is empty.
func (m *mcpCall) params(lim exact.Limits) (exact.Value, error) {
	text := "{}"
	if m.given {
		text = string(m.message)
	}
	var doc exact.Doc
	if err := doc.Parse(text, lim); err != nil {
		return exact.Value{}, &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: "params: " + err.Error()}
	}
	if doc.Root().Kind() != exact.Object {
		return exact.Value{}, sdk.FieldErrf(sdk.CodeInvalidField, "params", "params must be an object")
	}
	return doc.Root(), nil
}

// server is the one server that a call is for.
func (m *mcpCall) server() (string, error) {
	if len(m.services) != 1 {
		return "", sdk.Errf(sdk.CodeBadRequest, "the call is for %d servers, expected one", len(m.services))
	}
	name := m.services[0]
	if !named(name) || strings.Contains(name, "/") {
		return "", sdk.Errf(sdk.CodeBadRequest, "the name of the server is empty, or has a slash or a blank")
	}
	return name, nil
}

// named says whether a name is printable and without blanks.
func named(s string) bool {
	for _, r := range s {
		if r <= ' ' || r == 0x7f || r == utf8.RuneError {
			return false
		}
	}
	return s != ""
}

// toolCall is the call of a tool: mcp.SERVER/TOOL with the arguments as they came.
func (m *mcpCall) toolCall(lim exact.Limits) (*wire.AuthorizeRequest, error) {
	server, err := m.server()
	if err != nil {
		return nil, err
	}
	params, err := m.params(lim)
	if err != nil {
		return nil, err
	}
	tool := params.Get("name")
	if tool.Kind() != exact.String || !named(tool.Str()) {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "name", "the name of the tool is missing, or has a blank")
	}
	if wayOf(tool.Str()) != deny {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "name", "a tool cannot have the name of a method of MCP")
	}
	args := params.Get("arguments")
	if args.Exists() && args.Kind() != exact.Object {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "arguments", "arguments must be an object")
	}
	return &wire.AuthorizeRequest{ToolID: "mcp." + server + "/" + tool.Str(), Args: args, Redeem: "auto"}, nil
}

// gated is a method that runs no tool, and reads or asks something all the same: mcp.SERVER/METHOD with its params,
// without what only carries them: it differs when the same is asked again, and an approval would never fit.
func (m *mcpCall) gated(lim exact.Limits) (*wire.AuthorizeRequest, error) {
	server, err := m.server()
	if err != nil {
		return nil, err
	}
	params, err := m.params(lim)
	if err != nil {
		return nil, err
	}
	kept := []byte("{")
	for name, v := range params.Members() {
		switch name {
		case "_meta", "inputResponses", "requestState":
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(exact.AppendString(kept, name), ':'), v.Raw()...)
	}
	var doc exact.Doc
	if err := doc.Parse(string(append(kept, '}')), lim); err != nil {
		return nil, &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: "params: " + err.Error()}
	}
	return &wire.AuthorizeRequest{ToolID: "mcp." + server + "/" + m.method, Args: doc.Root(), Redeem: "auto"}, nil
}

// checkResponse answers one CheckResponse of ExtMcp.
func (s *Server) checkResponse(ctx context.Context, c ask.Caller, b []byte) (reply, error) {
	m, err := parseMCP(b, false)
	if err != nil {
		return reply{}, malformed(err)
	}
	if !named(m.method) {
		return reply{}, sdk.Errf(sdk.CodeBadRequest, "the message names no method")
	}
	tool := "mcp/" + m.method // what several servers said together
	if len(m.services) == 1 {
		server, err := m.server()
		if err != nil {
			return reply{}, err
		}
		tool = "mcp." + server + "/" + m.method
	}
	agent, err := agentOf(c.Key, nil, "")
	if err != nil {
		return reply{}, err
	}
	var doc exact.Doc
	if err := doc.Parse(string(m.message), s.set.Limits.JSON()); err != nil {
		return reply{}, &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: "result: " + err.Error()}
	}
	body, changed, why, err := s.scanned(ctx, c, &wire.ScanRequest{ToolID: tool, AgentID: agent}, m.message, true, "")
	switch {
	case err != nil:
		return reply{}, err
	case why != nil:
		return reply{b: (&mcpResult{code: mcpDenied, reason: why.message, problem: problem(rpcRefused, why)}).encode()}, nil
	case changed:
		return reply{b: (&mcpResult{mutated: body}).encode()}, nil
	}
	return reply{b: (&mcpResult{pass: true}).encode()}, nil
}

// problem is the error of JSON-RPC that the client of the proxy gets.
func problem(code int64, why *refused) []byte {
	text := why.message
	if why.approval != "" {
		text += " Approval: " + why.approval
	}
	o := wire.Object(nil)
	o.Int("code", code)
	o.Str("message", text)
	o.Raw("data", why.json())
	return o.Close()
}

// refuseMCP is the closed answer of ExtMcp.
func refuseMCP(e *sdk.Error) []byte {
	m := &mcpResult{reason: ofError(e).message, code: mcpUnknown, problem: problem(rpcInternal, ofError(e))}
	switch statusOf(e) {
	case 400, 413, 415:
		m.code, m.problem = mcpInvalid, problem(rpcInvalid, ofError(e))
	case 429, 503:
		m.code = mcpExhausted
	case 403:
		m.code, m.problem = mcpDenied, problem(rpcRefused, ofError(e))
	}
	return m.encode()
}
