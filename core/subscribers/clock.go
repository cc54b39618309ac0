package subscribers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/store"
)

// FirstClock is what is known of the time before anything is recorded: what was kept, or else that the newest record
// was written, held against the clocks of now. Retention that is switched on later goes on from it.
func FirstClock(s *store.Store, wall time.Time, uptime func() (string, time.Duration)) (feed.Clock, error) {
	c, err := knownClock(s)
	if err != nil {
		return c, err
	}
	if c.At.IsZero() {
		last, err := s.LastTime()
		if err != nil {
			return c, fmt.Errorf("the time of the newest record: %w", err)
		}
		if last != "" {
			if c.At, err = time.Parse(time.RFC3339Nano, last); err != nil {
				return c, fmt.Errorf("the time of the newest record: %w", err)
			}
		}
	}
	boot, up := uptime()
	c.Look(wall, boot, up)
	return c, nil
}

// knownClock is what retention has kept; zero if it has kept nothing.
func knownClock(s *store.Store) (c feed.Clock, err error) {
	row, err := s.Clock()
	if err != nil || row == nil {
		return c, err
	}
	if err := json.Unmarshal(row, &c); err != nil {
		return c, fmt.Errorf("what was known of the time: %w", err)
	}
	return c, nil
}

// keepClock keeps what retention knows of the time.
func (f *Set) keepClock(ctx context.Context, c feed.Clock) error {
	row, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return f.set.Store.Commit(ctx, &store.KeepClock{Known: row})
}

// noteDoubt records that the wall clock is in doubt, or believed again.
func (f *Set) noteDoubt(ctx context.Context, on bool, by time.Duration) {
	if times := f.set.Store.Times(); times.Doubt() > 0 {
		return // the store says so itself
	}
	typ := "clock_believed"
	if on {
		typ = "clock_in_doubt"
	}
	if err := f.set.Service.Note(ctx, typ, [2]string{"ahead", by.Round(time.Second).String()}); err != nil &&
		ctx.Err() == nil {
		f.set.Log("retention: that the wall clock is in doubt could not be recorded: %v", err)
	}
}
