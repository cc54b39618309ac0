package wire

import (
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// GovernRequest is the socket's way to ask whether one call may run.
type GovernRequest struct {
	AgentID            string      `json:"agent_id" yett:"required,name" doc:"The agent that wants to act."`
	ToolID             string      `json:"tool_id,omitempty" yett:"name" doc:"The tool; without a slash and with an operation the tool is tool_id/operation."`
	Tool               string      `json:"tool,omitempty" yett:"name" doc:"Another name of tool_id. One of the two is required."`
	SessionID          string      `json:"session_id,omitempty" yett:"name" doc:"The agent's session, in its own words."`
	Operation          string      `json:"operation,omitempty" yett:"name" doc:"What the tool is to do."`
	ActionType         string      `json:"action_type,omitempty" yett:"name" doc:"What kind of action the client takes it for, such as tool_call. A note: nothing hangs on it."`
	Args               exact.Value `json:"args,omitempty" doc:"The arguments, an object. Numbers are kept exact."`
	Context            exact.Value `json:"context,omitempty" doc:"What rules may want to know besides the arguments."`
	CallID             string      `json:"call_id,omitempty" yett:"name" doc:"Makes a retry safe: the same id and call of the same agent within 10 minutes spend nothing twice."`
	DeferToken         string      `json:"defer_token,omitempty" yett:"name" doc:"Redeems an approved defer."`
	Explain            bool        `json:"explain,omitempty" doc:"Answer with one row per step of the chain."`
	DryRun             bool        `json:"dry_run,omitempty" doc:"Run the chain only: no token, nothing spent."`
	ExecutionTimeoutMS int         `json:"execution_timeout_ms,omitempty" doc:"How long the caller means to run the call, milliseconds. Recorded."`
}

// Resolution says what can be done about a denial.
type Resolution struct {
	Type              string `json:"type" doc:"approval, retry or none."`
	ApprovalID        string `json:"approval_id,omitempty" doc:"The defer token to poll."`
	RetryAfterSeconds int    `json:"retry_after_seconds,omitempty"`
}

// Denial explains a DENY or a DEFER to a program. It is null on PERMIT.
type Denial struct {
	Code         string      `json:"code" doc:"The reason code."`
	RuleID       string      `json:"rule_id,omitempty"`
	RuleRef      string      `json:"rule_ref" doc:"Where to look the rule up: policy version and rule."`
	HumanMessage string      `json:"human_message" doc:"Safe to show to a model."`
	Resolution   *Resolution `json:"resolution,omitempty"`
}

// GovernResponse is a decision with its explanation.
type GovernResponse struct {
	Decision *AuthorizeResponse
	Denial   *Denial `json:"structured_denial" doc:"null on PERMIT."`
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
