package wire

import (
	"encoding/json"

	"github.com/yett-dev/yett/sdk/exact"
)

// ApproveRequest answers a deferred call.
type ApproveRequest struct {
	DeferToken   string      `json:"defer_token" yett:"required,name" doc:"The deferred call."`
	Approved     *bool       `json:"approved,omitempty" doc:"true approves, false denies. The member is required, unless \"withdraw\" is true."`
	Reason       string      `json:"reason,omitempty" doc:"The gateway records this text and shows it to the agent that asked. At most 1024 bytes."`
	ModifiedArgs exact.Value `json:"modified_args,omitempty" doc:"Approve the call with these arguments instead. Earlier approvals become void."`
	Grant        exact.Value `json:"grant,omitempty" doc:"If present, the approval also makes a standing grant with these members: \"{ttl_seconds, max_uses, session_id?}\". The key then needs the scope \"grants\" too."`
	ApproverID   string      `json:"approver_id,omitempty" yett:"name" doc:"A note. The approver is the key that sends the request."`
	Digest       string      `json:"digest,omitempty" doc:"The digest that was shown with the call. The approval is then for the call with this digest, and for no other call. After an approver has changed the arguments, an approval must have a digest."`
	Withdraw     bool        `json:"withdraw,omitempty" doc:"true withdraws an approval that is not redeemed. The gateway then denies the call, and revokes the grant if one came with the approval."`
}

// ApproveGrant is the grant that an approval may ask for.
type ApproveGrant struct {
	TTLSeconds int    `json:"ttl_seconds" yett:"required" doc:"How long the grant is valid, 1 to 2592000 (30 days)."`
	MaxUses    int    `json:"max_uses,omitempty" doc:"How many calls the grant permits. 0 means no limit."`
	SessionID  string `json:"session_id,omitempty" yett:"name,filled" doc:"The grant permits only calls of this session."`
}

// ApproveResponse says where the deferred call stands now.
type ApproveResponse struct {
	OK                bool   `json:"ok"`
	Status            string `json:"status" doc:"\"pending\", \"approved\" or \"denied\"."`
	DeferToken        string `json:"defer_token"`
	Approvals         int    `json:"approvals"`
	ApprovalsRequired int    `json:"approvals_required"`
	GrantID           string `json:"grant_id,omitempty" doc:"The standing grant that the approval made."`
	GrantNote         string `json:"grant_note,omitempty" doc:"Why the gateway made no grant although the request had \"grant\", or which grant it revoked."`
}

// AppendJSON appends the response.
func (r *ApproveResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("ok", r.OK)
	o.Str("status", r.Status)
	o.Str("defer_token", r.DeferToken)
	o.Int("approvals", int64(r.Approvals))
	o.Int("approvals_required", int64(r.ApprovalsRequired))
	o.Opt("grant_id", r.GrantID)
	o.Opt("grant_note", r.GrantNote)
	return o.Close()
}

// DeferStatusRequest asks where a deferred call stands. The token may also come as ?token=.
type DeferStatusRequest struct {
	DeferToken  string `json:"defer_token,omitempty" yett:"name"`
	Token       string `json:"token,omitempty" yett:"name" doc:"Another name for defer_token."`
	WaitSeconds int    `json:"wait_seconds,omitempty" doc:"How many seconds to wait, 0 to 60, while the call is pending."`
}

// DeferStatusResponse says where a deferred call stands.
type DeferStatusResponse struct {
	Status            string          `json:"status" doc:"\"pending\", \"approved\", \"denied\", \"expired\" or \"consumed\"."`
	Token             string          `json:"token"`
	DeferToken        string          `json:"defer_token"`
	ModifiedArgs      json.RawMessage `json:"modified_args,omitempty" doc:"The changed arguments that were approved. Redeem the approval with exactly these arguments."`
	Effect            string          `json:"effect,omitempty" doc:"What a request with the token gets: PERMIT if the call is approved, DENY if it was denied, expired or consumed."`
	Reason            string          `json:"reason,omitempty"`
	ResolvedBy        string          `json:"resolved_by,omitempty"`
	ResolvedByName    string          `json:"resolved_by_name,omitempty" doc:"The name of the key whose id is resolved_by."`
	ExpiresAt         string          `json:"expires_at"`
	Approvals         int             `json:"approvals"`
	ApprovalsRequired int             `json:"approvals_required"`
}

// AppendJSON appends the response.
func (r *DeferStatusResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("status", r.Status)
	o.Str("token", r.Token)
	o.Str("defer_token", r.DeferToken)
	if r.ModifiedArgs != nil {
		o.Raw("modified_args", r.ModifiedArgs)
	}
	o.Opt("effect", r.Effect)
	o.Opt("reason", r.Reason)
	o.Opt("resolved_by", r.ResolvedBy)
	o.Opt("resolved_by_name", r.ResolvedByName)
	o.Str("expires_at", r.ExpiresAt)
	o.Int("approvals", int64(r.Approvals))
	o.Int("approvals_required", int64(r.ApprovalsRequired))
	return o.Close()
}

// PollDeferRequest asks on the socket where a deferred call stands.
type PollDeferRequest struct {
	DeferToken  string `json:"defer_token" yett:"required,name"`
	AgentID     string `json:"agent_id,omitempty" yett:"name" doc:"A note. The key decides which calls are visible."`
	WaitSeconds int    `json:"wait_seconds,omitempty" doc:"How many seconds to wait, 0 to 60, while the call is pending."`
}

// PollDeferResponse says where a deferred call stands; unknown for a token that never was or is not this key's to see.
type PollDeferResponse struct {
	DeferToken   string          `json:"defer_token"`
	Status       string          `json:"status" doc:"\"pending\", \"approved\", \"denied\", \"expired\", \"consumed\" or \"unknown\"."`
	ModifiedArgs json.RawMessage `json:"modified_args,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	ExpiresAt    string          `json:"expires_at,omitempty"`
	Approvals    int             `json:"approvals"`
	Required     int             `json:"approvals_required"`
}

// AppendJSON appends the response.
func (r *PollDeferResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("defer_token", r.DeferToken)
	o.Str("status", r.Status)
	if r.ModifiedArgs != nil {
		o.Raw("modified_args", r.ModifiedArgs)
	}
	o.Opt("reason", r.Reason)
	o.Opt("expires_at", r.ExpiresAt)
	o.Int("approvals", int64(r.Approvals))
	o.Int("approvals_required", int64(r.Required))
	return o.Close()
}

// ApprovalListRequest lists the pending deferred calls that the key may answer, soonest expiry first.
type ApprovalListRequest struct {
	AgentID string `json:"agent_id,omitempty" yett:"name,query" doc:"Only calls of this agent."`
	Limit   int    `json:"limit,omitempty" yett:"query" doc:"1 to 1000; the default is 100."`
	Cursor  string `json:"cursor,omitempty" yett:"name,query" doc:"next_cursor of the previous page."`
}

// ApprovalGetRequest asks for one pending call.
type ApprovalGetRequest struct {
	DeferToken string `json:"defer_token" yett:"name,query,needed" doc:"The deferred call."`
}

// Approval is one pending deferred call as approvers see it.
type Approval struct {
	DeferToken   string          `json:"defer_token"`
	Status       string          `json:"status"`
	KeyID        string          `json:"key_id" doc:"The id of the key that asked."`
	KeyName      string          `json:"key_name,omitempty" doc:"The name of the key whose id is key_id."`
	AgentID      string          `json:"agent_id"`
	SessionID    string          `json:"session_id,omitempty"`
	ToolID       string          `json:"tool_id"`
	RuleID       string          `json:"rule_id,omitempty"`
	ReasonCode   string          `json:"reason_code"`
	Reason       string          `json:"reason,omitempty"`
	Priority     string          `json:"priority,omitempty"`
	Call         json.RawMessage `json:"call" doc:"The canonical call that was hashed, with secrets masked."`
	Digest       string          `json:"digest,omitempty" doc:"It identifies the call with its current arguments. Send it with an approval. It is absent if members of the call are left out, and while the call is being changed."`
	Note         string          `json:"agent_note,omitempty" doc:"What the agent said about this call, in its own words, with secrets masked. Nothing checks whether it is correct. It comes from the request that began the wait, and never changes."`
	NoteWithheld *Withheld       `json:"agent_note_withheld,omitempty" doc:"Why the agent's note is not shown, if it had one that could not be masked."`
	Modified     bool            `json:"modified,omitempty" doc:"true if an approver has changed the arguments."`
	Omitted      []string        `json:"call_omitted,omitempty" doc:"The members of \"call\" that are left out because they are too long for a list. The operation approval_get returns them."`
	Bytes        int             `json:"call_bytes,omitempty" doc:"The length of the whole call in bytes, if members are left out."`
	CreatedAt    string          `json:"created_at"`
	ExpiresAt    string          `json:"expires_at"`
	Approvals    int             `json:"approvals"`
	Required     int             `json:"approvals_required"`
	Rules        []string        `json:"rules,omitempty" doc:"All rules that defer the current call. The names have the form that the member \"rules\" of a grant has. If a grant comes with the approval, the grant covers all of these rules."`
	Steps        []string        `json:"steps,omitempty" doc:"The step of each rule, in the same order as rules."`
	From         []string        `json:"approvals_from,omitempty" doc:"Only these keys may approve. \"key:NAME\" is the key of that name. \"role:approver\" and \"role:operator\" are all keys that were made with that role."`
}

// AppendJSON appends the approval.
func (a *Approval) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	a.Members(&o)
	return o.Close()
}

// Members appends the approval's members.
func (a *Approval) Members(w *Writer) {
	w.Str("defer_token", a.DeferToken)
	w.Str("status", a.Status)
	w.Str("key_id", a.KeyID)
	w.Opt("key_name", a.KeyName)
	w.Str("agent_id", a.AgentID)
	w.Opt("session_id", a.SessionID)
	w.Str("tool_id", a.ToolID)
	w.Opt("rule_id", a.RuleID)
	w.Str("reason_code", a.ReasonCode)
	w.Opt("reason", a.Reason)
	w.Opt("priority", a.Priority)
	w.Raw("call", a.Call)
	w.Opt("digest", a.Digest)
	w.Opt("agent_note", a.Note)
	if a.NoteWithheld != nil {
		w.Raw("agent_note_withheld", a.NoteWithheld.JSON())
	}
	w.True("modified", a.Modified)
	if len(a.Omitted) > 0 {
		w.Strs("call_omitted", a.Omitted)
	}
	if a.Bytes != 0 {
		w.Int("call_bytes", int64(a.Bytes))
	}
	w.Str("created_at", a.CreatedAt)
	w.Str("expires_at", a.ExpiresAt)
	w.Int("approvals", int64(a.Approvals))
	w.Int("approvals_required", int64(a.Required))
	if len(a.Rules) > 0 {
		w.Strs("rules", a.Rules)
	}
	if len(a.Steps) > 0 {
		w.Strs("steps", a.Steps)
	}
	if len(a.From) > 0 {
		w.Strs("approvals_from", a.From)
	}
}

// ApprovalListResponse is one page of the list.
type ApprovalListResponse struct {
	Approvals []Approval `json:"approvals"`
	Total     int        `json:"total" doc:"The number of calls on all pages."`
	Next      string     `json:"next_cursor,omitempty" doc:"Absent on the last page. A page can be shorter than the limit and still not be the last."`
}

// NextCursor is the cursor of the page that follows, "" if there is none.
func (r *ApprovalListResponse) NextCursor() string { return r.Next }

// AppendJSON appends the response.
func (r *ApprovalListResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.List("approvals", len(r.Approvals), func(i int, w *Writer) { r.Approvals[i].Members(w) })
	o.Int("total", int64(r.Total))
	o.Opt("next_cursor", r.Next)
	return o.Close()
}
