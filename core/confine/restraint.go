package confine

import "fmt"

// Restraint is how far a process is held back, as /proc tells it to everybody. None of it can be undone by the process
// or by what it starts.
type Restraint struct {
	NoNewPrivs bool
	Filters    int  // of system calls; uncounted: some, on a kernel that does not say how many
	Marked     bool // Mark was called in it, or in an ancestor of it
}

const uncounted = -1

// Beyond says what of a process's restraint is not this one's too; "" if nothing is.
func (own Restraint) Beyond(r Restraint) string {
	switch {
	case r.Marked && !own.Marked:
		return "a gateway has started it or what started it, as it does plugins"
	case !r.NoNewPrivs || r.Filters == 0:
		return ""
	case r.Filters == uncounted || own.Filters == uncounted:
		return "it can get no new privileges and has filters of system calls, which this kernel does not count"
	case r.Filters > own.Filters:
		return fmt.Sprintf("it can get no new privileges and has %d filters of system calls, this server has %d", r.Filters,
			own.Filters)
	case !own.NoNewPrivs:
		return "it can get no new privileges and has filters of system calls, and this server can get some"
	}
	return ""
}
