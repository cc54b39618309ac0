package sdk

// Reason codes of decisions and scans. They are part of the wire; a rule's or a plugin's own code passes unchanged, but
// for a plugin's that says that a person approved: see SaysApproved.
const (
	ReasonRulePermit       = "RULE_PERMIT"
	ReasonRuleDeny         = "RULE_DENY"
	ReasonRuleDefer        = "RULE_DEFER"
	ReasonUnmatchedPermit  = "UNMATCHED_PERMIT"
	ReasonUnmatchedDeny    = "UNMATCHED_DENY"
	ReasonUnmatchedDefer   = "UNMATCHED_DEFER"
	ReasonKillSwitch       = "KILL_SWITCH_ACTIVE"
	ReasonRateExceeded     = "RATE_EXCEEDED"
	ReasonBudgetSession    = "BUDGET_SESSION_EXCEEDED"
	ReasonBudgetDaily      = "BUDGET_DAILY_EXCEEDED"
	ReasonLoopDetected     = "LOOP_DETECTED"
	ReasonSchemaInvalid    = "SCHEMA_INVALID"
	ReasonStandingConsumed = "STANDING_APPROVAL_CONSUMED"
	ReasonApprovalConsumed = "APPROVAL_CONSUMED"
	ReasonApprovalMismatch = "APPROVAL_MISMATCH"
	ReasonApprovalGranted  = "APPROVAL_GRANTED"
	ReasonApprovalDenied   = "APPROVAL_DENIED"
	ReasonApprovalTimeout  = "APPROVAL_TIMEOUT"
	ReasonCallIDConflict   = "CALL_ID_CONFLICT"
	ReasonStepTimeout      = "STEP_TIMEOUT"
	ReasonStepError        = "STEP_ERROR"
	ReasonStepUnavailable  = "STEP_UNAVAILABLE"
	ReasonAuditUnavailable = "AUDIT_UNAVAILABLE"
	ReasonDraining         = "DRAINING"
	ReasonScanOK           = "SCAN_OK"
	ReasonScanUnavailable  = "SCAN_UNAVAILABLE"
	ReasonOutputSize       = "OUTPUT_SIZE_EXCEEDED"
	ReasonOutputFinding    = "OUTPUT_FINDING" // a finding whose kind has no field name of its own
)

// SaysApproved reports whether a reason code says that a person approved. Only the gateway knows that: a plugin's or
// module's verdict with such a code is invalid.
func SaysApproved(code string) bool {
	return code == ReasonApprovalConsumed || code == ReasonStandingConsumed || code == ReasonApprovalGranted
}
