package formats

import (
	"strings"

	"github.com/yett-dev/yett/sdk/wire"
)

// OCSFVersion is the version of the Open Cybersecurity Schema Framework that events follow.
const OCSFVersion = "1.8.0"

// event is what a record is in OCSF.
type event struct {
	class    *class
	activity int
	name     string // of the activity, if it is other
	controls bool   // it says whether something was let through: the profile security_control
	fill     func(o *wire.Writer, r *record)
}

// class is a class of OCSF, with the captions of the activities that are used.
type class struct {
	uid, category      int
	name, categoryName string
	activities         map[int]string
}

// other is the activity for which a class has no name of its own.
const other = 99

var (
	baseEvent = &class{0, 0, "Base Event", "Uncategorized", nil}
	eventLog  = &class{1008, 1, "Event Log Activity", "System Activity",
		map[int]string{2: "Delete", 3: "Export", 9: "Enable", 10: "Disable"}}
	dataFinding   = &class{2006, 2, "Data Security Finding", "Findings", map[int]string{1: "Create"}}
	accountChange = &class{3001, 3, "Account Change", iam, map[int]string{1: "Create", 5: "Disable"}}
	logon         = &class{3002, 3, "Authentication", iam, map[int]string{1: "Logon", 2: "Logoff"}}
	management    = &class{3004, 3, "Entity Management", iam, map[int]string{1: "Create", 3: "Update", 11: "Deactivate",
		12: "Suspend", 13: "Resume"}}
	userAccess = &class{3005, 3, "User Access Management", iam,
		map[int]string{1: "Assign Privileges", 2: "Revoke Privileges"}}
	lifecycle   = &class{6002, 6, "Application Lifecycle", "Application Activity", map[int]string{6: "Enable"}}
	apiActivity = &class{6003, 6, "API Activity", "Application Activity", nil}
)

const iam = "Identity & Access Management"

var ocsfSeverities = [...]string{unrated: "Unknown", info: "Informational", low: "Low", medium: "Medium", high: "High",
	critical: "Critical"}

// ocsfMapped are the members that an event has under their own names too, so that it can be searched by them.
var ocsfMapped = []string{"principal_id", "principal_method", "surface", "peer", "request_id", "trace_id", "agent_id",
	"session_id", "tool_id", "operation", "call_id", "decision_id", "action_id", "scan_id", "effect", "outcome", "rule_id",
	"defer_token", "grant_id", "key_id", "approver_id", "scope", "target", "plugin", "subscriber", "policy_version"}

// ocsfLine is an event of OCSF, one line of JSON. raw_data is the record byte for byte.
func ocsfLine(dst []byte, r *record) []byte {
	k := r.kind()
	e := k.event(r)
	activity := e.class.activities[e.activity]
	switch {
	case e.activity == other:
		activity = "Other"
	case activity == "":
		activity = "Unknown"
	}
	o := wire.Object(dst)
	o.Int("class_uid", int64(e.class.uid))
	o.Str("class_name", e.class.name)
	o.Int("category_uid", int64(e.class.category))
	o.Str("category_name", e.class.categoryName)
	o.Int("activity_id", int64(e.activity))
	if e.name != "" {
		o.Str("activity_name", e.name)
	} else {
		o.Str("activity_name", activity)
	}
	o.Int("type_uid", int64(e.class.uid*100+e.activity))
	o.Str("type_name", e.class.name+": "+activity)
	o.Int("time", r.at.UnixMilli())
	o.Int("severity_id", int64(r.level()))
	o.Str("severity", ocsfSeverities[r.level()])
	ocsfStatus(&o, r, e)
	o.Str("message", k.title)
	if n := r.times(); n > 1 {
		o.Int("count", n)
	}
	if e.controls {
		ocsfControls(&o, r)
	}
	ocsfMetadata(&o, r, e)
	if e.fill != nil {
		e.fill(&o, r)
	}
	o.Object("unmapped", func(o *wire.Writer) {
		o.Str("store_id", r.store)
		o.Str("type", r.typ)
		for _, name := range ocsfMapped {
			o.Opt(name, r.text(name))
		}
	})
	o.Str("raw_data", string(r.raw))
	return o.Close()
}

func ocsfMetadata(o *wire.Writer, r *record, e event) {
	o.Object("metadata", func(o *wire.Writer) {
		o.Str("version", OCSFVersion)
		if e.controls {
			o.Strs("profiles", []string{"security_control"})
		}
		o.Object("product", func(o *wire.Writer) {
			o.Str("name", "Yett")
			o.Str("vendor_name", "Yett")
		})
		o.Str("uid", r.id())
		o.Str("original_event_uid", r.id())
		o.Int("sequence", int64(r.seq))
		o.Str("event_code", r.typ)
		o.Str("log_name", "audit")
		o.Opt("log_version", r.text("v"))
		o.Str("original_time", r.text("timestamp"))
		o.Opt("correlation_uid", r.first("decision_id", "action_id", "defer_token", "scan_id", "grant_id", "key_id"))
	})
}

// ocsfStatus says how it has ended. The status of a finding is that of the work on it: it is new.
func ocsfStatus(o *wire.Writer, r *record, e event) {
	id, name := 0, "Unknown"
	switch res := r.result(); {
	case e.class == dataFinding:
		id, name = 1, "New"
	case res == success:
		id, name = 1, "Success"
	case res == failure:
		id, name = 2, "Failure"
	case res == pending:
		id, name = other, "Pending"
	}
	o.Int("status_id", int64(id))
	o.Str("status", name)
	o.Opt("status_code", r.text("reason_code"))
	o.Opt("status_detail", r.why())
}

// ocsfControls says whether something was let through.
func ocsfControls(o *wire.Writer, r *record) {
	action, name, disposition, what := 0, "Unknown", 0, "Unknown"
	switch r.act() {
	case "PERMIT", "PASS":
		action, name, disposition, what = 1, "Allowed", 1, "Allowed"
	case "WARNED":
		action, name, disposition, what = 1, "Allowed", 15, "Detected"
	case "DENY", "DENIED":
		action, name, disposition, what = 2, "Denied", 2, "Blocked"
	case "REDACTED":
		action, name, disposition, what = 4, "Modified", 11, "Corrected"
	case "DEFER":
		action, name, disposition, what = other, "Deferred", 14, "Delayed"
	}
	o.Int("action_id", int64(action))
	o.Str("action", name)
	o.Int("disposition_id", int64(disposition))
	o.Str("disposition", what)
	if rule := r.text("rule_id"); rule != "" {
		o.Object("policy", func(o *wire.Writer) {
			o.Str("uid", rule)
			o.Str("type", "rule")
			o.Opt("version", r.text("policy_version"))
		})
	}
}

// ocsfActor is who has done it. An agent acts with a key: then the key is the user, and the agent the application.
func ocsfActor(o *wire.Writer, r *record, agent string) {
	o.Object("actor", func(o *wire.Writer) {
		id, name := 0, "Unknown"
		switch who := r.text("principal_id"); {
		case strings.HasPrefix(who, "console:"), strings.HasPrefix(who, "admin:"):
			id, name = 1, "User"
		case who == "system", who == "":
			id, name = 3, "System"
		case who != "unknown":
			id, name = 4, "Service" // the id of a key
		}
		o.Object("user", func(o *wire.Writer) {
			o.Str("uid", orUnknown(r.text("principal_id")))
			o.Int("type_id", int64(id))
			o.Str("type", name)
		})
		if session := r.text("session_id"); session != "" {
			o.Object("session", func(o *wire.Writer) { o.Str("uid", session) })
		}
		o.Opt("app_name", agent)
	})
	ocsfEndpoint(o, r)
}

// ocsfEndpoint is where it was asked from: an address, or the surface of the gateway for whoever has none.
func ocsfEndpoint(o *wire.Writer, r *record) {
	o.Object("src_endpoint", func(o *wire.Writer) {
		addr, port := r.peer()
		if !addr.IsValid() {
			o.Str("name", orUnknown(r.text("surface")))
			return
		}
		o.Str("ip", addr.WithZone("").String())
		if port != 0 {
			o.Int("port", int64(port))
		}
	})
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
