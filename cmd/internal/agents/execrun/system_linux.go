package execrun

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ignoredSignals are the signals that this process ignores, a bit for each.
func ignoredSignals() uint64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if hex, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return n
		}
	}
	return 0
}

// apart starts a process in a session of its own: nothing that ends the agent's processes ends it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
