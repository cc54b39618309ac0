package host

import (
	"context"
	"errors"
)

// faultCodes names every fault and every cause that a *CallError may carry, so that one survives a trip over a pipe
// with errors.Is intact. A name is never reused for something else: both ends may be of different builds.
var faultCodes = []struct {
	code string
	err  error
}{
	{"closed", ErrClosed}, {"busy", ErrBusy}, {"no_export", ErrNoExport}, {"input", ErrInput}, {"trap", ErrTrap},
	{"exit", ErrExit}, {"interrupted", ErrInterrupted}, {"fuel", ErrFuel}, {"stack", ErrStack}, {"status", ErrStatus},
	{"buffer", ErrBuffer}, {"pointer", ErrPointer}, {"misplaced", ErrMisplaced}, {"kind", ErrKind}, {"span", ErrSpan},
	{"confidence", ErrConfidence}, {"severity", ErrSeverity}, {"action", ErrAction}, {"replacement", ErrReplacement},
	{"findings", ErrFindings}, {"decision", ErrDecision}, {"decide_twice", ErrDecideTwice}, {"no_decision", ErrNoDecision},
	{"put", ErrPut}, {"host_calls", ErrHostCalls},
	{"deadline", context.DeadlineExceeded}, {"canceled", context.Canceled},
}

// FaultCode is the stable name of the first of the Err… values, or of the context's errors, that errors.Is finds in
// err; "" if it finds none. For a *CallError pass its Fault and its Err one by one: the first hides the second.
func FaultCode(err error) string {
	for _, f := range faultCodes {
		if errors.Is(err, f.err) {
			return f.code
		}
	}
	return ""
}

// FaultOf is the error that FaultCode named; nil for a name that does not exist.
func FaultOf(code string) error {
	for _, f := range faultCodes {
		if f.code == code {
			return f.err
		}
	}
	return nil
}
