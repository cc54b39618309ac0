package feed

import (
	"context"
	"slices"
	"time"

	"github.com/yett-dev/yett/core/log/follow"
)

// How retention works.
const (
	lookEvery = time.Minute
	// at most: what is too old goes together, so that an idle log does not fill with records about trims
	ageSlack   = time.Hour
	ageRecords = 1024 // unless there are so many
	bytesSlack = 20   // of MaxBytes, a twentieth: so much less is left when MaxBytes is exceeded
	lookAtOnce = 4096 // records that are looked at between two rests
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
	cut.Passed = v.behind(cut.Through)
	return cut, nil
}

// behind are the subscribers that have not got all up to a record, sorted.
func (v *View) behind(through uint64) (names []string) {
	for name, seq := range v.Cursors {
		if seq < through {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
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
	follow.History
	sizer
	// Trim removes the records up to through, or a few less, and records that. It is on disk when nil is returned; last is
	// the last record that went, 0 if none did.
	Trim(ctx context.Context, through uint64, reason string, passed []string) (last uint64, err error)
}
