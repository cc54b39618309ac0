package sdk

import "fmt"

// Code is a stable snake_case error code. Clients switch on it; the list only grows.
type Code string

// The registry of error codes. Their HTTP statuses are in sdk/wire/errors.go.
const (
	CodeInvalidJSON      Code = "invalid_json"         // not JSON, duplicate key, trailing data, bad UTF-8
	CodeBadRequest       Code = "bad_request"          // malformed HTTP or framing
	CodeInvalidField     Code = "invalid_field"        // well-formed, but a field's value is not allowed
	CodeMissingField     Code = "missing_field"        // a required field is absent
	CodeUnauthenticated  Code = "unauthenticated"      // no key, or none that we know
	CodeKeyRevoked       Code = "key_revoked"          // right secret, revoked key
	CodeKeyExpired       Code = "key_expired"          // right secret, expired key
	CodeMissingScope     Code = "missing_scope"        // the key lacks the scope named in the detail
	CodeAgentNotAllowed  Code = "agent_not_allowed"    // agent_id is outside the key's agents
	CodeSelfApproval     Code = "self_approval"        // the approver asked for it, or acts as the agent that did
	CodeNotFound         Code = "not_found"            // no such path
	CodeUnknownDefer     Code = "unknown_defer"        // no such defer, or not this key's to see
	CodeUnknownKey       Code = "unknown_key"          // no such key id
	CodeUnknownGrant     Code = "unknown_grant"        // no such grant, or not this key's to see
	CodeUnknownAction    Code = "unknown_action"       // no such action, or not this key's to see
	CodeUnknownKill      Code = "unknown_kill"         // nothing is killed under that name
	CodeUnknownOperation Code = "unknown_operation"    // the socket has no such operation
	CodeNoCommonVersion  Code = "no_common_version"    // hello: no protocol version both sides know
	CodeWrongToken       Code = "wrong_token"          // the approval token is not this action's
	CodeNotApprover      Code = "not_an_approver"      // the rule names who may approve, and the key is not among them
	CodeUndoRefused      Code = "undo_refused"         // a killed agent, or a key that acts as it, cannot undo the kill
	CodeKeyKilled        Code = "key_killed"           // a kill covers the key: it approves and grants nothing
	CodeModifiedDenied   Code = "modified_args_denied" // the rules deny the call with the modified arguments
	CodeInvalidPolicy    Code = "invalid_policy"       // a policy text that does not compile
	CodeActionExpired    Code = "action_expired"       // decided too long ago to be started
	// what takes something away is in effect in memory, but could not be written
	CodeNotDurable       Code = "in_effect_not_durable"
	CodeMethodNotAllowed Code = "method_not_allowed" //
	CodeConflict         Code = "conflict"           // the state does not allow it
	CodeCallChanged      Code = "call_changed"
	CodeAlreadyResolved  Code = "already_resolved" // the defer has an end already
	CodeNameTaken        Code = "name_taken"       // a live key has that name
	CodeDeferExpired     Code = "defer_expired"    //
	// scan_output: the piece does not begin where the one before it ended
	CodeStreamOffset      Code = "stream_offset"
	CodeStreamUnknown     Code = "stream_unknown"         // scan_output: no such stream is open (any more)
	CodeStreamEnded       Code = "stream_ended"           // scan_output: the stream is at its end
	CodeStreamBusy        Code = "stream_busy"            // scan_output: another piece of the stream is being scanned
	CodeTooLarge          Code = "too_large"              // a size limit, named in the detail
	CodeUnsupportedCoding Code = "unsupported_coding"     // Content-Encoding other than identity
	CodeIdempotencyReused Code = "idempotency_key_reused" // same key, other body
	CodeTooManyRequests   Code = "too_many_requests"      // a rate or count limit, named in the detail
	// a limit of the whole server, named in the detail; soon there is room again
	CodeOverloaded       Code = "overloaded"
	CodeAuditUnavailable Code = "audit_unavailable" // nothing can be recorded, so nothing is permitted
	CodeDraining         Code = "draining"          // the server is going down
	CodeTimeout          Code = "timeout"           // the whole request took longer than its limit
	CodeInternal         Code = "internal"          // says nothing more on purpose
)

// Error is the one error type that operations return to transports. Msg is shown to the caller; Err never is.
type Error struct {
	Code  Code
	Op    string            // what we were doing
	Msg   string            // one sentence for the caller
	Field string            // the field at fault, if one is
	Err   error             // the cause, for our own log
	More  map[string]string // extra members of the problem document
}

// Error joins what we were doing, the code, the message and the cause.
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Msg != "" {
		s += ": " + e.Msg
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errf makes an Error with a formatted message for the caller.
func Errf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// FieldErrf makes an Error about one field.
func FieldErrf(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Msg: fmt.Sprintf(format, args...)}
}
