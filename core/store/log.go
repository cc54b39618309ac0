package store

// RecordTypes are the types of records that there are.
var RecordTypes = []string{"action_result", "auth_failed", "clock_believed", "clock_in_doubt", "config_applied",
	"config_refused", "console_sign_in", "console_sign_in_refused", "console_sign_out", "decision", "defer_created",
	"defer_expired",
	"defer_resolved", "defer_signed", "grant_added", "grant_consumed", "grant_revoked", "key_created", "key_revoked",
	"kill", TypeTool, "operator_added", "plugin_resumed", "plugin_state", TypeRestored, "retention_trimmed", "scan",
	SubscriberDeadLetter,
	SubscriberDropped, SubscriberGap, SubscriberPaused, SubscriberReplay, SubscriberResumed, "tokens_revealed",
	"unanswered", "unkill",
	"voided", "withheld"}
