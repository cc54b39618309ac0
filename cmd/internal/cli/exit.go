package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/sdk"
)

// Exit codes that scripts rely on.
const (
	exitOK              = 0
	ExitFailure         = 1
	ExitUsage           = 2
	exitDenied          = 3
	ExitTampered        = 3 // of yett audit verify: the log was changed or cut
	ExitUnauthenticated = 4
	ExitIO              = 74 // EX_IOERR: the store has failed
	ExitConfig          = 78 // EX_CONFIG: the configuration is bad
)

// ExitError is an error that carries its exit code. Silent ones have said all there is to say.
type ExitError struct {
	Code int
	Err  error
}

// Fail is an error with its exit code. Without err the command has said all there is to say.
func Fail(code int, err error) error { return &ExitError{Code: code, Err: err} }

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

func Usage(format string, args ...any) error {
	return Fail(ExitUsage, fmt.Errorf(format, args...))
}

// CodeFor is the one place where an error becomes an exit code.
func CodeFor(err error) int {
	var coded *ExitError
	var refused *sdk.Error
	var bad *config.Error
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &bad):
		return ExitConfig
	case errors.As(err, &refused) && (refused.Code == sdk.CodeUnauthenticated || refused.Code == sdk.CodeKeyRevoked ||
		refused.Code == sdk.CodeKeyExpired):
		return ExitUnauthenticated
	case strings.HasPrefix(err.Error(), "unknown command"):
		return ExitUsage
	}
	return ExitFailure
}
