package wire

import (
	"strings"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// AuthorizeRequest asks whether one call may run.
type AuthorizeRequest struct {
	AgentID            string      `json:"agent_id" yett:"required,name" doc:"The agent that wants to act."`
	ToolID             string      `json:"tool_id" yett:"required,name" doc:"The tool. If there is an operation and tool_id has no slash, the full name of the tool is tool_id/operation."`
	SessionID          string      `json:"session_id,omitempty" yett:"name" doc:"The agent's own name for its session."`
	Operation          string      `json:"operation,omitempty" yett:"name" doc:"The tool's operation, such as \"refund\"."`
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

// Retry tells a caller whether asking again can help.
type Retry struct {
	Class        string `json:"class" doc:"\"never\", \"after\" or \"on_approval\"."`
	AfterSeconds int    `json:"after_seconds,omitempty"`
}

// Check is what one step of the chain said.
type Check struct {
	Name       string `json:"name"`
	Kind       string `json:"kind" doc:"\"rules\", \"wasm\" or \"process\"."`
	Version    string `json:"version,omitempty"`
	Mode       string `json:"mode" doc:"\"enforce\" or \"shadow\"."`
	Effect     string `json:"effect"`
	ReasonCode string `json:"reason_code,omitempty"`
	Micros     int64  `json:"micros"`
	Error      string `json:"error,omitempty"`
}

// Shadow is what a step in shadow mode would have said.
type Shadow struct {
	Step       string `json:"step"`
	Effect     string `json:"effect"`
	ReasonCode string `json:"reason_code,omitempty"`
}

// AuthorizeResponse is a decision. Effect is PERMIT, DENY or DEFER, nothing else ever.
type AuthorizeResponse struct {
	Effect         string   `json:"effect" doc:"PERMIT, DENY or DEFER."`
	ReasonCode     string   `json:"reason_code"`
	Reason         string   `json:"reason,omitempty"`
	RuleID         string   `json:"rule_id,omitempty"`
	DeferToken     string   `json:"defer_token,omitempty" doc:"With DEFER: the token to poll. Send it with the call to redeem the approval."`
	DeferExpiresAt string   `json:"defer_expires_at,omitempty"`
	Status         string   `json:"status,omitempty" doc:"With DEFER: \"approved\" says that the call is approved and that nobody has redeemed the approval. To redeem it, send the call with defer_token."`
	DecisionID     string   `json:"decision_id"`
	CallID         string   `json:"call_id"`
	PolicyVersion  string   `json:"policy_version"`
	LatencyMS      int64    `json:"latency_ms"`
	GrantID        string   `json:"grant_id,omitempty" doc:"The standing grant that permitted the call."`
	Retry          *Retry   `json:"retry,omitempty"`
	Message        string   `json:"message,omitempty" doc:"A text that is safe to show to a model."`
	Repeat         bool     `json:"repeat,omitempty" doc:"true if the same call was decided before with the same call_id or Idempotency-Key. Run the call only if you never received the first answer."`
	DryRun         bool     `json:"dry_run,omitempty"`
	Shadow         []Shadow `json:"shadow,omitempty"`
	Checks         []Check  `json:"checks,omitempty"`
}

// AppendJSON appends the response.
func (r *AuthorizeResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	r.members(&o)
	return o.Close()
}

func (r *AuthorizeResponse) members(o *Writer) {
	o.Str("effect", r.Effect)
	o.Str("reason_code", r.ReasonCode)
	o.Opt("reason", r.Reason)
	o.Opt("rule_id", r.RuleID)
	o.Opt("defer_token", r.DeferToken)
	o.Opt("defer_expires_at", r.DeferExpiresAt)
	o.Opt("status", r.Status)
	o.Str("decision_id", r.DecisionID)
	o.Str("call_id", r.CallID)
	o.Str("policy_version", r.PolicyVersion)
	o.Int("latency_ms", r.LatencyMS)
	o.Opt("grant_id", r.GrantID)
	r.Retry.member(o)
	o.Opt("message", r.Message)
	o.True("repeat", r.Repeat)
	o.True("dry_run", r.DryRun)
	if len(r.Shadow) > 0 {
		o.List("shadow", len(r.Shadow), func(i int, w *Writer) {
			w.Str("step", r.Shadow[i].Step)
			w.Str("effect", r.Shadow[i].Effect)
			w.Opt("reason_code", r.Shadow[i].ReasonCode)
		})
	}
	if len(r.Checks) > 0 {
		o.List("checks", len(r.Checks), func(i int, w *Writer) { r.Checks[i].members(w) })
	}
}

func (c *Check) members(w *Writer) {
	w.Str("name", c.Name)
	w.Str("kind", c.Kind)
	w.Opt("version", c.Version)
	w.Str("mode", c.Mode)
	w.Str("effect", c.Effect)
	w.Opt("reason_code", c.ReasonCode)
	w.Int("micros", c.Micros)
	w.Opt("error", c.Error)
}

// ToolOf joins tool_id and operation as the contract says.
func ToolOf(tool, operation string) string {
	if operation == "" {
		return tool
	}
	for i := range len(tool) {
		if tool[i] == '/' {
			return tool
		}
	}
	return tool + "/" + operation
}

// OperationOf is the operation as rules and plugins see it. tool is as ToolOf gives it. An operation that the tool does
// not end with is the one that was sent. Any other call has what follows the tool's first slash, sent or not: all
// spellings of one call, tool and operation apart or joined, are judged alike.
func OperationOf(tool, operation string) string {
	if apart := Apart(tool, operation); apart != "" {
		return apart
	}
	_, operation, _ = strings.Cut(tool, "/")
	return operation
}

// Apart is the operation where the tool, as ToolOf gives it, does not end with it; "" where it does. Such an operation
// is part of what is decided, but of no name that patterns see.
func Apart(tool, operation string) string {
	if strings.HasSuffix(tool, "/"+operation) {
		return ""
	}
	return operation
}

// member writes the advice as the member retry, nothing for nil.
func (r *Retry) member(o *Writer) {
	if r == nil {
		return
	}
	o.Object("retry", func(in *Writer) {
		in.Str("class", r.Class)
		if r.AfterSeconds > 0 {
			in.Int("after_seconds", int64(r.AfterSeconds))
		}
	})
}

// scanRetry is after how many seconds to ask again for what a scanner could not look at: a scanner that ended is up
// again by then.
const scanRetry = 5

// wait is how many seconds to wait before asking again can help, 0 where waiting does not help.
func (r *Retry) wait() int {
	if r == nil || r.Class != "after" {
		return 0
	}
	return r.AfterSeconds
}

// RetryAfter is what HTTP says in the header of that name, seconds; 0: no such header.
func (r *AuthorizeResponse) RetryAfter() int { return r.Retry.wait() }

// RetryFor is the retry advice for a decision.
func RetryFor(effect sdk.Effect, code string) *Retry {
	switch {
	case effect == sdk.Defer:
		return &Retry{Class: "on_approval"}
	case effect == sdk.Permit:
		return nil
	}
	switch code {
	case sdk.ReasonScanUnavailable:
		return &Retry{Class: "after", AfterSeconds: scanRetry}
	case sdk.ReasonStepTimeout, sdk.ReasonStepUnavailable, sdk.ReasonStepError, sdk.ReasonRateExceeded,
		sdk.ReasonBudgetSession, sdk.ReasonBudgetDaily, sdk.ReasonLoopDetected, sdk.ReasonDraining,
		sdk.ReasonAuditUnavailable:
		return &Retry{Class: "after", AfterSeconds: 1}
	}
	return &Retry{Class: "never"}
}
