package feed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// How retention works.
const (
	lookEvery  = time.Minute
	ageSlack   = time.Hour // at most: what is too old goes together, so that an idle log does not fill with records about trims
	ageRecords = 1024      // unless there are so many
	bytesSlack = 20        // of MaxBytes, a twentieth: so much less is left when MaxBytes is exceeded
	lookAtOnce = 4096      // records that are looked at between two rests
)

// Policy says how much of the log is kept. The zero Policy keeps all of it.
type Policy struct {
	MaxAge    time.Duration // 0: no limit
	MaxBytes  uint64        // 0: no limit
	HoldBytes uint64        // so much more is kept for subscribers that have not got it yet; 0: nothing is
}

// View is what Due needs to know.
type View struct {
	First, Seq uint64                                      // the first and the last record that are there
	Old        uint64                                      // the last record that is older than MaxAge; 0: none
	Size       func(from uint64) (bytes uint64, err error) // of the records from that one on
	Cursors    map[string]uint64                           // of the subscribers that are configured
}

// Cut is what may go.
type Cut struct {
	Through uint64   // up to this record; 0: nothing
	Reason  string   // max_age, max_bytes
	Passed  []string // subscribers that have not got all of it, sorted
}

// Due decides what may go. It never lets the newest record go. Subscribers hold back what they have not got, until that
// takes HoldBytes: what lies in front of that goes all the same, and they are told of the gap.
func Due(p Policy, v View) (Cut, error) {
	cut := Cut{}
	if v.Seq == 0 || v.First >= v.Seq {
		return cut, nil
	}
	if p.MaxAge > 0 && v.Old >= v.First {
		cut.Through, cut.Reason = min(v.Old, v.Seq-1), "max_age"
	}
	if p.MaxBytes > 0 {
		all, err := v.Size(v.First)
		if err != nil {
			return Cut{}, err
		}
		if all > p.MaxBytes {
			to, err := v.reach(v.First, v.Seq-1, p.MaxBytes-p.MaxBytes/bytesSlack, 0)
			if err != nil {
				return Cut{}, err
			}
			if to > cut.Through {
				cut.Through, cut.Reason = to, "max_bytes"
			}
		}
	}
	if cut.Through == 0 {
		return cut, nil
	}
	return v.held(p, cut)
}

// held moves the cut back to what subscribers hold.
func (v *View) held(p Policy, cut Cut) (Cut, error) {
	slowest := cut.Through
	for _, seq := range v.Cursors {
		slowest = min(slowest, seq)
	}
	if slowest < cut.Through {
		behind, err := v.Size(cut.Through + 1)
		if err != nil {
			return Cut{}, err
		}
		if cut.Through, err = v.reach(max(slowest+1, v.First), cut.Through, p.HoldBytes, behind); err != nil {
			return Cut{}, err
		}
	}
	if cut.Through < v.First {
		return Cut{}, nil
	}
	for name, seq := range v.Cursors {
		if seq < cut.Through {
			cut.Passed = append(cut.Passed, name)
		}
	}
	slices.Sort(cut.Passed)
	return cut, nil
}

// reach is the smallest n of from-1 to to for which the records behind n take at most bytes more than base.
func (v *View) reach(from, to, bytes, base uint64) (uint64, error) {
	lo, hi := from-1, to
	for lo < hi {
		mid := lo + (hi-lo)/2
		size, err := v.Size(mid + 1)
		if err != nil {
			return 0, err
		}
		if size <= base || size-base <= bytes {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}

// Shelf is the log as retention needs it.
type Shelf interface {
	History
	// Trim removes the records up to through, or a few less, and records that. It is on disk when nil is returned; last is the
	// last record that went, 0 if none did.
	Trim(ctx context.Context, through uint64, reason string, passed []string) (last uint64, err error)
}

// Keeper looks every minute what may go.
type Keeper struct {
	set  KeeperSettings
	kill context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	state KeeperStatus
}

// KeeperSettings are what a Keeper needs. Log and Cursors are required.
type KeeperSettings struct {
	Log     Shelf
	Policy  Policy
	Cursors func() (of map[string]uint64, ok bool) // of the configured subscribers; ok is false while some are not known yet: nothing goes then
	Now     func() time.Time                       // against the time of records; nil: time.Now
	Report  func(format string, args ...any)       // one line for the operator; nil: nobody
	Every   time.Duration                          // default 1 min
}

// KeeperStatus is how retention stands.
type KeeperStatus struct {
	Trims, Records uint64 // since Keep
	Last           time.Time
	Error          string // of the last look, "" if it went well
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
	ctx, kill := context.WithCancel(context.Background())
	k := &Keeper{set: set, kill: kill, done: make(chan struct{})}
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
	if k.state.Error = ""; err != nil {
		k.state.Error = err.Error()
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
	if v.Old, unread = k.old(ctx, v.First); unread != nil {
		v.Old = 0
	}
	cut, err := Due(k.set.Policy, v)
	if err != nil || cut.Through == 0 {
		return 0, errors.Join(unread, err)
	}
	last, err := k.set.Log.Trim(ctx, cut.Through, cut.Reason, cut.Passed)
	if err != nil {
		return 0, fmt.Errorf("trim up to %d: %w", cut.Through, err)
	}
	if last < v.First {
		return 0, unread
	}
	return last - v.First + 1, unread
}

// old is the last record that is too old: every one in front of it is, too. It walks from the oldest one on and stops at the
// first that is not, so a clock that was wrong for a while keeps too much, never too little.
func (k *Keeper) old(ctx context.Context, from uint64) (old uint64, err error) {
	most := k.set.Policy.MaxAge
	if most == 0 {
		return 0, nil
	}
	now := k.set.Now()
	first, count, young := time.Time{}, 0, false
	for !young {
		n := 0
		err := k.set.Log.Tail(from, func(seq uint64, record []byte) error {
			if n++; n > lookAtOnce {
				return errEnough
			}
			h, ok := headOf(record)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case !ok || h.at.IsZero():
				return fmt.Errorf("record %d does not say when it was written", seq)
			case now.Sub(h.at) <= most:
				young = true
				return errEnough
			}
			if count++; count == 1 {
				first = h.at
			}
			if count%giveWay == 0 {
				runtime.Gosched()
			}
			old, from = seq, seq+1
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return 0, err
		}
		young = young || err == nil
		if !young {
			sleep(ctx, restBetween)
		}
	}
	if count < ageRecords && now.Sub(first) <= most+min(most/10, ageSlack) {
		return 0, nil
	}
	return old, nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
