package wire

import "github.com/yett-dev/yett/sdk/exact"

// PolicyValidateRequest asks whether a list of rules compiles.
type PolicyValidateRequest struct {
	Policy exact.Value `json:"policy" yett:"required,any" doc:"A rules file, as its YAML text or as a JSON object with the same content."`
}

// PolicyValidateResponse says that it does; one that does not is a problem with line and column.
type PolicyValidateResponse struct {
	Valid      bool   `json:"valid"`
	PolicyHash string `json:"policy_hash" doc:"SHA-256 of the text of the rules that were sent, in hex. In other operations, policy_hash is the policy version."`
}

// AppendJSON appends the response.
func (r *PolicyValidateResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("valid", r.Valid)
	o.Str("policy_hash", r.PolicyHash)
	return o.Close()
}

// PolicyTestRequest asks what a list of rules would say about an action. Nothing is recorded, spent or changed.
type PolicyTestRequest struct {
	Policy exact.Value `json:"policy" yett:"required,any" doc:"A rules file, as its YAML text or as a JSON object with the same content."`
	Action exact.Value `json:"action" yett:"required" doc:"An action, in the form of the body of \"POST /v1/actions\"."`
}

// PolicyTestResponse is what the rules say.
type PolicyTestResponse struct {
	Valid       bool   `json:"valid"`
	Effect      string `json:"effect" doc:"PERMIT, DENY or DEFER."`
	Outcome     string `json:"outcome" doc:"EXECUTE, ABSTAIN or HALT."`
	Decision    string `json:"decision" doc:"\"allow\", \"deny\" or \"require_approval\"."`
	RiskLevel   string `json:"risk_level" doc:"\"low\", \"medium\" or \"high\"."`
	ReasonCode  string `json:"reason_code"`
	Reason      string `json:"reason" yett:"null"`
	RuleID      string `json:"rule_id" yett:"null"`
	RequestHash string `json:"request_hash"`
	PolicyHash  string `json:"policy_hash" doc:"SHA-256 of the text of the rules that were sent, in hex. In other operations, policy_hash is the policy version."`
}

// AppendJSON appends the response.
func (r *PolicyTestResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("valid", r.Valid)
	o.Str("effect", r.Effect)
	o.Str("outcome", r.Outcome)
	o.Str("decision", r.Decision)
	o.Str("risk_level", r.RiskLevel)
	o.Str("reason_code", r.ReasonCode)
	o.Null("reason", r.Reason)
	o.Null("rule_id", r.RuleID)
	o.Str("request_hash", r.RequestHash)
	o.Str("policy_hash", r.PolicyHash)
	return o.Close()
}

// PolicyInfoRequest asks which rules are in force.
type PolicyInfoRequest struct{}

// PolicyInfoResponse says which rules are in force.
type PolicyInfoResponse struct {
	PolicyVersion  string `json:"policy_version"`
	PolicyHash     string `json:"policy_hash"`
	RuntimeVersion string `json:"runtime_version"`
	ProfileID      string `json:"profile_id" yett:"null"`
	ProfileVersion string `json:"profile_version" yett:"null"`
	ProfileHash    string `json:"profile_hash" yett:"null"`
}

// AppendJSON appends the response.
func (r *PolicyInfoResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("policy_version", r.PolicyVersion)
	o.Str("policy_hash", r.PolicyHash)
	o.Str("runtime_version", r.RuntimeVersion)
	o.Null("profile_id", r.ProfileID)
	o.Null("profile_version", r.ProfileVersion)
	o.Null("profile_hash", r.ProfileHash)
	return o.Close()
}
