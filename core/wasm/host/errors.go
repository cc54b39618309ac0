package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/core/wasm/check"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// What can be wrong with a call. Each is matched with errors.Is on what Scan, Check and Load return.
var (
	ErrClosed   = errors.New("module is closed")
	ErrBusy     = errors.New("no free instance")
	ErrNoExport = errors.New("module does not export it")
	ErrInput    = errors.New("input cannot be handed over")

	ErrTrap        = errors.New("guest trapped")
	ErrExit        = errors.New("guest called proc_exit")
	ErrInterrupted = errors.New("guest was interrupted")    // by the deadline or the caller: depends on the machine's load
	ErrFuel        = errors.New("guest used up its budget") // of instructions: the same on every machine
	ErrStack       = errors.New("guest calls too deep")
	ErrStatus      = errors.New("guest returned an error")
	ErrBuffer      = errors.New("guest gave no usable buffer")

	ErrPointer     = errors.New("pointer outside the guest's memory")
	ErrMisplaced   = errors.New("host function called where it has no meaning")
	ErrKind        = errors.New("undeclared kind")
	ErrSpan        = errors.New("span is empty, too long or outside the window")
	ErrConfidence  = errors.New("confidence outside 0…1")
	ErrSeverity    = errors.New("unknown severity")
	ErrAction      = errors.New("unknown action")
	ErrReplacement = errors.New("bad replacement")
	ErrFindings    = errors.New("too many findings")
	ErrDecision    = errors.New("bad decision")
	ErrDecideTwice = errors.New("second decision")
	ErrNoDecision  = errors.New("no decision")
	ErrPut         = errors.New("bad put")
	ErrHostCalls   = errors.New("too many host calls")
)

// CallError is a call that failed. errors.Is finds Fault, and the context's error when the call was interrupted.
type CallError struct {
	Module string
	Export string // the exported function that ran; "" before one did
	Fault  error  // one of the Err… above
	Detail string // one clause, printable; of the guest it quotes names alone
	Err    error  // the cause, if there is one beside Fault
	// Wanted is what a check that failed had decided or tried to: sdk.Deny, sdk.Defer, or nothing (sdk.Abstain).
	Wanted sdk.Effect
}

func (e *CallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "module %q", e.Module)
	if e.Export != "" {
		b.WriteString(", " + e.Export)
	}
	b.WriteString(": " + e.Fault.Error())
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the fault and the cause.
func (e *CallError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Fault}
	}
	return []error{e.Fault, e.Err}
}

// StatusError is a non-zero status of an export, with the text the author put for it. errors.Is finds ErrStatus.
type StatusError struct {
	Status uint32 // abi.Status…; from abi.AuthorStatus on the author's own
	Text   string // as chain.Heard gives it: not masked yet; "" if the author put none
}

func (e *StatusError) Error() string {
	name := "status " + fmt.Sprint(e.Status)
	switch e.Status {
	case 0:
		name = "an error text with status 0"
	case 1:
		name += " (bad config)"
	case 2:
		name += " (input unsupported)"
	case 3:
		name += " (internal)"
	}
	if e.Text == "" {
		return name
	}
	return name + ": " + e.Text
}

// ConfigError is a refusal of the operator's settings by what the module declares, before the module saw them.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "config: " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// SchemaFault is an error of Options.CheckConfig about the schema itself: no settings can mend it.
type SchemaFault interface {
	error
	SchemaPlace() string // where in the schema
}

// schemaFault gives the fault of a schema that an error is about, nil if it is about settings.
func schemaFault(err error) error {
	var fault SchemaFault
	if errors.As(err, &fault) {
		return fault
	}
	return nil
}

// unfit makes what CheckConfig says one of our errors.
func unfit(err error) error {
	if fault := schemaFault(err); fault != nil {
		return fault
	}
	return &ConfigError{err}
}

// IsConfig says whether a module was not loaded because of its settings: what it declares, or the module itself,
// refused them.
func IsConfig(err error) bool {
	var declared *ConfigError
	var status *StatusError
	return errors.As(err, &declared) || errors.As(err, &status) && status.Status == abi.StatusBadConfig
}

// RefusedError says why a module's bytes were not let in. No guest code has run.
type RefusedError = check.Refusal

func refusef(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}
