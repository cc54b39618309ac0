//go:build !linux && !darwin

package supervise

import (
	"context"
	"fmt"
	"runtime"
)

// Start needs process groups and limits, which this build has not got.
func Start(c Command) (*Process, error) { return start(context.Background(), c) }

func start(_ context.Context, c Command) (*Process, error) {
	return nil, fmt.Errorf("start %s: child processes are supervised on Linux and macOS only, not on %s", c.Name,
		runtime.GOOS)
}

// MakeDir makes nothing here: it is for processes.
func MakeDir(name string, _ *User) (string, error) {
	return "", fmt.Errorf("private directory of %s: child processes are supervised on Linux and macOS only, not on %s",
		name, runtime.GOOS)
}

// RemoveDir removes nothing here: nothing was made.
func RemoveDir(string) {}

// Launch does nothing here: nothing can be started.
func Launch() {}

func reap() {}
