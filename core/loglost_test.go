package core

import (
	"fmt"
	"testing"
)

// TestLostLogLinesAreSaid: while lines of the log are lost, a row of /readyz says so, and the gateway is ready all the
// same.
func TestLostLogLinesAreSaid(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("subscriber", "waits"), "", fmt.Sprintf(everything, "full")) })
	for _, unsaid := range []uint64{0, 3, 0} {
		w.g.opts.LogLost = func() (uint64, uint64) { return 7, unsaid }
		rows := 0
		for _, p := range w.g.ready() {
			if p.Name == "log" {
				rows++
				if p.OK || !p.Beside {
					t.Errorf("%+v", p)
				}
			}
		}
		if (rows == 1) != (unsaid > 0) {
			t.Errorf("%d rows with %d lines untold", rows, unsaid)
		}
	}
}
