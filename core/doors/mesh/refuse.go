package mesh

import (
	"errors"
	"strings"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// The errors of messages.
var (
	errNoHTTP       = errors.New("the message is about no HTTP request")
	errTwoPhases    = errors.New("the message is about two things at once")
	errNoPhase      = errors.New("the message is about nothing that is known here")
	errManyServices = errors.New("the message names too many servers")
)

// malformed is about a message that cannot be read.
func malformed(err error) error {
	return &sdk.Error{Code: sdk.CodeBadRequest, Msg: "the proxy's message cannot be read: " + err.Error()}
}

// incomplete is about a message that did not come. Nobody may be there any more to be told.
func incomplete(err error) error {
	var told *sdk.Error
	if errors.As(err, &told) {
		return told
	}
	return &sdk.Error{Code: sdk.CodeBadRequest, Msg: "the proxy's message did not come whole", Err: err}
}

// ours says that an error is a failure of the gateway.
func ours(e *sdk.Error) bool {
	return wire.StatusOf(e.Code).HTTP >= 500 && e.Code != sdk.CodeOverloaded && e.Code != sdk.CodeDraining
}

// refused is the JSON that a client gets in the place of what it asked for.
type refused struct {
	effect, decision, scan, code, message, approval string
}

func (r *refused) json() []byte {
	o := wire.Object(nil)
	o.Opt("effect", r.effect)
	o.Opt("decision_id", r.decision)
	o.Opt("scan_id", r.scan)
	o.Str("reason_code", r.code)
	o.Opt("message", r.message)
	o.Opt("approval_url", r.approval)
	return o.Close()
}

// ofDecision tells of a decision that permits nothing. The link carries no token: whoever opens it signs in.
func ofDecision(d *ask.Decision, console string) *refused {
	r := &refused{effect: d.Effect, decision: d.DecisionID, code: d.ReasonCode, message: d.Message}
	switch {
	case d.Effect == sdk.Defer.String():
		if r.message == "" {
			r.message = "This call waits for a person. Once it is approved, repeat exactly this request."
		}
		if console != "" {
			r.approval = strings.TrimSuffix(console, "/") + "/approvals/" + d.DecisionID
		}
	case d.Effect == sdk.Permit.String(): // a repeat, or a dry run
		r.effect, r.code, r.message = sdk.Deny.String(), "REPEAT", "This call was permitted before, and runs only once."
	case r.message == "":
		r.message = "This call is denied by policy. Do not repeat it."
	}
	return r
}

// ofError tells of a failure. What is our own fault says nothing more.
func ofError(e *sdk.Error) *refused {
	msg := e.Msg
	if msg == "" {
		msg = wire.StatusOf(e.Code).Title + "."
	}
	return &refused{effect: sdk.Deny.String(), code: string(e.Code), message: msg}
}

// statusOf is what the client of a proxy gets for a failure. It has no key of ours, so nothing tells it to send one.
func statusOf(e *sdk.Error) int {
	switch st := wire.StatusOf(e.Code).HTTP; {
	case st == 400, st == 413, st == 415, st == 429, st >= 500:
		return st
	}
	return 403
}
