package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// ActionRequest submits an action, or asks what would be decided about it.
type ActionRequest struct {
	AgentID   string      `json:"agent_id" yett:"required,name" doc:"The agent that wants to act."`
	Tool      string      `json:"tool" yett:"required,name" doc:"The tool. If there is an operation and \"tool\" has no slash, the full name of the tool is \"tool/operation\"."`
	Operation string      `json:"operation,omitempty" yett:"name" doc:"The tool's operation, such as \"refund\"."`
	Params    exact.Value `json:"params,omitempty" doc:"The arguments, an object. Numbers stay exact."`
	Context   exact.Value `json:"context,omitempty" doc:"Other facts for rules, an object."`
	SessionID string      `json:"session_id,omitempty" yett:"name" doc:"The agent's own name for its session. It is not part of request_hash."`
	DryRun    bool        `json:"dry_run,omitempty" doc:"true is refused, because action_submit stores an action, and both action_submit and gate_decide charge limits. For a dry run, use \"evaluate\" or \"authorize\"."`
}

// Outcomes of a decision, in the words of the action clients.
const (
	OutcomeExecute = "EXECUTE"
	OutcomeAbstain = "ABSTAIN"
	OutcomeHalt    = "HALT"
)

// OutcomeOf gives the outcome and the decision that an effect is called in actions. Whatever is neither PERMIT nor
// DEFER is a denial.
func OutcomeOf(effect string) (outcome, decision string) {
	switch effect {
	case sdk.Permit.String():
		return OutcomeExecute, "allow"
	case sdk.Defer.String():
		return OutcomeAbstain, "require_approval"
	}
	return OutcomeHalt, "deny"
}

// ProvenanceID ties a request to the rules, the profile and the program that decided it.
func ProvenanceID(requestHash, policyHash, profileHash, runtimeVersion string) string {
	sum := sha256.Sum256([]byte(requestHash + "|" + policyHash + "|" + profileHash + "|" + runtimeVersion))
	return hex.EncodeToString(sum[:])
}

// ActionResult is how an action ended.
type ActionResult struct {
	Success    bool            `json:"success"`
	Error      string          `json:"error" yett:"null" doc:"The error text, with secrets masked."`
	Value      json.RawMessage `json:"value" yett:"null" doc:"The stored result, with secrets masked. It can be any JSON. It is null if no result was sent, or if the result is withheld."`
	Outcome    string          `json:"outcome" yett:"null" doc:"The scan outcome of the result: PASS, WARNED, REDACTED or DENIED."`
	ReasonCode string          `json:"reason_code" yett:"null"`
	Withheld   string          `json:"withheld" yett:"null" doc:"Why the result is not stored."`
}

// Action is one submitted action. Members that do not apply are null: "" or nil here. Clients read the same type.
type Action struct {
	ID             string          `json:"id"`
	AgentID        string          `json:"agent_id"`
	Tool           string          `json:"tool"`
	Operation      string          `json:"operation"`
	Params         json.RawMessage `json:"params" doc:"The params, with secrets masked. Only the answer to the submission has them unmasked. If an approver has changed the params, these are the changed params. Changed params contain no secrets."`
	Context        json.RawMessage `json:"context" doc:"The context, with secrets masked. Only the answer to the submission has it unmasked."`
	Status         string          `json:"status" doc:"\"allowed\", \"denied\", \"pending_approval\", \"approved\", \"executing\", \"succeeded\" or \"failed\"."`
	Decision       string          `json:"decision" doc:"What the rules said: \"allow\", \"deny\" or \"require_approval\". An approval and a permitted start do not change it. A start that is not permitted changes it."`
	Reason         string          `json:"reason" yett:"null" doc:"Why the action was denied. If the text is \"expired\", the approval or the permit has expired."`
	RiskLevel      string          `json:"risk_level" doc:"\"low\", \"medium\" or \"high\"."`
	ApprovalToken  string          `json:"approval_token" yett:"null" doc:"The token for an approval. While the action is pending, the key that asked and keys with the scope \"approve\" get the token. In lists it is null. At first it is the defer token. Each time an approver changes the params, there is a new token."`
	PolicyVersion  string          `json:"policy_version"`
	CreatedAt      string          `json:"created_at"`
	UpdatedAt      string          `json:"updated_at"`
	Outcome        string          `json:"outcome" doc:"EXECUTE, ABSTAIN or HALT."`
	ReasonCode     string          `json:"reason_code"`
	ReasonDetails  ActionDetails   `json:"reason_details"`
	RequestHash    string          `json:"request_hash"`
	PolicyHash     string          `json:"policy_hash"`
	RuntimeVersion string          `json:"runtime_version"`
	ProfileID      string          `json:"profile_id" yett:"null"`
	ProfileVersion string          `json:"profile_version" yett:"null"`
	ProfileHash    string          `json:"profile_hash" yett:"null"`
	ProvenanceID   string          `json:"provenance_id"`
	JSExample      string          `json:"js_example" yett:"null" doc:"The next step, as JavaScript."`
	PythonExample  string          `json:"python_example" yett:"null" doc:"The next step, as Python."`
	ExpiresAt      string          `json:"expires_at" yett:"null" doc:"While the action is pending: the end of the time to approve it. While it is allowed or approved: the end of the time to start it."`
	Result         *ActionResult   `json:"result" yett:"null"`
	Digest         string          `json:"digest" yett:"null" doc:"It identifies the call with its current params. Send it with an approval or a start. It is null after the action has ended."`
	Modified       bool            `json:"modified,omitempty" doc:"true if an approver has changed the params. Run the call with the params of the answer to the start, never with those that were submitted. If \"modified\" is absent, run the call with the params that were submitted."`
	Repeat         bool            `json:"repeat,omitempty" doc:"true if the same submission or start was sent before. Run the call only if you never received the first answer."`

	ParamsWithheld  *Withheld `json:"params_withheld,omitempty" doc:"Why params are neither stored nor shown. The action is still valid."`
	ContextWithheld *Withheld `json:"context_withheld,omitempty" doc:"Why context is neither stored nor shown."`
}

// ActionDetails say where a decision comes from.
type ActionDetails struct {
	DecisionID string `json:"decision_id"`
	RuleID     string `json:"rule_id" yett:"null"`
	Message    string `json:"message" yett:"null" doc:"A text that is safe to show to a model."`
	Retry      *Retry `json:"retry,omitempty" doc:"Only in an answer that denies: whether a second request can help."`
}

// AppendJSON appends the response.
func (a *Action) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	a.Members(&o)
	return o.Close()
}

// Members writes the action's members, all of them.
func (a *Action) Members(o *Writer) {
	o.Str("id", a.ID)
	o.Str("agent_id", a.AgentID)
	o.Str("tool", a.Tool)
	o.Str("operation", a.Operation)
	o.Raw("params", a.Params)
	o.Raw("context", a.Context)
	o.Str("status", a.Status)
	o.Str("decision", a.Decision)
	o.Null("reason", a.Reason)
	o.Str("risk_level", a.RiskLevel)
	o.Null("approval_token", a.ApprovalToken)
	o.Str("policy_version", a.PolicyVersion)
	o.Str("created_at", a.CreatedAt)
	o.Str("updated_at", a.UpdatedAt)
	o.Str("outcome", a.Outcome)
	o.Str("reason_code", a.ReasonCode)
	o.Object("reason_details", a.ReasonDetails.members)
	o.Str("request_hash", a.RequestHash)
	o.Str("policy_hash", a.PolicyHash)
	o.Str("runtime_version", a.RuntimeVersion)
	o.Null("profile_id", a.ProfileID)
	o.Null("profile_version", a.ProfileVersion)
	o.Null("profile_hash", a.ProfileHash)
	o.Str("provenance_id", a.ProvenanceID)
	o.Null("js_example", a.JSExample)
	o.Null("python_example", a.PythonExample)
	o.Null("expires_at", a.ExpiresAt)
	a.result(o)
	o.Null("digest", a.Digest)
	o.True("modified", a.Modified)
	o.True("repeat", a.Repeat)
	if a.ParamsWithheld != nil {
		o.Raw("params_withheld", a.ParamsWithheld.JSON())
	}
	if a.ContextWithheld != nil {
		o.Raw("context_withheld", a.ContextWithheld.JSON())
	}
}

func (d *ActionDetails) members(o *Writer) {
	o.Str("decision_id", d.DecisionID)
	o.Null("rule_id", d.RuleID)
	o.Null("message", d.Message)
	d.Retry.member(o)
}

func (a *Action) result(o *Writer) {
	if a.Result == nil {
		o.Raw("result", []byte("null"))
		return
	}
	o.Object("result", func(in *Writer) {
		in.Bool("success", a.Result.Success)
		in.Null("error", a.Result.Error)
		if a.Result.Value == nil {
			in.Raw("value", []byte("null"))
		} else {
			in.Raw("value", a.Result.Value)
		}
		in.Null("outcome", a.Result.Outcome)
		in.Null("reason_code", a.Result.ReasonCode)
		in.Null("withheld", a.Result.Withheld)
	})
}

// Decided is the effect of the decision that the action shows, for those who count decisions; "" for nil.
func (a *Action) Decided() string {
	if a == nil {
		return ""
	}
	return effectOf(a.Outcome)
}

// Decided is the decision's effect, for those who count decisions; "" for nil.
func (r *GateResponse) Decided() string {
	if r == nil {
		return ""
	}
	return effectOf(r.Outcome)
}

func effectOf(outcome string) string {
	switch outcome {
	case OutcomeExecute:
		return sdk.Permit.String()
	case OutcomeAbstain:
		return sdk.Defer.String()
	}
	return sdk.Deny.String()
}

// Null adds a string member, null if it is empty.
func (w *Writer) Null(name, v string) {
	if v == "" {
		w.Raw(name, []byte("null"))
		return
	}
	w.Str(name, v)
}

// ActionIDRequest names an action in the path.
type ActionIDRequest struct {
	ID string `json:"id" yett:"path,required" doc:"The complete id."`
}

// ActionStartRequest starts an action.
type ActionStartRequest struct {
	ID     string `json:"id" yett:"path,required" doc:"The complete id."`
	Digest string `json:"digest,omitempty" doc:"The digest that was shown with the action. If an approver has changed the params after that, the action is not started."`
}

// ActionListRequest asks for actions, newest first.
type ActionListRequest struct {
	Limit   *int   `json:"limit,omitempty" yett:"query" doc:"1 to 1000; the default is 20. A page can be shorter and still not be the last. If the answer has the header X-Next-Cursor, there is another page."`
	Offset  int    `json:"offset,omitempty" yett:"query" doc:"How many actions to skip, up to 100000."`
	AgentID string `json:"agent_id,omitempty" yett:"name,query" doc:"Only actions of this agent."`
	Tool    string `json:"tool,omitempty" yett:"name,query" doc:"Only actions with this tool."`
	Status  string `json:"status,omitempty" yett:"name,query" doc:"Only actions with this status."`
	Cursor  string `json:"cursor,omitempty" yett:"name,query" doc:"X-Next-Cursor of the previous page."`
}

// ActionListResponse is a page of actions, a bare array. Where the next page begins is in the headers Link and
// X-Next-Cursor.
type ActionListResponse struct {
	Actions []Action `json:"-" yett:"bare"`
	Next    string   `json:"-"`
}

// NextCursor is the cursor of the page that follows, "" if there is none.
func (r *ActionListResponse) NextCursor() string { return r.Next }

// AppendJSON appends the response.
func (r *ActionListResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i := range r.Actions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Actions[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// ActionApprovalRequest answers an action that waits for an approval.
type ActionApprovalRequest struct {
	ID       string `json:"id" yett:"path,required" doc:"The complete id."`
	Token    string `json:"token" yett:"required,name" doc:"The approval_token of the action."`
	Approve  *bool  `json:"approve,omitempty" doc:"true approves, false denies. The member is required, unless \"withdraw\" is true."`
	Reason   string `json:"reason,omitempty" doc:"The gateway records this text and shows it to the agent that asked. At most 1024 bytes."`
	Digest   string `json:"digest,omitempty" doc:"The digest that was shown with the action. The approval is then for the call with this digest, and for no other call. The token has the same effect."`
	Withdraw bool   `json:"withdraw,omitempty" doc:"true withdraws an approval while the action is not started. The gateway then denies the action, and revokes the grant if one came with the approval. Send the last approval_token as \"token\"."`
}

// ActionResultRequest reports how an executing action ended.
type ActionResultRequest struct {
	ID      string      `json:"id" yett:"path,required" doc:"The complete id."`
	Success *bool       `json:"success" yett:"required"`
	Error   string      `json:"error,omitempty" doc:"The error text, at most 4096 bytes. The gateway stores the text with its secrets masked."`
	Result  exact.Value `json:"result,omitempty" yett:"any" doc:"Any JSON. The gateway scans the value before it stores the value."`
}

// ActionEvent is one thing that happened to an action.
type ActionEvent struct {
	ID         string `json:"id"`
	ActionID   string `json:"action_id"`
	EventType  string `json:"event_type" doc:"\"created\", \"decision_made\", \"approved\", \"denied\", \"started\", \"succeeded\" or \"failed\"."`
	Meta       []byte `json:"meta" doc:"An object with these members: \"seq\" (the number of the audit record), \"by\" (who caused the event, such as the id of a key) and, if they apply, \"reason_code\" and \"reason\"."`
	CreatedAt  string `json:"created_at"`
	PrevHash   string `json:"prev_hash" doc:"record_hash of the previous event in this list. It is empty for the first event."`
	RecordHash string `json:"record_hash" doc:"The RFC 6962 leaf hash of the audit record that contains the event, in hex. Two events of one record have the same hash."`
}

// ActionEventsResponse is what happened to one action, oldest first, a bare array.
type ActionEventsResponse struct {
	Events []ActionEvent `json:"-" yett:"bare"`
}

// AppendJSON appends the response.
func (r *ActionEventsResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i := range r.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		e := &r.Events[i]
		o := Object(dst)
		o.Str("id", e.ID)
		o.Str("action_id", e.ActionID)
		o.Str("event_type", e.EventType)
		o.Raw("meta", e.Meta)
		o.Str("created_at", e.CreatedAt)
		o.Str("prev_hash", e.PrevHash)
		o.Str("record_hash", e.RecordHash)
		dst = o.Close()
	}
	return append(dst, ']')
}

// GateResponse is a decision about a call that makes neither an action nor a defer.
type GateResponse struct {
	Outcome        string `json:"outcome" doc:"EXECUTE, ABSTAIN or HALT."`
	ReasonCode     string `json:"reason_code"`
	Reason         string `json:"reason" yett:"null"`
	RequestHash    string `json:"request_hash"`
	PolicyVersion  string `json:"policy_version"`
	PolicyHash     string `json:"policy_hash"`
	ProfileID      string `json:"profile_id" yett:"null"`
	ProfileVersion string `json:"profile_version" yett:"null"`
	ProfileHash    string `json:"profile_hash" yett:"null"`
	RuntimeVersion string `json:"runtime_version"`
	ProvenanceID   string `json:"provenance_id"`
	DecisionID     string `json:"decision_id"`
	Repeat         bool   `json:"repeat,omitempty" doc:"true if the same call was decided before with the same Idempotency-Key. Run the call only if you never received the first answer."`
	Retry          *Retry `json:"retry,omitempty" doc:"Only if \"outcome\" is HALT: whether a second request can help."`
}

// AppendJSON appends the response.
func (r *GateResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("outcome", r.Outcome)
	o.Str("reason_code", r.ReasonCode)
	o.Null("reason", r.Reason)
	o.Str("request_hash", r.RequestHash)
	o.Str("policy_version", r.PolicyVersion)
	o.Str("policy_hash", r.PolicyHash)
	o.Null("profile_id", r.ProfileID)
	o.Null("profile_version", r.ProfileVersion)
	o.Null("profile_hash", r.ProfileHash)
	o.Str("runtime_version", r.RuntimeVersion)
	o.Str("provenance_id", r.ProvenanceID)
	o.Str("decision_id", r.DecisionID)
	o.True("repeat", r.Repeat)
	r.Retry.member(&o)
	return o.Close()
}

// RetryAfter is as of AuthorizeResponse.
func (r *GateResponse) RetryAfter() int { return r.Retry.wait() }

// RetryAfter is as of AuthorizeResponse.
func (a *Action) RetryAfter() int { return a.ReasonDetails.Retry.wait() }

// EvaluateRequest asks whether one call may run, in the words of the remote clients.
type EvaluateRequest struct {
	AgentID    string      `json:"agent_id" yett:"required,name" doc:"The agent that wants to act."`
	ToolID     string      `json:"tool_id" yett:"required,name" doc:"The tool."`
	ActionType string      `json:"action_type,omitempty" yett:"name" doc:"The client's name for this kind of action, such as \"tool_call\". It is a note, and changes nothing."`
	Operation  string      `json:"operation,omitempty" yett:"name" doc:"The tool's operation, such as \"refund\"."`
	SessionID  string      `json:"session_id,omitempty" yett:"name" doc:"The agent's own name for its session."`
	Args       exact.Value `json:"args,omitempty" doc:"The arguments, an object. Numbers stay exact."`
	Context    exact.Value `json:"context,omitempty" doc:"Other facts for rules, an object."`
	CallID     string      `json:"call_id,omitempty" yett:"name" doc:"It makes a retry safe: within 10 minutes, the same call of the same agent with the same call_id spends nothing a second time."`
	DeferToken string      `json:"defer_token,omitempty" yett:"name" doc:"The token of an approved deferred call. It redeems the approval."`
	Explain    bool        `json:"explain,omitempty" doc:"If true, the answer has the member \"checks\", with one row for each step of the chain."`
	DryRun     bool        `json:"dry_run,omitempty" doc:"If true, the request is a dry run: the gateway runs the chain and records the answer. The answer permits nothing, has no token, and spends nothing."`
}

// EventsRequest follows what happens to actions.
type EventsRequest struct {
	LastEventID string `json:"last_event_id,omitempty" yett:"query" doc:"The id of the last event that the client received. The stream continues after it. The header Last-Event-ID has the same meaning."`
}
