package supervise

import (
	"strings"
	"testing"
)

// TestHints: an end that a limit explains names it.
func TestHints(t *testing.T) {
	threads := Limits{Processes: 200}
	for _, c := range []struct {
		name string
		exit Exit
		l    Limits
		want string
	}{
		{"Go without threads", Exit{Code: 2, Stderr: "runtime: failed to create new OS thread (have 5 already; errno=11)\nfatal error: newosproc\n"}, threads,
			"it could not start a thread or a process (limits.processes: 200, which counts all"},
		{"Python without threads", Exit{Code: 1, Stderr: "RuntimeError: can't start new thread\n"}, Limits{}, "it could not start a thread or a process"},
		{"little memory", Exit{Code: -1, Signal: "SIGSEGV"}, Limits{Data: 1 << 20}, "ended by SIGSEGV: limits.memory is 1 MiB, which may be too small"},
		{"enough memory", Exit{Code: -1, Signal: "SIGSEGV"}, Limits{Data: 1 << 30}, ""},
		{"killed", Exit{Code: -1, Signal: "SIGKILL", Stderr: "can't start new thread"}, threads, ""},
		{"another reason", Exit{Code: 2, Stderr: "panic: x"}, threads, ""},
	} {
		e := c.exit
		e.judge(c.l, false, false)
		before := e.Err
		e.hint(c.l)
		if !strings.Contains(e.Err, c.want) || c.want == "" && e.Err != before {
			t.Errorf("%s: %q", c.name, e.Err)
		}
	}
}
