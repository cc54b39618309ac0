package feed

import (
	"math"
	"time"
)

// How far the wall clock is believed.
const (
	clockSlack   = time.Minute    // a step within one boot that a time service may well make
	clockDrift   = 1000           // and a thousandth of the time that has passed
	clockGap     = 24 * time.Hour // a restart of the machine may hide that much
	doubtPause   = time.Hour      // so long nothing goes by a clock that is in doubt
	doubtShare   = 20             // then a twentieth of the log an hour
	doubtAtLeast = 24 * time.Hour // so long a step is in doubt, and until nothing is left that only it calls old
)

// Clock is what is known of the time. It is kept over restarts as JSON. The zero Clock knows nothing.
//
// The wall clock can be wrong: a step of a hundred days would make the whole log too old at once. So its advance is
// held against that of the machine's uptime, which nobody sets. Where it is ahead of it, it is in doubt.
type Clock struct {
	At   time.Time     `json:"at,omitzero"`       // the time as far as it is certain
	Boot string        `json:"boot_id,omitempty"` // of which boot of the machine Up is; "" for unknown
	Up   time.Duration `json:"up"`

	Doubt time.Duration `json:"doubt,omitempty"` // how long the wall clock has been in doubt; 0 while it is not
	Hour  time.Duration `json:"hour,omitempty"`  // of it in the present hour, and what has gone in that
	Gone  uint64        `json:"gone,omitempty"`
	Of    uint64        `json:"of,omitempty"` // records that there were when the hour began
}

// Look takes in what the clocks say now.
func (c *Clock) Look(wall time.Time, boot string, up time.Duration) {
	wall = wall.Round(0) // without Go's monotonic reading: this is about what the wall clock says
	passed, slack := up-c.Up, clockSlack
	if boot != c.Boot || boot == "" || passed < 0 {
		passed, slack = 0, clockGap // another boot: at least nothing has passed
	}
	slack += passed / clockDrift
	c.Boot, c.Up = boot, up
	sure := c.At.Add(passed)
	if c.At.IsZero() || !wall.After(sure.Add(slack)) {
		*c = Clock{At: wall, Boot: boot, Up: up}
		return
	}
	c.At = sure
	if !c.InDoubt() {
		passed = 0 // since when it is ahead nobody knows: the machine may have slept, or the server have been stopped
	}
	c.Doubt += max(passed, 1)
	if c.Hour += passed; c.Hour >= time.Hour {
		c.Hour, c.Gone, c.Of = 0, 0, 0
	}
}

// InDoubt reports whether the wall clock is ahead of what can be true.
func (c *Clock) InDoubt() bool { return c.Doubt > 0 }

// Old is the time to judge age by, and how many records may go for it, of those that there are.
func (c *Clock) Old(wall time.Time, records uint64) (now time.Time, most uint64) {
	if !c.InDoubt() {
		return wall, math.MaxUint64
	}
	if c.Of == 0 {
		c.Of = records
	}
	share := (c.Of + doubtShare - 1) / doubtShare
	most = share - min(share, c.Gone)
	if c.Doubt < doubtPause {
		return c.At, most
	}
	return wall, most
}

// Accept believes the wall clock after all. It has been in doubt for a day, with an alarm, and nothing is left that
// only it calls old.
func (c *Clock) Accept(wall time.Time) bool {
	if c.Doubt < doubtAtLeast {
		return false
	}
	*c = Clock{At: wall.Round(0), Boot: c.Boot, Up: c.Up}
	return true
}
