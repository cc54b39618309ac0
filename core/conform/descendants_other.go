//go:build !linux

package conform

import (
	"context"
	"time"

	"github.com/yett-dev/yett/core/supervise"
)

// Without /proc the processes below a plugin cannot be listed: there none is found.
type child struct{}

func descendants(int, string, int) []child { return nil }

func waitGone(context.Context, []child, time.Duration) ([]child, error) { return nil, nil }

func killAll([]child) {}

func describeAll([]child) string { return "" }

func askToEnd(p *supervise.Process) { p.Terminate() }
