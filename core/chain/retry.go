package chain

import (
	"errors"
	"time"
)

// Never is how long to wait for a step that only an operator can bring back.
const Never time.Duration = -1

// soon is how long to wait where nobody knows better.
const soon = time.Second

// delayed is an error with the time until which asking again is in vain.
type delayed struct {
	error
	after time.Duration
}

func (e *delayed) Unwrap() error { return e.error }

// Later says of a step's failure how long a caller should wait before it asks again: Never (any
// negative time), or a time.
func Later(err error, after time.Duration) error { return &delayed{err, after} }

// RetryAfter is how long a caller should wait after a step's failure: Never, or a second and more.
func RetryAfter(err error) time.Duration {
	if d, ok := errors.AsType[*delayed](err); ok {
		if d.after < 0 {
			return Never
		}
		return max(d.after, soon)
	}
	return soon
}
