package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/wasm/check"
)

// TestAdmitCompileBomb has the process's own limits stop what static admission lets in. That the limits do it, and
// neither the module nor the process, its controls show: the same module under the usual limits, and a small one under
// these.
func TestAdmitCompileBomb(t *testing.T) {
	testkit.Slow(t, "compiles what is made to compile slowly")
	if testing.Short() {
		t.Skip("compiles for seconds, which -short leaves out")
	}
	for _, c := range []struct {
		name   string
		bomb   guest
		limits AdmitLimits
		want   string
		memory bool
	}{
		{"time", slowToCompile(), AdmitLimits{CPU: time.Second}, "while it is compiled and started, the process used up its processor time of 1 s", false},
		{"memory", largeToCompile(), AdmitLimits{Memory: 800 << 20}, "while it is compiled and started, the process ran out of memory", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.memory && raceDetector {
				return // the race detector cannot live under a limit
			}
			if _, err := check.Check(c.bomb.wasm(), check.Limits{Pages: 1024}); err != nil {
				t.Fatalf("static admission stops it: %v", err)
			}
			tight := func() *trial {
				tr := newTrial()
				tr.Limits.CPU = c.limits.CPU
				if c.memory {
					tr.Limits.Memory = c.limits.Memory
				}
				return tr
			}
			began := time.Now()
			v, err := tight().admit(specOf(c.bomb))
			for try := 1; err != nil && !errors.Is(err, ErrNotAdmitted) && try < 3; try++ {
				t.Logf("no process to try it in, which a busy machine may refuse: %v", err)
				v, err = tight().admit(specOf(c.bomb))
			}
			if !errors.Is(err, ErrNotAdmitted) || v.OK || !strings.Contains(v.Reason, c.want) {
				t.Errorf("got %+v, %v; want %q", v, err, c.want)
			}
			t.Logf("%v, %d MiB: %s", time.Since(began), v.MaxRSS>>20, v.Reason)
			if v, err := tight().admit(specOf(noop())); err != nil || !v.OK {
				t.Errorf("a small module under the same limits: %+v, %v", v, err)
			}
			if v, err := newTrial().admit(specOf(c.bomb)); err != nil || !v.OK {
				t.Errorf("under the usual limits: %+v, %v", v, err)
			} else {
				t.Logf("under the usual limits: %v, %d MiB", v.Took, v.MaxRSS>>20)
			}
		})
	}
}
