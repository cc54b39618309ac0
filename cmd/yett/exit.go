package main

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
	exitFailure           = 1
	exitUsage           = 2
	exitDenied          = 3
	exitUnauthenticated = 4
	exitIO              = 74 // EX_IOERR: the store has failed
	exitConfig          = 78 // EX_CONFIG: the configuration is bad
)

// exitCode is an error that carries its exit code. Silent ones have said all there is to say.
type exitCode struct {
	code int
	err  error
}

// fail is an error with its exit code. Without err the command has said all there is to say.
func fail(code int, err error) error { return &exitCode{code: code, err: err} }

func (e *exitCode) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitCode) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return fail(exitUsage, fmt.Errorf(format, args...))
}

// codeFor is the one place where an error becomes an exit code.
func codeFor(err error) int {
	var coded *exitCode
	var refused *sdk.Error
	var bad *config.Error
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &bad):
		return exitConfig
	case errors.As(err, &refused) && (refused.Code == sdk.CodeUnauthenticated || refused.Code == sdk.CodeKeyRevoked || refused.Code == sdk.CodeKeyExpired):
		return exitUnauthenticated
	case strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	}
	return exitFailure
}
