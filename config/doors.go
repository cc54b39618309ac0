package config

import (
	"slices"

	"github.com/yett-dev/yett/config/strict"
)

// Doors are listeners that speak the protocols of others. Each door is off until its section turns it on.
type Doors struct {
	Listen string   `koanf:"listen" default:"127.0.0.1:8423" format:"addr" doc:"Address and port of the doors that speak HTTP. Nothing listens here while all of them are off. Port 0 takes a free one. Off loopback only with tls."`
	TLS    TLS      `koanf:"tls" doc:"Certificate of the doors. Without it they are in clear and must listen on loopback."`
	Hosts  []string `koanf:"hosts" empty:"ok" example:"[\"pdp.example.com\"]" doc:"Names under which clients reach the doors, beside the address they listen on. A request for another name is refused."`

	GRPCListen   string           `koanf:"grpc_listen" default:"127.0.0.1:8424" format:"addr" doc:"Address and port of the doors that speak gRPC, with the certificate of doors.tls. Nothing listens here while all of them are off. Port 0 takes a free one. Off loopback only with tls."`
	ExtAuthz     DoorExtAuthz     `koanf:"ext_authz" doc:"Envoy's ext_authz: whether a request may pass."`
	ExtProc      DoorExtProc      `koanf:"ext_proc" doc:"Envoy's ext_proc: the bodies of responses are scanned."`
	ExtMCP       DoorExtMCP       `koanf:"ext_mcp" doc:"agentgateway's MCP guardrails: whether a call may run, and what its result may say."`
	AuthZEN      AuthZEN          `koanf:"authzen" doc:"The OpenID AuthZEN Authorization API 1.0, with access requests for calls that wait. core/doors/authzen/README.md says how a request is read as a call."`
	LiteLLM      DoorLiteLLM      `koanf:"litellm" doc:"LiteLLM's generic guardrail API."`
	Portkey      DoorPortkey      `koanf:"portkey" doc:"Portkey's webhook guardrail."`
	Agentgateway DoorAgentgateway `koanf:"agentgateway" doc:"agentgateway's guardrail webhook for language models."`
	Moderations  DoorModerations  `koanf:"moderations" doc:"OpenAI's moderation API, answered by the scan chain."`
}

// HTTP says whether any door is on that speaks HTTP.
func (d *Doors) HTTP() bool { return d.AuthZEN.Enabled || d.ExtAuthz.HTTP || d.guardrails() }

// Names are those under which clients reach the doors.
func (d *Doors) Names() []string {
	names := slices.Clone(d.Hosts)
	if host := d.AuthZEN.Host(); host != "" {
		names = append(names, host)
	}
	return names
}

func (d *Doors) validate(r *strict.Report) {
	d.TLS.validate(r, "doors.tls")
	d.validateMesh(r)
	d.validateGuardrails(r)
	if !d.HTTP() {
		return
	}
	if strict.CheckAddr(d.Listen) == nil && !loopback(d.Listen) && !d.TLS.Enabled() {
		r.Errorf("doors.listen", "%s is not a loopback address; without doors.tls only loopback is served",
			strict.Literal(d.Listen))
	}
	d.AuthZEN.validate(r)
	if len(d.Hosts) > maxHosts {
		r.Errorf("doors.hosts", "has %d entries; at most %d are read", len(d.Hosts), maxHosts)
	}
}

// maxHosts bounds lists of names under which a listener is reached.
const maxHosts = 100
