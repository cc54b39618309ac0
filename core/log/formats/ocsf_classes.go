package formats

import (
	"slices"

	"github.com/yett-dev/yett/sdk/wire"
)

func aBase(name string) func(*record) event {
	return func(*record) event {
		if name == "" {
			return event{class: baseEvent}
		}
		return event{class: baseEvent, activity: other, name: name}
	}
}

// aLog is about the audit log itself: what is removed from it, and who is sent it.
func aLog(activity int, name string) func(*record) event {
	return func(*record) event {
		return event{class: eventLog, activity: activity, name: name, fill: func(o *wire.Writer, r *record) {
			o.Str("log_name", "audit")
			o.Int("log_type_id", 2)
			o.Str("log_type", "Application")
			ocsfActor(o, r, "")
		}}
	}
}

func anAPI(name string) func(*record) event {
	return func(*record) event {
		return event{class: apiActivity, activity: other, name: name, controls: true, fill: fillAPI}
	}
}

// fillAPI is about one call of a tool.
func fillAPI(o *wire.Writer, r *record) {
	o.Object("api", func(o *wire.Writer) {
		o.Str("operation", orUnknown(r.tool()))
		if id := r.first("decision_id", "action_id", "scan_id"); id != "" {
			o.Object("request", func(o *wire.Writer) { o.Str("uid", id) })
		}
		o.Object("service", func(o *wire.Writer) { o.Str("name", "Yett") })
	})
	ocsfActor(o, r, r.text("agent_id"))
}

// aScan is a finding if the scan has found something, else a call like any other.
func aScan(r *record) event {
	if len(r.kinds) == 0 {
		return event{class: apiActivity, activity: other, name: "Scan", controls: true, fill: fillAPI}
	}
	return event{class: dataFinding, activity: 1, controls: true, fill: func(o *wire.Writer, r *record) {
		o.Object("finding_info", func(o *wire.Writer) {
			o.Str("uid", orUnknown(r.text("scan_id")))
			o.Str("title", "Sensitive data in a text")
			o.Int("created_time", r.at.UnixMilli())
			types := slices.Clone(r.kinds)
			slices.Sort(types)
			o.Strs("types", slices.Compact(types))
		})
		o.Object("data_security", func(o *wire.Writer) {
			o.Int("data_lifecycle_state_id", 2)
			o.Str("data_lifecycle_state", "Data in-Transit")
			o.Int("detection_system_id", 10)
			o.Str("detection_system", "Application-Level DLP")
		})
		if tool := r.text("tool_id"); tool != "" {
			o.List("resources", 1, func(_ int, o *wire.Writer) {
				o.Str("uid", tool)
				o.Str("type", "tool")
			})
		}
		ocsfActor(o, r, r.text("agent_id"))
	}}
}

// manage is about something that the gateway keeps and that has no class of its own.
func manage(activity int, typ, uid, name string) event {
	return event{class: management, activity: activity, fill: func(o *wire.Writer, r *record) {
		o.Object("entity", func(o *wire.Writer) {
			o.Int("type_id", other)
			o.Str("type", orUnknown(typ))
			o.Str("uid", orUnknown(uid))
			o.Opt("name", name)
		})
		o.Opt("comment", r.why())
		ocsfActor(o, r, "")
	}}
}

// anEntity is of the type that a member of the record names.
func anEntity(activity int, member string) func(*record) event {
	return func(r *record) event {
		return manage(activity, r.text(member), r.first("defer_token", "decision_id", "action_id", "grant_id", "key_id",
			"operator", "target"), r.text("tool_id"))
	}
}

func anApproval(activity int) func(*record) event {
	return func(r *record) event { return manage(activity, "approval", r.text("defer_token"), r.text("tool_id")) }
}

// aTarget is what a kill stops. A kill of everything has no target.
func aTarget(activity int) func(*record) event {
	return func(r *record) event { return manage(activity, r.text("scope"), r.first("target", "scope"), "") }
}

func aConfig(r *record) event { return manage(3, "configuration", r.text("policy_version"), "") }

// aTool is the definition of a tool, by its digest.
func aTool(r *record) event {
	activity := 3
	if state := r.text("state"); state == "pinned" || state == "new" {
		activity = 1
	}
	return manage(activity, "tool definition", r.text("digest"), r.text("tool_id"))
}

// aPrivilege is what a grant gives to an agent.
func aPrivilege(activity int, name string) func(*record) event {
	return func(*record) event {
		return event{class: userAccess, activity: activity, name: name, fill: func(o *wire.Writer, r *record) {
			o.Object("user", func(o *wire.Writer) {
				o.Str("uid", orUnknown(r.text("agent_id")))
				o.Int("type_id", 4)
				o.Str("type", "Service")
			})
			o.Strs("privileges", []string{orUnknown(r.text("tool_pattern"))})
			o.List("resources", 1, func(_ int, o *wire.Writer) {
				o.Str("uid", orUnknown(r.text("grant_id")))
				o.Str("type", "grant")
			})
			ocsfActor(o, r, "")
		}}
	}
}

// aKey is an account that programs use.
func aKey(activity int) func(*record) event {
	return func(*record) event {
		return event{class: accountChange, activity: activity, fill: func(o *wire.Writer, r *record) {
			o.Object("user", func(o *wire.Writer) {
				o.Str("uid", orUnknown(r.text("key_id")))
				o.Opt("name", r.text("name"))
				o.Int("type_id", 4)
				o.Str("type", "Service")
			})
			ocsfActor(o, r, "")
		}}
	}
}

func anOperator(*record) event {
	return event{class: accountChange, activity: 1, fill: func(o *wire.Writer, r *record) {
		operator(o, r)
		ocsfActor(o, r, "")
	}}
}

// operator is an account of a person at the console.
func operator(o *wire.Writer, r *record) {
	o.Object("user", func(o *wire.Writer) {
		o.Str("name", orUnknown(r.first("operator", "principal_id")))
		switch r.text("role") {
		case "admin":
			o.Int("type_id", 2)
			o.Str("type", "Admin")
		case "":
			o.Int("type_id", 0)
			o.Str("type", "Unknown")
		default:
			o.Int("type_id", 1)
			o.Str("type", "User")
		}
	})
}

func aLogon(activity int, service string) func(*record) event {
	return func(*record) event {
		return event{class: logon, activity: activity, fill: func(o *wire.Writer, r *record) {
			operator(o, r)
			o.Object("service", func(o *wire.Writer) { o.Str("name", service) })
			if session := r.text("session"); session != "" {
				o.Object("session", func(o *wire.Writer) { o.Str("uid", session) })
			}
			ocsfEndpoint(o, r)
		}}
	}
}

func aPlugin(activity int, name string) func(*record) event {
	return func(*record) event {
		return event{class: lifecycle, activity: activity, name: name, fill: func(o *wire.Writer, r *record) {
			o.Object("app", func(o *wire.Writer) { o.Str("name", orUnknown(r.text("plugin"))) })
		}}
	}
}
