package supervise

import (
	"fmt"
	"strings"
)

// littleMemory is less than most programs take to start.
const littleMemory = 64 << 20

// hint adds to the sentence what the limits have to do with it. What the process said is not quoted.
func (e *Exit) hint(l Limits) {
	switch {
	case e.Code != 0 && (e.Cause == CauseExited || e.Signal == "SIGABRT" || e.Signal == "SIGSEGV") &&
		couldNotFork(e.Stderr):
		e.Err += ": it could not start a thread or a process"
		if l.Processes > 0 {
			e.Err += fmt.Sprintf(" (limits.processes: %d, which counts all processes and threads of its user, other "+
				"plugins' too)", l.Processes)
		}
	case e.Cause == CauseSignal && l.Data > 0 && l.Data < littleMemory &&
		(e.Signal == "SIGSEGV" || e.Signal == "SIGABRT" || e.Signal == "SIGBUS"):
		e.Err += fmt.Sprintf(": limits.memory is %d MiB, which may be too small for it", l.Data>>20)
	}
}

// couldNotFork says whether a runtime complained that it got no thread or no process.
func couldNotFork(said string) bool {
	for _, words := range []string{
		"failed to create new OS thread", "newosproc", // Go
		"can't start new thread",                                                      // Python
		"pthread_create failed", "uv_thread_create", "unable to create native thread", // C, Node.js, Java
		"esource temporarily unavailable",
	} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}
