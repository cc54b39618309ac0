package supervise

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is how long the machine has been up, sleep included, and which boot that is. Nobody can set it, unlike the
// wall clock. An empty boot says that it is not known.
func Uptime() (boot string, up time.Duration) {
	if up = Up(); up == 0 {
		return "", 0
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0
	}
	return strings.TrimSpace(string(id)), up
}

// Up is how long the machine has been up, sleep included; 0 where it does not say.
func Up() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
