package wire

import "github.com/yett-dev/yett/sdk/exact"

// ApproveRequest answers a deferred call.
type ApproveRequest struct {
	DeferToken   string      `json:"defer_token" yett:"required,name" doc:"The deferred call."`
	Approved     *bool       `json:"approved" yett:"required" doc:"true signs it off, false ends it."`
	Reason       string      `json:"reason,omitempty" doc:"Recorded, and shown to the asking agent. At most 1024 bytes."`
	ModifiedArgs exact.Value `json:"modified_args,omitempty" doc:"Not supported by this version: refused."`
	Grant        exact.Value `json:"grant,omitempty" doc:"Not supported by this version: refused."`
}

// ApproveResponse says where the deferred call stands now.
type ApproveResponse struct {
	OK                bool   `json:"ok"`
	Status            string `json:"status" doc:"pending, approved or denied."`
	DeferToken        string `json:"defer_token"`
	Approvals         int    `json:"approvals"`
	ApprovalsRequired int    `json:"approvals_required"`
}

// AppendJSON appends the response.
func (r *ApproveResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("ok", r.OK)
	o.Str("status", r.Status)
	o.Str("defer_token", r.DeferToken)
	o.Int("approvals", int64(r.Approvals))
	o.Int("approvals_required", int64(r.ApprovalsRequired))
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
	Status            string `json:"status" doc:"pending, approved, denied, expired or consumed."`
	Token             string `json:"token"`
	DeferToken        string `json:"defer_token"`
	Effect            string `json:"effect,omitempty" doc:"What asking again with the token gives: PERMIT when approved, DENY when not."`
	Reason            string `json:"reason,omitempty"`
	ResolvedBy        string `json:"resolved_by,omitempty"`
	ExpiresAt         string `json:"expires_at"`
	Approvals         int    `json:"approvals"`
	ApprovalsRequired int    `json:"approvals_required"`
}

// AppendJSON appends the response.
func (r *DeferStatusResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("status", r.Status)
	o.Str("token", r.Token)
	o.Str("defer_token", r.DeferToken)
	o.Opt("effect", r.Effect)
	o.Opt("reason", r.Reason)
	o.Opt("resolved_by", r.ResolvedBy)
	o.Str("expires_at", r.ExpiresAt)
	o.Int("approvals", int64(r.Approvals))
	o.Int("approvals_required", int64(r.ApprovalsRequired))
	return o.Close()
}
