package rules

import (
	"context"
	"errors"
	"fmt"

	"github.com/yett-dev/yett/core/chain"
)

// maxMatch is the longest expression of a Match, in bytes.
const maxMatch = 2048

// Match is a compiled condition that stands by itself, as a standing grant has one. It is immutable and safe for
// concurrent use.
type Match struct {
	expr string
	cond *condition
}

// CompileMatch compiles a CEL condition over the variables that a rule's condition has, of 1 to 2048 bytes. The error
// says everything that is wrong with it, each with "line:column".
func CompileMatch(expr string) (*Match, error) {
	switch {
	case expr == "":
		return nil, errors.New("an empty condition")
	case len(expr) > maxMatch:
		return nil, fmt.Errorf("a condition of %d bytes, the limit is %d", len(expr), maxMatch)
	}
	cond, faults := compileCondition(expr)
	if len(faults) == 0 {
		return &Match{expr, cond}, nil
	}
	var errs []error
	for _, f := range faults {
		if f.Line > 0 {
			errs = append(errs, fmt.Errorf("%d:%d: %s", f.Line, f.Column, f.Msg))
			continue
		}
		errs = append(errs, errors.New(f.Msg))
	}
	return nil, errors.Join(errs...)
}

// Holds reports whether the condition holds for the call. Whatever goes wrong, a ctx that is done included, is no
// match.
func (m *Match) Holds(ctx context.Context, call *chain.Call) bool {
	if ctx.Err() != nil {
		return false
	}
	sc := newScope(ctx, call)
	defer sc.release()
	sc.work = 0 // there may be many, one after another: none has anything free
	ok, err := m.cond.eval(sc)
	return ok && err == nil && sc.inTime()
}

// String is the condition as it was written.
func (m *Match) String() string { return m.expr }
