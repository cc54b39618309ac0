package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

// event is one change of a deferred call. The token of the call is not read: it is the asking key's secret.
type event struct {
	Seq       uint64          `json:"seq"`
	Type      string          `json:"type"`
	ID        string          `json:"decision_id"` // names the deferred call in links and messages
	Status    string          `json:"status"`
	At        time.Time       `json:"timestamp"`
	Agent     string          `json:"agent_id"`
	Session   string          `json:"session_id"`
	Tool      string          `json:"tool_id"`
	AskedBy   string          `json:"asked_by"`
	Rule      string          `json:"rule_id"`
	Reason    string          `json:"reason"`
	Priority  string          `json:"priority"`
	Approver  string          `json:"approver_id"`
	Approvals int             `json:"approvals"`
	Required  int             `json:"approvals_required"`
	Expires   time.Time       `json:"expires_at"`
	Args      json.RawMessage `json:"-"` // of the decision's record
}

const (
	typeCreated  = "defer_created"
	typeResolved = "defer_resolved"
	typeExpired  = "defer_expired"
	typeDecision = "decision"
)

func (e *event) opens() bool { return e.Type == typeCreated }

// events are the changes of deferred calls in a batch, in order. With args, the arguments of a call are taken from the
// record of its decision, which follows in the same write and so nearly always in the same batch. What stands before
// the record of a RecordError is given all the same.
func events(b *plugin.Batch, args bool) (out []*event, bad *plugin.RecordError) {
	byID := map[string]*event{}
	for i := range b.Records {
		r := &b.Records[i]
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(r.JSON, &head); err != nil {
			return out, &plugin.RecordError{Seq: r.Seq, Err: errors.New("the record is no JSON object with a type")}
		}
		switch head.Type {
		case typeCreated, typeResolved, typeExpired:
			e, err := eventOf(r)
			if err != nil {
				return out, &plugin.RecordError{Seq: r.Seq, Err: err}
			}
			out = append(out, e)
			if e.opens() {
				byID[e.ID] = e
			}
		case typeDecision:
			var d struct {
				ID   string          `json:"decision_id"`
				Args json.RawMessage `json:"args"`
			}
			if args && json.Unmarshal(r.JSON, &d) == nil && byID[d.ID] != nil {
				byID[d.ID].Args = d.Args
			}
		}
	}
	return out, nil
}

func eventOf(r *plugin.Record) (*event, error) {
	var e event
	if err := json.Unmarshal(r.JSON, &e); err != nil {
		return nil, fmt.Errorf("the record cannot be read: %w", err)
	}
	e.Seq = r.Seq
	switch {
	case !signedhttp.Name(e.ID):
		return nil, errors.New("decision_id: is missing, or cannot be part of a link")
	case e.Expires.IsZero():
		return nil, errors.New("expires_at: is missing")
	}
	return &e, nil
}

// word says how the call stands, in one word.
func (e *event) word() string {
	switch {
	case e.opens():
		return "pending"
	case e.Type == typeExpired:
		return "expired"
	case e.Status == "approved":
		return "approved"
	}
	return "denied" // whatever it says: nobody is told of an approval that is not one
}

// title is the first line of a message about one call, without the names, which are not ours to format.
func (e *event) title() string {
	switch e.word() {
	case "pending":
		return "Approval needed"
	case "approved":
		return "Approved"
	case "expired":
		return "Expired, not executed"
	}
	return "Denied"
}

type field struct{ name, value string }

// fields are what a message says about a call. The values are from outside, made visible and cut, and not escaped.
func (e *event) fields() []field {
	out := []field{{"Tool", visible(e.Tool, maxName)}, {"Agent", visible(e.Agent, maxName)}}
	add := func(name, value string) {
		if value != "" {
			out = append(out, field{name, value})
		}
	}
	add("Session", visible(e.Session, maxName))
	add("Asked by key", visible(e.AskedBy, maxName))
	add("Rule", visible(e.Rule, maxName))
	add("Reason", visible(e.Reason, maxReason))
	add("Priority", visible(e.Priority, maxName))
	if len(e.Args) > 0 {
		add("Arguments", visible(string(e.Args), maxArgs))
	}
	if !e.opens() {
		add("By", visible(e.Approver, maxName))
		return out
	}
	if e.Required > 1 {
		add("Approvals", fmt.Sprintf("%d of %d", e.Approvals, e.Required))
	}
	add("Expires", e.Expires.UTC().Format("2006-01-02 15:04:05 UTC"))
	return out
}
