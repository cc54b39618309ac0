package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	type look struct {
		wall  time.Duration // behind begin
		boot  string
		up    time.Duration
		doubt bool
	}
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"both go on", []look{{0, "a", 0, false}, {day, "a", day, false}, {30 * day, "a", 30 * day, false}}},
		{"a time service's step", []look{{0, "a", 0, false}, {50*time.Second + time.Hour, "a", time.Hour, false}}},
		{"a hundred days ahead, and back", []look{{0, "a", 0, false}, {100 * day, "a", time.Minute, true}, {2 * time.Minute, "a", 2 * time.Minute, false}}},
		{"it stays ahead", []look{{0, "a", 0, false}, {100 * day, "a", time.Minute, true}, {100*day + day, "a", day, true}}},
		{"a little every minute", []look{{0, "a", 0, false}, {3 * time.Minute, "a", time.Minute, true}, {6 * time.Minute, "a", 2 * time.Minute, true}}},
		{"back and then ahead to where it was", []look{{100 * day, "a", 0, false}, {0, "a", time.Minute, false}, {100 * day, "a", 2 * time.Minute, true}}},
		{"a restart of the machine", []look{{0, "a", day, false}, {time.Hour, "b", time.Minute, false}}},
		{"a restart of the machine hides a step", []look{{0, "a", day, false}, {100 * day, "b", time.Minute, true}, {time.Hour, "b", time.Hour, false}}},
		{"the uptime of another boot with the same name", []look{{0, "a", day, false}, {100 * day, "a", time.Hour, true}}},
		{"nobody knows the boot", []look{{0, "", 0, false}, {100 * day, "", 100 * day, true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var clock Clock
			for i, l := range c.looks {
				row, err := json.Marshal(clock) // as a restart of the server finds it
				clock = Clock{}
				if err := errors.Join(err, json.Unmarshal(row, &clock)); err != nil {
					t.Fatal(err)
				}
				clock.Look(begin.Add(l.wall), l.boot, l.up)
				if clock.InDoubt() != l.doubt {
					t.Errorf("look %d: %+v", i, clock)
				}
				if clock.At.After(begin.Add(l.wall)) {
					t.Errorf("look %d: %v is taken for certain", i, clock.At)
				}
			}
		})
	}
}

// stepped is a shelf and its clocks.
type stepped struct {
	*shelf
	ahead  time.Duration // of the wall clock
	began  time.Time
	clock  Clock
	alarms []string
}

// Trim adds no record of itself: that of the real log has the wall clock's time.
func (s *stepped) Trim(_ context.Context, through uint64, reason string, _ []string) (uint64, error) {
	s.with(func() { s.trims = append(s.trims, reason) })
	s.trim(through)
	return through, nil
}

func (s *stepped) keep(t *testing.T, age time.Duration) *Keeper {
	t.Helper()
	k, err := Keep(KeeperSettings{Log: s, Policy: Policy{MaxAge: age}, Cursors: func() (map[string]uint64, bool) {
		return nil, true
	},
		Now: func() (now time.Time) { s.with(func() { now = time.Now().Add(s.ahead) }); return now }, Clock: s.clock,
		Uptime:    func() (string, time.Duration) { return "boot", time.Since(s.began) },
		KeepClock: func(_ context.Context, c Clock) error { s.with(func() { s.clock = c }); return nil },
		Doubt: func(_ context.Context, on bool, by time.Duration) {
			s.with(func() { s.alarms = append(s.alarms, fmt.Sprint(on, by)) })
		}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (s *stepped) step(by time.Duration) { s.with(func() { s.ahead = by }) }

const days = 24 * time.Hour

// A clock that is a hundred days ahead removes nothing for an hour, with an alarm; when it is set right, it is as if it
// had never been.
func TestStepAheadRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stepped{shelf: &shelf{world: newWorld()}, began: time.Now()}
		s.add(2000, "decision")
		k := s.keep(t, 90*days)
		after(10 * time.Minute)
		s.step(100 * days)
		after(50 * time.Minute)
		expect(t, "trims", len(s.trims), 0)
		expect(t, "alarms", s.alarms, []string{"true 2400h0m0s"})
		expect(t, "ahead", k.Status().Ahead, 100*days)
		s.step(0)
		after(time.Hour)
		expect(t, "trims", len(s.trims), 0)
		expect(t, "alarms", s.alarms, []string{"true 2400h0m0s", "false 0s"})
		expect(t, "ahead", k.Status().Ahead, time.Duration(0))
		k.Close()
	})
}

// The hour begins when the clock is first seen ahead: a machine that has slept, or a server that was stopped, for
// longer than that does not know since when it is.
func TestStepAheadAfterALongSleep(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &stepped{shelf: &shelf{world: newWorld()}, began: time.Now()}
			s.add(2000, "decision")
			k := s.keep(t, 90*days)
			after(10 * time.Minute)
			if stopped {
				k.Close()
				after(10 * time.Hour)
			} else {
				s.with(func() { s.began, s.ahead = s.began.Add(-10*time.Hour), 10*time.Hour }) // both clocks have gone on
			}
			s.step(100 * days)
			if stopped {
				k = s.keep(t, 90*days)
			}
			trims := func() (n int) {
				s.with(func() { n = len(s.trims) })
				return n
			}
			after(50 * time.Minute)
			expect(t, "trims", trims(), 0)
			after(20 * time.Minute)
			expect(t, "trims", trims(), 1)
			k.Close()
		})
	}
}

// One that stays ahead removes a twentieth of the log an hour, restarts of the server or not, and is believed in the
// end.
func TestStepAheadRemovesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stepped{shelf: &shelf{world: newWorld()}, began: time.Now()}
		s.add(20_000, "decision")
		k := s.keep(t, 90*days)
		after(10 * time.Minute)
		s.step(100 * days)
		left := s.Seq() + 1 - s.First()
		for hour := range 40 {
			for range 6 {
				after(10 * time.Minute)
				k.Close()
				k = s.keep(t, 90*days)
			}
			now := s.Seq() + 1 - s.First()
			if gone := left - min(left, now); gone > left/10+1 { // two shares may meet in an hour that begins in between
				t.Fatalf("hour %d: %d of %d went", hour, gone, left)
			}
			left = now
		}
		if left > 20_000/2 {
			t.Errorf("%d records are left after 40 hours", left)
		}
		after(30 * days)
		if s.First() < 19_999 || len(s.alarms) != 2 || k.Status().Ahead != 0 {
			t.Errorf("the log begins with %d, alarms %v, ahead %v", s.First(), s.alarms, k.Status().Ahead)
		}
		k.Close()
	})
}

// A step while the server is stopped is noticed at its start.
func TestStepWhileStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stepped{shelf: &shelf{world: newWorld()}, began: time.Now()}
		s.add(2000, "decision")
		k := s.keep(t, 90*days)
		after(10 * time.Minute)
		k.Close()
		s.step(100 * days)
		after(10 * time.Minute)
		k = s.keep(t, 90*days)
		after(30 * time.Second)
		expect(t, "alarms at the start", s.alarms, []string{"true 2400h0m0s"})
		after(30 * time.Minute)
		expect(t, "trims", len(s.trims), 0)
		k.Close()
	})
}
