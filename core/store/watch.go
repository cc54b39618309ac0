package store

import (
	"errors"
	"time"
)

// watch refuses what waits for a disk that has stalled, and wakes the sequencer when a timer is due.
func (q *sequencer) watch() {
	defer q.wg.Done()
	tick := time.NewTicker(q.s.set.Stall / looks)
	defer tick.Stop()
	last := q.s.set.Now()
	for {
		select {
		case <-tick.C:
			last = q.tick(last, q.s.set.Now())
		case <-q.quit:
			return
		case <-q.dead:
			return
		}
	}
}

// looks is how often the watcher looks within the stall limit.
const looks = 10

// tick looks once. Where far more time has passed since the last look than should have, it was the whole process that
// stood still (it was stopped, its machine was suspended or had no processor left) or the clock was set: the disk is
// not to blame for that.
func (q *sequencer) tick(last, now time.Time) time.Time {
	if gap := now.Sub(last) - 2*q.s.set.Stall/looks; gap > 0 {
		q.lost.Add(int64(gap))
	}
	q.look(now)
	return now
}

// awake is how long the watcher has watched until now.
func (q *sequencer) awake(now time.Time) time.Duration {
	return now.Sub(q.origin) - time.Duration(q.lost.Load())
}

func (q *sequencer) look(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	times := q.s.clock.look()
	due := !q.nextDue.IsZero() && !times.Now.Before(q.nextDue) || (times.Doubt() > 0) != q.doubted.Load()
	if (due || q.behind) && !q.busy {
		q.nudge()
	}
	since := q.since.Load()
	waited := q.awake(now) - time.Duration(since-1)
	// begun behind a gap that was not seen yet, or the clock was set back: it counts from here
	if since != 0 && waited < 0 {
		q.since.CompareAndSwap(since, since+int64(waited))
	}
	if since == 0 || waited < q.s.set.Stall {
		return
	}
	if !q.stalled {
		q.s.seen.stalls.Add(1)
	}
	q.stalled = true
	q.refuseAll(errors.New("the disk has stalled"))
}
