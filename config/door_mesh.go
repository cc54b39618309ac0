package config

import (
	"net/http"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// DoorExtAuthz is the door for Envoy's filter ext_authz.
type DoorExtAuthz struct {
	Enabled     bool     `koanf:"enabled" default:"false" doc:"Whether doors.grpc_listen serves envoy.service.auth.v3.Authorization."`
	HTTP        bool     `koanf:"http" default:"false" doc:"Whether doors.listen serves the HTTP form, below /envoy/ext_authz."`
	AgentHeader string   `koanf:"agent_header" empty:"ok" example:"x-agent-id" doc:"Header of the request that names the agent. Let Envoy set it; a client can write what it likes. Without the header, the agent is the only one that the key acts for, or has the key's name."`
	Headers     []string `koanf:"headers" empty:"ok" example:"[\"x-tenant\"]" doc:"Headers of the request that rules see in args.headers, beside content-type and upgrade. Headers with credentials cannot be among them."`
	Bodies      string   `koanf:"bodies" default:"require" enum:"require|ignore" doc:"require: a request that may have a body is refused unless Envoy sends the body whole (with_request_body). ignore: calls are decided, and approved, without their body."`
}

// DoorExtProc is the door for Envoy's filter ext_proc.
type DoorExtProc struct {
	Enabled     bool     `koanf:"enabled" default:"false" doc:"Whether doors.grpc_listen serves envoy.service.ext_proc.v3.ExternalProcessor."`
	AgentHeader string   `koanf:"agent_header" empty:"ok" example:"x-agent-id" doc:"Header of the request that names the agent, as in doors.ext_authz.agent_header."`
	PassTypes   []string `koanf:"pass_types" empty:"ok" example:"[\"image/png\"]" doc:"Media types whose bodies pass unscanned if they are no text. Any other body that is no UTF-8 is refused."`
}

// DoorExtMCP is the door for agentgateway's MCP guardrails.
type DoorExtMCP struct {
	Enabled     bool   `koanf:"enabled" default:"false" doc:"Whether doors.grpc_listen serves agentgateway.dev.ext_mcp.ExtMcp."`
	AgentHeader string `koanf:"agent_header" empty:"ok" example:"x-agent-id" doc:"Header of the MCP request that names the agent, as in doors.ext_authz.agent_header. agentgateway must be told to send it (allowedRequestHeaders)."`
}

// GRPC says whether any door is on that speaks gRPC.
func (d *Doors) GRPC() bool { return d.ExtAuthz.Enabled || d.ExtProc.Enabled || d.ExtMCP.Enabled }

// credentialHeaders would put secrets into the arguments of calls.
var credentialHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Yett-Authorization"}

func (d *Doors) validateMesh(r *strict.Report) {
	for _, h := range [...]struct{ key, name string }{
		{"doors.ext_authz.agent_header", d.ExtAuthz.AgentHeader}, {"doors.ext_proc.agent_header", d.ExtProc.AgentHeader},
		{"doors.ext_mcp.agent_header", d.ExtMCP.AgentHeader}} {
		checkHeader(r, h.key, h.name)
	}
	for _, h := range d.ExtAuthz.Headers {
		checkHeader(r, "doors.ext_authz.headers", h)
	}
	if len(d.ExtAuthz.Headers) > maxHosts {
		r.Errorf("doors.ext_authz.headers", "has %d entries; at most %d are read", len(d.ExtAuthz.Headers), maxHosts)
	}
	if len(d.ExtProc.PassTypes) > maxHosts {
		r.Errorf("doors.ext_proc.pass_types", "has %d entries; at most %d are read", len(d.ExtProc.PassTypes), maxHosts)
	}
	if d.GRPC() && strict.CheckAddr(d.GRPCListen) == nil && !loopback(d.GRPCListen) && !d.TLS.Enabled() {
		r.Errorf("doors.grpc_listen", "%s is not a loopback address; without doors.tls only loopback is served",
			strict.Literal(d.GRPCListen))
	}
}

// checkHeader refuses a name that no header has, and one that holds credentials.
func checkHeader(r *strict.Report, key, name string) {
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte("-_.", c) < 0 {
			r.Errorf(key, "%s is not the name of a header: write letters, digits and -", strict.Literal(name))
			return
		}
	}
	if slices.Contains(credentialHeaders, http.CanonicalHeaderKey(name)) {
		r.Errorf(key, "%s holds credentials, which rules and the log must not see", strict.Literal(name))
	}
}
