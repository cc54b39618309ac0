package main

import (
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/yett-dev/yett/sdk/exact"
)

const (
	info   = logspb.SeverityNumber_SEVERITY_NUMBER_INFO
	notice = logspb.SeverityNumber_SEVERITY_NUMBER_INFO2
	warn   = logspb.SeverityNumber_SEVERITY_NUMBER_WARN
	failed = logspb.SeverityNumber_SEVERITY_NUMBER_ERROR
)

var severityText = map[logspb.SeverityNumber]string{info: "INFO", notice: "INFO2", warn: "WARN", failed: "ERROR"}

// severities are those of record types that have one whatever they say. A type that is not here, and not in severity,
// is INFO.
var severities = map[string]logspb.SeverityNumber{
	"defer_created": notice, "defer_expired": notice, "withheld": notice,
	"key_revoked": notice, "grant_revoked": notice, "operator_added": notice, "unkill": notice,
	"kill": warn, "auth_failed": warn, "console_sign_in_refused": warn, "config_refused": warn, "reload_refused": warn,
	"unanswered": failed, "clock_in_doubt": failed, "voided": failed, "gap": failed, "subscriber_gap": failed,
	"subscriber_paused": failed, "subscriber_dead_letter": failed, "restored": failed,
}

// severity is the table of README.md. For decisions and scans it goes by what was decided.
func severity(typ string, root exact.Value) logspb.SeverityNumber {
	if n, ok := severities[typ]; ok {
		return n
	}
	switch root.Get("effect").Str() {
	case "DENY":
		return warn
	case "DEFER":
		return notice
	}
	switch root.Get("outcome").Str() {
	case "DENIED":
		return warn
	case "WARNED", "REDACTED":
		return notice
	}
	if typ == "mcp_tool" {
		switch root.Get("state").Str() {
		case "changed":
			return warn
		case "new", "accepted":
			return notice
		}
	}
	switch root.Get("to").Str() { // of a plugin_state
	case "quarantined":
		return failed
	case "backoff":
		return warn
	}
	return info
}
