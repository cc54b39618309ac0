package core

import (
	"strings"
	"testing"
	"time"
)

// A jump of the wall clock is counted and said once; a suspended machine and a corrected clock are none.
func TestClockJumps(t *testing.T) {
	var lines []string
	up := time.Hour
	m := newMachine(t.TempDir(), func(format string, args ...any) { lines = append(lines, format) },
		func() (string, time.Duration) { return "boot", up })
	wall := time.Unix(1_800_000_000, 0)
	passes := func(wallTime, uptime time.Duration) {
		wall, up = wall.Add(wallTime), up+uptime
		m.look(wall)
	}
	passes(0, 0)
	for range 10_000 { // drifts by more than a second in all
		passes(5*time.Second+2*time.Millisecond, 5*time.Second)
	}
	passes(8*time.Hour, 8*time.Hour) // suspended
	if m.forward.Load() != 0 || m.back.Load() != 0 || len(lines) != 0 {
		t.Fatalf("%d forward, %d back: %q", m.forward.Load(), m.back.Load(), lines)
	}
	passes(5*time.Second+time.Hour, 5*time.Second)
	passes(5*time.Second, 5*time.Second)
	if m.forward.Load() != 1 || m.back.Load() != 0 || len(lines) != 1 || !strings.Contains(lines[0], "forward") {
		t.Errorf("%d forward, %d back: %q", m.forward.Load(), m.back.Load(), lines)
	}
	passes(-time.Minute, 5*time.Second)
	if m.forward.Load() != 1 || m.back.Load() != 1 || len(lines) != 2 || !strings.Contains(lines[1], "back") {
		t.Errorf("%d forward, %d back: %q", m.forward.Load(), m.back.Load(), lines)
	}
	if free, size := m.free.Load(), m.size.Load(); size == 0 || free > size {
		t.Errorf("%d of %d bytes are free", free, size)
	}
	m.dir += "/gone"
	if m.look(wall); m.size.Load() != 0 {
		t.Error("the room of a directory that has gone is known")
	}
}
