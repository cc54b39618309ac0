package store

import (
	"runtime/debug"
	"sync"
)

// A start keeps nearly all that it allocates. A collector that looks through all of it again each time that it has
// doubled finds nothing, and takes a third of the time. So it waits longer while rows are loaded: what a start may take
// for a while is what it leaves, and the setting is the process's again as soon as it is over.

// loadPercent is GOGC while rows are loaded. A setting that is higher, or off, stays.
const loadPercent = 400

// loads counts the loads that run: the setting is one of the whole process.
var loads struct {
	sync.Mutex
	running int
	percent int // what it was before
}

// collectLess runs fn with a collector that runs less often.
func collectLess(fn func() error) error {
	loads.Lock()
	if loads.running == 0 {
		loads.percent = debug.SetGCPercent(loadPercent)
		if loads.percent < 0 || loads.percent > loadPercent {
			debug.SetGCPercent(loads.percent)
		}
	}
	loads.running++
	loads.Unlock()
	defer func() {
		loads.Lock()
		defer loads.Unlock()
		if loads.running--; loads.running == 0 {
			debug.SetGCPercent(loads.percent)
		}
	}()
	return fn()
}
