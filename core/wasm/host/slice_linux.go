package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is how long the calling thread has had a processor.
func threadTime() time.Duration {
	var t unix.Timespec
	// without that clock long calls would rest often, which costs only them
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// setSlice says how long the calling thread wants to run at once; 0 is what is usual here. A thread that has less left,
// or asked for less, takes the processor from one that asked for more as soon as it wakes up (EEVDF, Linux 6.12 and
// later; older kernels take the wish and do nothing). It is a wish: where it is refused, others wait longer for a long
// call, and nothing else changes.
func setSlice(d time.Duration) {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL && attr.Policy != unix.SCHED_BATCH {
		return // a real-time thread has no slices: it has what its operator gave it
	}
	attr.Runtime = uint64(d)
	_ = unix.SchedSetAttr(0, attr, 0)
}
