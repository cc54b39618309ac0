package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/follow"
)

// Keeper looks every minute what may go.
type Keeper struct {
	set  KeeperSettings
	kill context.CancelFunc
	done chan struct{}

	clock Clock // run's alone

	mu    sync.Mutex
	state KeeperStatus
}

// KeeperSettings are what a Keeper needs. Log and Cursors are required.
type KeeperSettings struct {
	Log    Shelf
	Policy Policy
	// of the configured subscribers; ok is false while some are not known yet: nothing goes then
	Cursors func() (of map[string]uint64, ok bool)
	Now     func() time.Time                 // against the time of records; nil: time.Now
	Report  func(format string, args ...any) // one line for the operator; nil: nobody
	Every   time.Duration                    // default 1 min

	// archives records before they go, and says up to which they may; 0: none may. nil: nobody wants them
	Archive func(ctx context.Context, through uint64) (last uint64, err error)

	Clock Clock // what was known of the time before
	// of the machine, from which boot on; nil: of this Keeper
	Uptime    func() (boot string, up time.Duration)
	KeepClock func(ctx context.Context, c Clock) error // keeps what is known of the time; nil: nobody does
	// records that the wall clock is in doubt, or no more; nil: nobody does
	Doubt func(ctx context.Context, on bool, by time.Duration)
}

// KeeperStatus is how retention stands.
type KeeperStatus struct {
	Trims, Records uint64 // since Keep
	Last           time.Time
	Error          string    // of the last look, "" if it went well
	Since          time.Time // the first of the looks that have failed one after the other; zero while they go well

	Ahead time.Duration // how far the wall clock is ahead of what can be true; 0 while it is believed
}

// Keep starts retention. With the zero Policy it does nothing.
func Keep(set KeeperSettings) (*Keeper, error) {
	if set.Log == nil || set.Cursors == nil {
		return nil, errors.New("retention: a log and the cursors are required")
	}
	if set.Policy.MaxAge < 0 || set.Every < 0 {
		return nil, errors.New("retention: a negative duration")
	}
	if set.Every == 0 {
		set.Every = lookEvery
	}
	if set.Now == nil {
		set.Now = time.Now
	}
	if set.Report == nil {
		set.Report = func(string, ...any) {}
	}
	if set.Uptime == nil {
		began := time.Now()
		set.Uptime = func() (string, time.Duration) { return "process", time.Since(began) }
	}
	ctx, kill := context.WithCancel(context.Background())
	k := &Keeper{set: set, kill: kill, done: make(chan struct{}), clock: set.Clock}
	go k.run(ctx)
	return k, nil
}

// Close ends retention. It waits for a trim that is being written.
func (k *Keeper) Close() {
	k.kill()
	<-k.done
}

// Status is how it stands.
func (k *Keeper) Status() KeeperStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

func (k *Keeper) run(ctx context.Context) {
	defer close(k.done)
	if k.set.Policy.MaxAge == 0 && k.set.Policy.MaxBytes == 0 {
		return
	}
	tick := time.NewTicker(k.set.Every)
	defer tick.Stop()
	if k.set.Policy.MaxAge > 0 {
		k.tell(ctx) // at once: whoever starts with a wrong clock is to know before anything goes
	}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		n, err := k.look(ctx)
		if ctx.Err() != nil {
			return
		}
		k.note(n, err)
	}
}

func (k *Keeper) note(n uint64, err error) {
	if err != nil {
		k.set.Report("retention: %v", err) // may wait for whoever reads the program's messages: not under the lock
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state.Error = ""; err == nil {
		k.state.Since = time.Time{}
	} else {
		k.state.Error = err.Error()
		if k.state.Since.IsZero() {
			k.state.Since = k.set.Now()
		}
	}
	if n > 0 {
		k.state.Trims++
		k.state.Records += n
		k.state.Last = k.set.Now()
	}
}

// errUnknown is no fault while the server starts, and one that an operator has to see if it lasts.
var errUnknown = errors.New("nothing is removed while it is not known how far each subscriber has come")

// look removes what may go, and says how many records that were.
func (k *Keeper) look(ctx context.Context) (n uint64, err error) {
	cursors, ok := k.set.Cursors()
	if !ok {
		return 0, errUnknown
	}
	v := View{First: k.set.Log.First(), Seq: k.set.Log.Seq(), Size: k.set.Log.Size, Cursors: cursors}
	var unread error // max_bytes holds all the same
	if k.set.Policy.MaxAge > 0 {
		if v.Old, unread = k.aged(ctx, v); unread != nil {
			v.Old = 0
		}
	}
	cut, err := Due(k.set.Policy, v)
	if err != nil || cut.Through == 0 {
		return 0, errors.Join(unread, err)
	}
	if k.set.Archive != nil {
		last, err := k.set.Archive(ctx, cut.Through)
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("records wait to be archived: %w", err))
		}
		if last < v.First {
			return 0, unread
		}
		cut.Through = min(cut.Through, last)
		cut.Passed = v.behind(cut.Through)
	}
	last, err := k.set.Log.Trim(ctx, cut.Through, cut.Reason, cut.Passed)
	if err != nil {
		return 0, fmt.Errorf("trim up to %d: %w", cut.Through, err)
	}
	if last < v.First {
		return 0, unread
	}
	if n = last - v.First + 1; k.clock.InDoubt() && cut.Reason == "max_age" {
		k.clock.Gone += n
		unread = errors.Join(unread, k.keepClock(ctx))
	}
	return n, unread
}

// tell looks at the clocks, says when the wall clock has come to be in doubt or is believed again, and gives its time.
func (k *Keeper) tell(ctx context.Context) time.Time {
	was := k.clock.InDoubt()
	wall := k.set.Now()
	boot, up := k.set.Uptime()
	k.clock.Look(wall, boot, up)
	k.doubt(ctx, was, wall)
	return wall
}

// doubt shows how far the wall clock is ahead, and records a change.
func (k *Keeper) doubt(ctx context.Context, was bool, wall time.Time) {
	is, by := k.clock.InDoubt(), time.Duration(0)
	if is {
		by = wall.Sub(k.clock.At)
	}
	k.mu.Lock()
	k.state.Ahead = by
	k.mu.Unlock()
	if was == is {
		return
	}
	if is {
		k.set.Report("retention: the wall clock is %v ahead of the machine's uptime; if it is wrong, set it right: "+
			"nothing is removed by it for an hour, then at most 5 %% of the log an hour", by.Round(time.Second))
	} else {
		k.set.Report("retention: the wall clock is believed again")
	}
	if k.set.Doubt != nil {
		k.set.Doubt(ctx, is, by)
	}
}

func (k *Keeper) keepClock(ctx context.Context) error {
	if k.set.KeepClock == nil {
		return nil
	}
	if err := k.set.KeepClock(ctx, k.clock); err != nil {
		return fmt.Errorf("keep the clock: %w", err)
	}
	return nil
}

// aged is the last record that may go because of its age, as far as the clocks can be believed.
func (k *Keeper) aged(ctx context.Context, v View) (uint64, error) {
	wall := k.tell(ctx)
	now, most := k.clock.Old(wall, v.Seq+1-min(v.First, v.Seq+1))
	if err := k.keepClock(ctx); err != nil {
		return 0, err // what is not kept would be believed after a restart
	}
	old, err := k.old(ctx, v.First, now, most)
	if old >= v.Seq { // the newest one stays
		old = v.Seq - min(v.Seq, 1)
	}
	if old < v.First {
		old = 0
	}
	if err != nil || old != 0 || !k.clock.InDoubt() || !now.Equal(wall) || most == 0 {
		return old, err
	}
	if k.clock.Accept(wall) {
		k.doubt(ctx, true, wall)
		return 0, k.keepClock(ctx)
	}
	return 0, nil
}

// old is the last record that is too old at that time, and of those at most so many: every one in front of it is, too.
// It walks from the oldest one on and stops at the first that is not, so a clock that was wrong for a while keeps too
// much, never too little.
func (k *Keeper) old(ctx context.Context, from uint64, now time.Time, records uint64) (old uint64, err error) {
	most, all := k.set.Policy.MaxAge, records
	if records == 0 {
		return 0, nil
	}
	first, count, young := time.Time{}, 0, false
	var h log.Head
	for cursor := follow.At(k.set.Log, from); !young; {
		turn := cursor.Read(follow.Limits{Records: lookAtOnce}, func(seq uint64, record []byte) (int, error) {
			var at time.Time
			if h.Read(record) {
				at = h.Time()
			}
			switch {
			case ctx.Err() != nil:
				return 0, ctx.Err()
			case young:
				return 0, follow.ErrLater
			case at.IsZero():
				return 0, fmt.Errorf("record %d does not say when it was written", seq)
			case now.Sub(at) <= most:
				young = true
				return 0, follow.ErrLater
			}
			if count++; count == 1 {
				first = at
			}
			if records--; records == 0 {
				young = true // no more of them may go now
			}
			old = seq
			return 0, nil
		})
		switch turn.State {
		case follow.Failed:
			return 0, turn.Err
		case follow.Gone:
			cursor.Move(turn.Gone + 1)
		case follow.AtEnd:
			young = true
		}
		if !young {
			follow.Pause(follow.Rest(true), ctx.Done())
		}
	}
	if count < ageRecords && uint64(count) < all && now.Sub(first) <= most+min(most/10, ageSlack) {
		return 0, nil
	}
	return old, nil
}
