package config

import (
	"regexp"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// DoorLiteLLM is the door for LiteLLM's generic guardrail API.
type DoorLiteLLM struct {
	Enabled        bool   `koanf:"enabled" default:"false" doc:"Whether doors.listen serves /beta/litellm_basic_guardrail_api."`
	AgentID        string `koanf:"agent_id" empty:"ok" example:"support-bot" doc:"The agent of a request that names none. Empty: the only agent that the key acts for, or the key's name."`
	AgentFrom      string `koanf:"agent_from" default:"none" enum:"none|key_alias|user_id|team_alias|end_user_id" doc:"What of LiteLLM's own key names the agent. LiteLLM sets these; of end_user_id alone the client says what it likes. none: nothing does."`
	ToolPrefix     string `koanf:"tool_prefix" empty:"ok" example:"chat." doc:"What stands before the name of a function in its tool_id."`
	ToolCalls      string `koanf:"tool_calls" default:"authorize" enum:"authorize|scan" doc:"authorize: a model's answer that calls tools passes only if the authorize chain permits every call. scan: the arguments are only scanned."`
	Unscanned      string `koanf:"unscanned" default:"block" enum:"block|pass" doc:"What happens to images, sound and files, which no scanner looks at."`
	StreamHoldback int    `koanf:"stream_holdback" default:"0" min:"0" max:"1000000" doc:"How many characters at the end of a streamed answer LiteLLM holds back until more of it has come. What was sent cannot be redacted any more, so no finding may be longer. 0 holds back the whole answer until its end."`
}

// DoorPortkey is the door for Portkey's webhook guardrail.
type DoorPortkey struct {
	Enabled       bool     `koanf:"enabled" default:"false" doc:"Whether doors.listen serves /portkey."`
	AgentID       string   `koanf:"agent_id" empty:"ok" example:"support-bot" doc:"The agent of a request that names none, as in doors.litellm.agent_id."`
	AgentMetadata string   `koanf:"agent_metadata" empty:"ok" example:"_user" doc:"The member of Portkey's metadata that names the agent. The client writes the metadata. Empty: nothing names it."`
	ToolPrefix    string   `koanf:"tool_prefix" empty:"ok" example:"chat." doc:"As in doors.litellm.tool_prefix."`
	ToolCalls     string   `koanf:"tool_calls" default:"authorize" enum:"authorize|scan" doc:"As in doors.litellm.tool_calls."`
	Unscanned     string   `koanf:"unscanned" default:"block" enum:"block|pass" doc:"As in doors.litellm.unscanned."`
	Redacted      string   `koanf:"redacted" default:"block" enum:"block|pass" doc:"What happens to a text that is redacted. pass: the verdict is true and transformedData has the redacted text. Older versions of Portkey's open-source gateway drop transformedData and pass the text as it was; 1.15.2 does not. Try yours before you set it."`
	Streams       string   `koanf:"streams" default:"block" enum:"block|pass" doc:"What happens to a request for a streamed answer. Portkey sends the stream on before it asks about it, so what is in it can neither be redacted nor refused."`
	Timeout       Duration `koanf:"timeout" default:"2500ms" min:"100ms" max:"1m" doc:"When the door answers with verdict false because no decision has come. It must be shorter than Portkey's own timeout, after which Portkey passes the text."`
}

// DoorAgentgateway is the door for agentgateway's guardrail webhook.
type DoorAgentgateway struct {
	Enabled     bool   `koanf:"enabled" default:"false" doc:"Whether doors.listen serves /agentgateway/request and /agentgateway/response."`
	AgentID     string `koanf:"agent_id" empty:"ok" example:"support-bot" doc:"The agent of a request that names none, as in doors.litellm.agent_id."`
	AgentHeader string `koanf:"agent_header" empty:"ok" format:"header" example:"x-agent-id" doc:"Header of the webhook's request that names the agent. Let agentgateway set it. Empty: no header does."`
}

// DoorModerations is the door for clients of OpenAI's moderation API.
type DoorModerations struct {
	Enabled bool   `koanf:"enabled" default:"false" doc:"Whether doors.listen serves /v1/moderations."`
	AgentID string `koanf:"agent_id" empty:"ok" example:"support-bot" doc:"The agent of all requests. Empty: the only agent that the key acts for, or the key's name."`
}

var headerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// Forms are those of the texts here.
func (DoorAgentgateway) Forms() map[string]strict.Form {
	return map[string]strict.Form{"header": {Pattern: headerForm.String(), Check: func(s string) error {
		return strict.Matches(headerForm, s, "the name of a header: letters, digits and -")
	}}}
}

// guardrails says whether any of these doors is on.
func (d *Doors) guardrails() bool {
	return d.LiteLLM.Enabled || d.Portkey.Enabled || d.Agentgateway.Enabled || d.Moderations.Enabled
}

// longestAgent is the limits.name that no configuration can exceed.
const longestAgent = 4096

func (d *Doors) validateGuardrails(r *strict.Report) {
	for _, c := range [...]struct{ key, text string }{{"doors.litellm.agent_id", d.LiteLLM.AgentID},
		{"doors.litellm.tool_prefix", d.LiteLLM.ToolPrefix}, {"doors.portkey.agent_id", d.Portkey.AgentID},
		{"doors.portkey.tool_prefix", d.Portkey.ToolPrefix}, {"doors.agentgateway.agent_id", d.Agentgateway.AgentID},
		{"doors.moderations.agent_id", d.Moderations.AgentID}} {
		if len(c.text) > longestAgent || len(c.text) > 0 && (c.text[0] == ' ' || c.text[len(c.text)-1] == ' ') {
			r.Errorf(c.key, "%s is not part of a name: it begins or ends with a space, or is too long",
				strict.Literal(c.text))
		}
	}
	switch name := d.Agentgateway.AgentHeader; strings.ToLower(name) {
	case "authorization", "x-api-key", "cookie":
		r.Errorf("doors.agentgateway.agent_header", "%s holds credentials, which the log must not see", strict.Literal(name))
	}
}
