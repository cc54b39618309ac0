package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// The kinds of errors, for errors.Is. What exactly was refused is in *Error.Code.
var (
	ErrInvalid         = errors.New("the request is not acceptable")           // 400, 405, 408, 413, 415, 422
	ErrUnauthenticated = errors.New("no valid API key")                        // 401
	ErrForbidden       = errors.New("the API key may not do this")             // 403, and a wrong approval token
	ErrNotFound        = errors.New("there is no such thing")                  // 404
	ErrConflict        = errors.New("the current state does not allow this")   // 409
	ErrExpired         = errors.New("it is expired")                           // 410
	ErrTooMany         = errors.New("too many requests")                       // 429
	ErrInternal        = errors.New("the server has failed")                   // 500 and what is not listed
	ErrUnavailable     = errors.New("the server cannot be reached or used")    // 502, 503, 504, and no connection
	ErrMalformed       = errors.New("the answer is not one of Yett's")         // never to be taken for a permission
	ErrNoTransport     = errors.New("the operation needs the other transport") // an HTTP URL or a socket is not configured
	ErrClosed          = errors.New("the client is closed")
)

// Error is a refusal: the server's problem document or error line, or what the client refused to send.
type Error struct {
	Status     int           // of HTTP; over the socket the status that the code has; 0 when the client itself refused
	Code       sdk.Code      // stable; "" when the answer named none
	Detail     string        // one sentence
	Field      string        // the field at fault, if one is
	RequestID  string        // what the server's log has it under; "" over the socket
	RetryAfter time.Duration // how long the server asks to wait; 0 when it said nothing
	More       map[string]string
}

// Error says code, detail and request id.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Code != "":
		b.WriteString(string(e.Code))
	case e.Status != 0:
		fmt.Fprintf(&b, "status %d", e.Status)
	}
	if e.Detail != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Detail)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Is reports whether the error is of one of the kinds above.
func (e *Error) Is(target error) bool { return e.kind() == target }

func (e *Error) kind() error {
	if e.Code == sdk.CodeWrongToken {
		return ErrForbidden // 401 in the contract, but the key is fine
	}
	status := e.Status
	if status == 0 {
		status = wire.StatusOf(e.Code).HTTP
	}
	switch status {
	case 400, 405, 408, 413, 415, 422:
		return ErrInvalid
	case 401:
		return ErrUnauthenticated
	case 403:
		return ErrForbidden
	case 404:
		return ErrNotFound
	case 409:
		return ErrConflict
	case 410:
		return ErrExpired
	case 429:
		return ErrTooMany
	case 502, 503, 504:
		return ErrUnavailable
	}
	return ErrInternal
}

// TransportError says that an operation needs the transport that is not configured. It is ErrNoTransport.
type TransportError struct {
	Op    string // such as approvals
	Needs string // the option that is missing: URL or Socket
}

// Error names the option and the variable that would mend it.
func (e *TransportError) Error() string {
	return fmt.Sprintf("%v: %s is served %s only; set Options.%s or YETT_%s", ErrNoTransport, e.Op, e.Where(), e.Needs,
		strings.ToUpper(e.Needs))
}

// Where says which transport serves the operation.
func (e *TransportError) Where() string {
	if e.Needs == "URL" {
		return "over HTTP"
	}
	return "on the socket"
}

// Is makes it ErrNoTransport.
func (e *TransportError) Is(target error) bool { return target == ErrNoTransport }

// lost is a request that got no answer. sent says that the server may have seen it.
type lost struct {
	err       error
	sent      bool
	permanent bool // trying again cannot help: a certificate that does not hold, a redirect
}

func (l *lost) Error() string        { return l.err.Error() }
func (l *lost) Unwrap() error        { return l.err }
func (l *lost) Is(target error) bool { return target == ErrUnavailable }

// lostErr sorts a failure of the network. What is no known hiccup is not tried again.
func lostErr(err error, sent bool) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		sent = false
	}
	for _, hiccup := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENOENT, syscall.EAGAIN,
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, hiccup) {
			return &lost{err: err, sent: sent}
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &lost{err: err, sent: sent}
	}
	return &lost{err: err, sent: sent, permanent: true}
}

// retryable reports whether trying the same again can help.
func retryable(err error) bool {
	var l *lost
	if errors.As(err, &l) {
		return !l.permanent
	}
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrMalformed) {
		return false
	}
	return busy(e.Status) && e.Code != sdk.CodeNotDurable // it is in effect already: only the disk is at fault
}

// unseen reports whether a failed request changed nothing for certain: it was never sent, or refused whole.
func unseen(err error) bool {
	var l *lost
	if errors.As(err, &l) {
		return !l.sent
	}
	var e *Error
	return errors.As(err, &e) && (e.Status == 429 || e.Code == sdk.CodeDraining)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// problemIn reads a problem document. ok is false when the text is none.
func problemIn(status int, body string) (e *Error, ok bool) {
	var doc exact.Doc
	if doc.Parse(body, answerLimits) != nil {
		return nil, false
	}
	root := doc.Root()
	code := root.Get("code").Str()
	if code == "" {
		return nil, false
	}
	e = &Error{Status: status, Code: sdk.Code(code), Detail: root.Get("detail").Str(), Field: root.Get("field").Str(),
		RequestID: root.Get("request_id").Str()}
	e.more(root, "type", "title", "detail", "code", "error", "request_id", "field")
	return e, true
}

// lineError reads a socket's error line.
func lineError(root exact.Value) *Error {
	e := &Error{Code: sdk.Code(root.Get("code").Str()), Detail: root.Get("error").Str(), Field: root.Get("field").Str(),
		RequestID: root.Get("request_id").Str()}
	if st, ok := wire.Statuses[e.Code]; ok {
		e.Status = st.HTTP
	}
	if n, ok := root.Get("retry_after_seconds").Decimal().Int64(); ok && n > 0 && n < 1<<31 {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	e.more(root, "ok", "id", "error", "code", "field", "request_id")
	return e
}

// more keeps the other members that are strings: who resolved a defer, the effect of an error of recording.
func (e *Error) more(root exact.Value, known ...string) {
	for name, v := range root.Members() {
		isKnown := false
		for _, k := range known {
			isKnown = isKnown || k == name
		}
		if isKnown || v.Kind() != exact.String {
			continue
		}
		if e.More == nil {
			e.More = map[string]string{}
		}
		e.More[name] = v.Str()
	}
}
