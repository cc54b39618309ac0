package authzen

import (
	"net/http"
	"strconv"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// The kinds of bodies.
const (
	kindJSON    = "application/json"
	kindProblem = "application/problem+json"
)

// answer sends an answer whole.
func (d *door) answer(w http.ResponseWriter, r *front.Request, status int, kind string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if id := r.Header.Get("X-Request-Id"); echoes(id) {
		h.Set("X-Request-Id", id) // the specification wants any text back; the records have one that is sane
	}
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		return // the client has gone
	}
	_ = http.NewResponseController(w).Flush() // in vain: the client has gone
}

// mostID is the longest identifier of a request that is sent back as it is, bytes.
const mostID = 256

// echoes says whether a client's identifier of a request is sent back as it is.
func echoes(id string) bool {
	if id == "" || len(id) > mostID || ops.HoldsKey(id) {
		return false
	}
	for _, c := range []byte(id) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// statusOf is the HTTP status of an error. The specification has one for every malformed request.
func statusOf(err *sdk.Error) int {
	st := wire.StatusOf(err.Code).HTTP
	if st == http.StatusUnprocessableEntity {
		return http.StatusBadRequest
	}
	return st
}

// messageOf is what a client is told of an error.
func messageOf(err *sdk.Error) string {
	if err.Msg == "" {
		return wire.StatusOf(err.Code).Title + "."
	}
	return err.Msg
}

// told is an error as a client may see it. What only operators may see goes to the log.
func (d *door) told(r *front.Request, err error) *sdk.Error {
	e := ops.Told(front.AsError(err))
	if statusOf(e) >= http.StatusInternalServerError && e.Code != sdk.CodeOverloaded {
		d.set.Log("authzen: request %s: %s", r.ID, ops.Keyless(err.Error()))
	}
	return e
}

// advise sets the headers that some errors have beside their status.
func advise(w http.ResponseWriter, status int) {
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
}

// refuse answers with an error and no decision: the specification wants a message string.
func (d *door) refuse(w http.ResponseWriter, r *front.Request, err *sdk.Error) {
	status := statusOf(err)
	advise(w, status)
	d.answer(w, r, status, kindJSON, exact.AppendString(nil, messageOf(err)))
}

// problem is refuse for the profile, which wants problem documents.
func (d *door) problem(w http.ResponseWriter, r *front.Request, err *sdk.Error) {
	status := statusOf(err)
	advise(w, status)
	d.answer(w, r, status, kindProblem, problemOf("https://yett.dev/problems/"+string(err.Code),
		wire.StatusOf(err.Code).Title, status, messageOf(err)))
}

func problemOf(kind, title string, status int, detail string) []byte {
	o := wire.Object(nil)
	o.Str("type", kind)
	o.Str("title", title)
	o.Int("status", int64(status))
	o.Str("detail", detail)
	return o.Close()
}

// fault is an error of the profile.
type fault struct {
	name   string
	status int
	title  string
}

// The errors of the profile.
var (
	notRequestable  = fault{"not_requestable", http.StatusBadRequest, "Access cannot be requested"}
	expiredDenial   = fault{"expired_denial", http.StatusGone, "The denial has expired"}
	invalidBinding  = fault{"invalid_denial_binding", http.StatusBadRequest, "The request does not belong to the denial"}
	duplicate       = fault{"duplicate_request", http.StatusConflict, "The Idempotency-Key was used for another request"}
	unknownTask     = fault{"unknown_task", http.StatusNotFound, "No such task"}
	taskExpired     = fault{"task_expired", http.StatusGone, "The task is over"}
	invalidForState = fault{"invalid_task_state", http.StatusConflict, "The task's state does not allow this"}
)

// fail answers with an error of the profile.
func (d *door) fail(w http.ResponseWriter, r *front.Request, f fault, detail string) {
	d.answer(w, r, f.status, kindProblem, problemOf("urn:openid:authzen:access-request:error:"+f.name, f.title, f.status,
		detail))
}
