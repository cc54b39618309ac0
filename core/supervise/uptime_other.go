//go:build !linux

package supervise

import (
	"fmt"
	"os"
	"time"
)

var began = time.Now()

// Uptime is how long this process has been up: what the machine says of itself is not asked here. So a step of the wall
// clock is noticed while the process runs, and over a restart only one of more than a day.
func Uptime() (boot string, up time.Duration) {
	return fmt.Sprint("process ", os.Getpid(), " ", began.UnixNano()), time.Since(began)
}

// Up is how long this process has been up.
func Up() time.Duration { return time.Since(began) }
