package wire

import (
	"encoding/json"

	"github.com/yett-dev/yett/sdk/exact"
)

// ApproveRequest answers a deferred call.
type ApproveRequest struct {
	DeferToken   string      `json:"defer_token" yett:"required,name" doc:"The deferred call."`
	Approved     *bool       `json:"approved,omitempty" doc:"true signs it off, false ends it. Required, unless withdraw is true."`
	Reason       string      `json:"reason,omitempty" doc:"Recorded, and shown to the asking agent. At most 1024 bytes."`
	ModifiedArgs exact.Value `json:"modified_args,omitempty" doc:"Approve the call with these arguments instead; earlier sign-offs are void."`
	Grant        exact.Value `json:"grant,omitempty" doc:"Approve and stand: {ttl_seconds, max_uses, session_id?}. Also needs scope grants."`
	ApproverID   string      `json:"approver_id,omitempty" yett:"name" doc:"A note; the approver is the key."`
	Digest       string      `json:"digest,omitempty" doc:"The digest that the call was shown with. An approval must carry it once the arguments were changed; another call than this is not approved."`
	Withdraw     bool        `json:"withdraw,omitempty" doc:"true takes an approval back that is not redeemed: the call is denied, and a grant that came with the approval is revoked."`
}

// ApproveGrant is the grant that an approval may ask for.
type ApproveGrant struct {
	TTLSeconds int    `json:"ttl_seconds" yett:"required" doc:"How long it lasts, 1 to 2592000 (30 days)."`
	MaxUses    int    `json:"max_uses,omitempty" doc:"How many calls it permits; 0 is no limit."`
	SessionID  string `json:"session_id,omitempty" yett:"name" doc:"Only calls of this session."`
}

// ApproveResponse says where the deferred call stands now.
type ApproveResponse struct {
	OK                bool   `json:"ok"`
	Status            string `json:"status" doc:"pending, approved or denied."`
	DeferToken        string `json:"defer_token"`
	Approvals         int    `json:"approvals"`
	ApprovalsRequired int    `json:"approvals_required"`
	GrantID           string `json:"grant_id,omitempty" doc:"The standing grant that the approval made."`
	GrantNote         string `json:"grant_note,omitempty" doc:"Why no grant was made although one was asked for, or which one was revoked."`
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
	Token       string `json:"token,omitempty" yett:"name" doc:"The same as defer_token."`
	WaitSeconds int    `json:"wait_seconds,omitempty" doc:"Wait up to so long (0 to 60) for the end of pending."`
}

// DeferStatusResponse says where a deferred call stands.
type DeferStatusResponse struct {
	Status            string          `json:"status" doc:"pending, approved, denied, expired or consumed."`
	Token             string          `json:"token"`
	DeferToken        string          `json:"defer_token"`
	ModifiedArgs      json.RawMessage `json:"modified_args,omitempty" doc:"The arguments that were approved instead of those asked for: redeem with exactly these."`
	Effect            string          `json:"effect,omitempty" doc:"What asking again with the token gives: PERMIT when approved, DENY when not."`
	Reason            string          `json:"reason,omitempty"`
	ResolvedBy        string          `json:"resolved_by,omitempty"`
	ResolvedByName    string          `json:"resolved_by_name,omitempty" doc:"The name of the key that resolved_by is the id of."`
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
	AgentID     string `json:"agent_id,omitempty" yett:"name" doc:"A note; what may be seen is the key's."`
	WaitSeconds int    `json:"wait_seconds,omitempty" doc:"Wait up to so long (0 to 60) for the end of pending."`
}

// PollDeferResponse says where a deferred call stands; unknown for a token that never was or is not this key's to see.
type PollDeferResponse struct {
	DeferToken   string          `json:"defer_token"`
	Status       string          `json:"status" doc:"pending, approved, denied, expired, consumed or unknown."`
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
	Limit   int    `json:"limit,omitempty" yett:"query" doc:"1 to 1000; 100 if not given."`
	Cursor  string `json:"cursor,omitempty" yett:"name,query" doc:"next_cursor of the page before."`
}

// ApprovalGetRequest asks for one pending call.
type ApprovalGetRequest struct {
	DeferToken string `json:"defer_token" yett:"name,query" doc:"Required."`
}

// Approval is one pending deferred call as approvers see it.
type Approval struct {
	DeferToken string          `json:"defer_token"`
	Status     string          `json:"status"`
	KeyID      string          `json:"key_id" doc:"The id of the key that asks."`
	KeyName    string          `json:"key_name,omitempty" doc:"Its name."`
	AgentID    string          `json:"agent_id"`
	SessionID  string          `json:"session_id,omitempty"`
	ToolID     string          `json:"tool_id"`
	RuleID     string          `json:"rule_id,omitempty"`
	ReasonCode string          `json:"reason_code"`
	Reason     string          `json:"reason,omitempty"`
	Priority   string          `json:"priority,omitempty"`
	Call       json.RawMessage `json:"call" doc:"The canonical call that was hashed, secrets masked."`
	Digest     string          `json:"digest,omitempty" doc:"Names the call as it stands: send it with an approval. Absent where members of the call are left out, and in the moment in which it is being changed."`
	Modified   bool            `json:"modified,omitempty" doc:"An approver has put other arguments in place of those that were asked for."`
	Omitted    []string        `json:"call_omitted,omitempty" doc:"Members of call that are too long for a list. approval_get has them."`
	Bytes      int             `json:"call_bytes,omitempty" doc:"How long the whole call is, where members are left out."`
	CreatedAt  string          `json:"created_at"`
	ExpiresAt  string          `json:"expires_at"`
	Approvals  int             `json:"approvals"`
	Required   int             `json:"approvals_required"`
	Rules      []string        `json:"rules,omitempty" doc:"All rules that defer the call as it is now, named as in a grant that comes with the approval: it would stand against all of them."`
	Steps      []string        `json:"steps,omitempty" doc:"The step of each rule, in the same order."`
	From       []string        `json:"approvals_from,omitempty" doc:"Only these may approve: key:<name> or role:<preset>."`
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
	Total     int        `json:"total" doc:"How many there are, on all pages."`
	Next      string     `json:"next_cursor,omitempty" doc:"Absent on the last page. A page may be shorter than the limit and not be the last."`
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
