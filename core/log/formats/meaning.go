package formats

// level is how much a record matters.
type level int

const (
	unrated level = iota
	info
	low
	medium
	high
	critical
)

// levelOf has the severities of findings.
var levelOf = map[string]level{"low": low, "medium": medium, "high": high, "critical": critical}

// result is how what a record tells of has ended.
type result int

const (
	unstated result = iota
	success
	failure
	pending
)

// kind is what a type of record means.
type kind struct {
	title  string // what it tells of, for people
	family string
	level  level
	result result
	event  func(r *record) event // what it is in OCSF
}

// kinds has every type of record that core/store writes.
var kinds = map[string]kind{
	"decision":        {"Call decided", "decision", info, unstated, anAPI("Authorize")},
	"withheld":        {"Permit withheld because a kill overtook it", "decision", low, failure, anAPI("Withhold")},
	"tokens_revealed": {"Values of tokens revealed", "scan", medium, success, anAPI("Reveal")},
	"voided":          {"Change taken back that was answered with a denial", "decision", high, success, anEntity(11, "what")},
	"unanswered":      {"Records whose requests were denied", "decision", high, failure, aLog(other, "Mark unanswered")},
	"action_result":   {"Action ended", "action", info, unstated, anAPI("Report result")},
	"scan":            {"Text scanned", "scan", info, unstated, aScan},

	"defer_created":  {"Approval asked for", "approval", low, pending, anApproval(1)},
	"defer_signed":   {"Approval signed", "approval", info, success, anApproval(3)},
	"defer_resolved": {"Approval given or denied", "approval", info, unstated, anApproval(3)},
	"defer_expired":  {"Approval expired", "approval", low, failure, anApproval(11)},

	"grant_added":    {"Grant added", "grant", info, success, aPrivilege(1, "")},
	"grant_consumed": {"Grant used", "grant", info, success, aPrivilege(other, "Use privileges")},
	"grant_revoked":  {"Grant revoked", "grant", low, success, aPrivilege(2, "")},

	"key_created": {"API key created", "key", info, success, aKey(1)},
	"key_revoked": {"API key revoked", "key", low, success, aKey(5)},

	"kill":   {"Kill switch set", "kill", high, success, aTarget(12)},
	"unkill": {"Kill switch taken back", "kill", medium, success, aTarget(13)},

	"operator_added":          {"Console operator added", "sign-in", low, success, anOperator},
	"console_sign_in":         {"Console sign-in", "sign-in", info, success, aLogon(1, "Yett console")},
	"console_sign_in_refused": {"Console sign-in refused", "sign-in", medium, failure, aLogon(1, "Yett console")},
	"console_sign_out":        {"Console sign-out", "sign-in", info, success, aLogon(2, "Yett console")},
	"auth_failed":             {"API key refused", "sign-in", medium, failure, aLogon(1, "Yett API")},

	"config_applied": {"Configuration applied", "configuration", info, success, aConfig},
	"config_refused": {"Configuration refused", "configuration", medium, failure, aConfig},

	"plugin_state":   {"Plugin changed state", "plugin", info, unstated, aPlugin(other, "Change state")},
	"plugin_resumed": {"Plugin resumed", "plugin", low, success, aPlugin(6, "")},

	"mcp_tool": {"Definition of an MCP tool seen or accepted", "tool", info, success, aTool},

	"subscriber_gap":         {"Subscriber missed records", "delivery", high, failure, aLog(other, "Gap")},
	"subscriber_dead_letter": {"Subscriber refused a record", "delivery", high, failure, aLog(other, "Dead letter")},
	"subscriber_paused":      {"Subscriber paused", "delivery", high, failure, aLog(10, "")},
	"subscriber_resumed":     {"Subscriber resumed", "delivery", info, success, aLog(9, "")},
	"subscriber_replay":      {"Subscriber is sent records again", "delivery", low, success, aLog(3, "")},
	"subscriber_dropped":     {"Subscriber forgotten", "delivery", low, success, aLog(other, "Forget")},
	"restored":               {"Log goes on behind a backup", "retention", high, success, aLog(other, "Restore")},
	"retention_trimmed":      {"Oldest records removed", "retention", low, success, aLog(2, "")},

	"clock_in_doubt": {"Clock in doubt", "clock", high, failure, aBase("Doubt")},
	"clock_believed": {"Clock believed again", "clock", info, success, aBase("Believe")},
}

// unknownKind is for types that this version does not know.
var unknownKind = kind{"Record of an unknown type", "unknown", unrated, unstated, aBase("")}

func (r *record) kind() kind {
	if k, ok := kinds[r.typ]; ok {
		return k
	}
	return unknownKind
}

// act is what was decided or done.
func (r *record) act() string {
	if effect := r.text("effect"); effect != "" {
		return effect
	}
	return r.outcome()
}

// outcome is what has come out, in the record's own word.
func (r *record) outcome() string {
	switch r.typ {
	case "plugin_state":
		return r.text("to")
	case "mcp_tool":
		return r.text("state")
	case "action_result":
		return r.first("outcome", "action_event")
	}
	return r.first("outcome", "status")
}

// result says how it has ended, as far as the record tells.
func (r *record) result() result {
	switch r.typ {
	case "decision":
		switch r.text("effect") {
		case "PERMIT":
			return success
		case "DEFER":
			return pending
		}
		return failure
	case "scan":
		if r.text("outcome") == "DENIED" {
			return failure
		}
		return success
	case "action_result":
		return resultOf(r.text("success") == "true")
	case "defer_resolved":
		return resultOf(r.text("approved") == "true")
	case "mcp_tool":
		if state := r.text("state"); state == "new" || state == "changed" {
			return pending
		}
		return success
	case "plugin_state":
		return resultOf(r.text("to") != "quarantined" && r.text("to") != "backoff")
	}
	return r.kind().result
}

func resultOf(good bool) result {
	if good {
		return success
	}
	return failure
}

// level says how much it matters.
func (r *record) level() level {
	switch {
	case r.typ == "scan":
		switch r.text("outcome") {
		case "DENIED":
			return max(medium, r.worst)
		case "PASS":
			return max(info, r.worst)
		}
		return max(low, r.worst)
	case r.typ == "decision" && r.text("dry_run") == "true":
		return info // nobody wanted to do it
	case r.typ == "decision" && r.result() == failure, r.typ == "plugin_state" && r.text("to") == "backoff":
		return medium
	case r.typ == "decision" && r.result() == pending, (r.typ == "action_result" || r.typ == "defer_resolved") &&
		r.result() == failure:
		return low
	case r.typ == "plugin_state" && r.text("to") == "quarantined":
		return high
	case r.typ == "mcp_tool" && r.text("state") == "changed":
		return medium
	case r.typ == "mcp_tool" && r.result() == pending, r.typ == "mcp_tool" && r.text("state") == "accepted":
		return low
	}
	return r.kind().level
}
