package prochost

import (
	"context"
	"errors"
	"time"
)

// closeMost bounds how long Validate waits for the process to end of itself.
const closeMost = 2 * time.Second

// Validate starts a plugin, asks who it is and whether it would take its settings, and ends it. Nothing else is asked
// of it: it is told to try nothing. ctx and StartTimeout bound it. Errors that only the operator can mend are *Refused.
func Validate(ctx context.Context, o Options, s Spec) (err error) {
	session, err := Open(ctx, o, s)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMost)
		defer cancel()
		err = errors.Join(err, session.Close(ending))
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, session.spec.StartTimeout, tooSlow(session.spec.StartTimeout))
	defer cancel()
	in := &instance{Session: session}
	if in.about, err = in.ask(ctx, nil); err == nil {
		err = in.configure(ctx, true)
	}
	return s.named(err)
}
