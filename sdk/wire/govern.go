package wire

import (
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// GovernRequest is the socket's way to ask whether one call may run.
type GovernRequest struct {
	AgentID            string      `json:"agent_id" yett:"required,name" doc:"The agent that wants to act."`
	ToolID             string      `json:"tool_id,omitempty" yett:"name" doc:"The tool. If there is an operation and tool_id has no slash, the full name of the tool is tool_id/operation."`
	Tool               string      `json:"tool,omitempty" yett:"name" doc:"Another name for tool_id. One of the two is required."`
	SessionID          string      `json:"session_id,omitempty" yett:"name" doc:"The agent's own name for its session."`
	Operation          string      `json:"operation,omitempty" yett:"name" doc:"The tool's operation, such as \"refund\"."`
	ActionType         string      `json:"action_type,omitempty" yett:"name" doc:"The client's name for this kind of action, such as \"tool_call\". It is a note, and changes nothing."`
	Args               exact.Value `json:"args,omitempty" doc:"The arguments, an object. Numbers stay exact."`
	Context            exact.Value `json:"context,omitempty" doc:"Other facts for rules, an object."`
	CallID             string      `json:"call_id,omitempty" yett:"name" doc:"It makes a retry safe: within 10 minutes, the same call of the same agent with the same call_id spends nothing a second time."`
	DeferToken         string      `json:"defer_token,omitempty" yett:"name" doc:"The token of an approved deferred call. It redeems the approval."`
	Redeem             string      `json:"redeem,omitempty" yett:"name" doc:"\"auto\" or \"explicit\". With \"auto\", the request needs no token: if exactly this call is approved, the gateway redeems the approval. The default is \"explicit\"."`
	Explain            bool        `json:"explain,omitempty" doc:"If true, the answer has the member \"checks\", with one row for each step of the chain."`
	DryRun             bool        `json:"dry_run,omitempty" doc:"If true, the request is a dry run: the gateway runs the chain and records the answer. The answer permits nothing, has no token, and spends nothing."`
	ExecutionTimeoutMS int         `json:"execution_timeout_ms,omitempty" doc:"How long the caller will run the call, in milliseconds. The gateway records this number and does not use it."`
	Note               string      `json:"note,omitempty" doc:"What the agent says about this call, at most 1024 bytes. Approvers see this text as the agent's own words, and the gateway records it. No rule and no plugin sees it. It is no part of the call: a request with another note is the same call."`
}

// Resolution says what can be done about a denial.
type Resolution struct {
	Type              string `json:"type" doc:"\"approval\", \"retry\" or \"none\"."`
	ApprovalID        string `json:"approval_id,omitempty" doc:"The defer token to poll."`
	RetryAfterSeconds int    `json:"retry_after_seconds,omitempty"`
}

// Denial explains a DENY or a DEFER to a program. It is null on PERMIT.
type Denial struct {
	Code         string      `json:"code" doc:"The reason code."`
	RuleID       string      `json:"rule_id,omitempty"`
	RuleRef      string      `json:"rule_ref" doc:"The policy version and the rule, to find the rule."`
	HumanMessage string      `json:"human_message" doc:"A text that is safe to show to a model."`
	Resolution   *Resolution `json:"resolution,omitempty"`
}

// GovernResponse is a decision with its explanation.
type GovernResponse struct {
	Decision *AuthorizeResponse
	Denial   *Denial `json:"structured_denial" doc:"null if the effect is PERMIT."`
}

// AppendJSON appends the response.
func (r *GovernResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	r.Decision.members(&o)
	if r.Denial == nil {
		o.Raw("structured_denial", []byte("null"))
		return o.Close()
	}
	o.Object("structured_denial", r.Denial.members)
	return o.Close()
}

func (d *Denial) members(o *Writer) {
	o.Str("code", d.Code)
	o.Opt("rule_id", d.RuleID)
	o.Str("rule_ref", d.RuleRef)
	o.Str("human_message", d.HumanMessage)
	if d.Resolution != nil {
		o.Object("resolution", d.Resolution.members)
	}
}

func (r *Resolution) members(o *Writer) {
	o.Str("type", r.Type)
	o.Opt("approval_id", r.ApprovalID)
	if r.RetryAfterSeconds > 0 {
		o.Int("retry_after_seconds", int64(r.RetryAfterSeconds))
	}
}

// DenialOf explains a decision; nil for a PERMIT and for nothing else.
func DenialOf(d *AuthorizeResponse) *Denial {
	if d.Effect == sdk.Permit.String() {
		return nil
	}
	out := &Denial{Code: d.ReasonCode, RuleID: d.RuleID, RuleRef: d.PolicyVersion, HumanMessage: d.Message}
	if d.RuleID != "" {
		out.RuleRef += "#" + d.RuleID
	}
	if out.HumanMessage == "" {
		out.HumanMessage = d.Reason
	}
	if out.HumanMessage == "" {
		out.HumanMessage = "The call was not permitted (" + d.ReasonCode + ")."
	}
	switch {
	case d.Effect == sdk.Defer.String():
		out.Resolution = &Resolution{Type: "approval", ApprovalID: d.DeferToken}
	case d.Retry != nil && d.Retry.Class == "after":
		out.Resolution = &Resolution{Type: "retry", RetryAfterSeconds: d.Retry.AfterSeconds}
	}
	return out
}
