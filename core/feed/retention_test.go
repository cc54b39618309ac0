package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// tens is a log whose records take 10 bytes each.
func tens(seq uint64) func(uint64) (uint64, error) {
	return func(from uint64) (uint64, error) { return 10 * (seq + 1 - min(from, seq+1)), nil }
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Policy
		v       View
		through uint64
		reason  string
		passed  []string
	}{
		{"no policy", Policy{}, View{First: 1, Seq: 100, Old: 50}, 0, "", nil},
		{"age", Policy{MaxAge: 1}, View{First: 1, Seq: 100, Old: 50}, 50, "max_age", nil},
		{"nothing old", Policy{MaxAge: 1}, View{First: 51, Seq: 100, Old: 50}, 0, "", nil},
		{"never the newest", Policy{MaxAge: 1}, View{First: 1, Seq: 100, Old: 100}, 99, "max_age", nil},
		{"one record", Policy{MaxAge: 1, MaxBytes: 1}, View{First: 100, Seq: 100, Old: 100}, 0, "", nil},
		{"empty", Policy{MaxAge: 1, MaxBytes: 1}, View{First: 1}, 0, "", nil},
		{"bytes", Policy{MaxBytes: 600}, View{First: 1, Seq: 100}, 43, "max_bytes", nil}, // 570 bytes stay
		{"just enough bytes", Policy{MaxBytes: 1000}, View{First: 1, Seq: 100}, 0, "", nil},
		{"bytes want more than age", Policy{MaxAge: 1, MaxBytes: 600}, View{First: 1, Seq: 100, Old: 10}, 43, "max_bytes", nil},
		{"age wants more than bytes", Policy{MaxAge: 1, MaxBytes: 600}, View{First: 1, Seq: 100, Old: 70}, 70, "max_age", nil},
		{"one byte", Policy{MaxBytes: 1}, View{First: 1, Seq: 100}, 99, "max_bytes", nil},
		{"subscriber in front", Policy{MaxAge: 1, HoldBytes: 1000}, View{First: 1, Seq: 100, Old: 50, Cursors: map[string]uint64{"a": 50, "b": 99}}, 50, "max_age", nil},
		{"held", Policy{MaxAge: 1, HoldBytes: 1000}, View{First: 1, Seq: 100, Old: 50, Cursors: map[string]uint64{"a": 20, "b": 99}}, 20, "max_age", nil},
		{"held altogether", Policy{MaxAge: 1, HoldBytes: 1000}, View{First: 21, Seq: 100, Old: 50, Cursors: map[string]uint64{"a": 20}}, 0, "", nil},
		{"held from the start", Policy{MaxAge: 1, HoldBytes: 1000}, View{First: 1, Seq: 100, Old: 50, Cursors: map[string]uint64{"a": 0}}, 0, "", nil},
		{"held as far as it goes", Policy{MaxAge: 1, HoldBytes: 100}, View{First: 1, Seq: 100, Old: 50, Cursors: map[string]uint64{"b": 20, "a": 10, "c": 45}}, 40, "max_age", []string{"a", "b"}},
		{"nothing is held", Policy{MaxAge: 1}, View{First: 1, Seq: 100, Old: 50, Cursors: map[string]uint64{"a": 20}}, 50, "max_age", []string{"a"}},
		{"cursor long gone", Policy{MaxAge: 1, HoldBytes: 100}, View{First: 30, Seq: 100, Old: 50, Cursors: map[string]uint64{"a": 5}}, 40, "max_age", []string{"a"}},
	} {
		if c.v.Size == nil {
			c.v.Size = tens(c.v.Seq)
		}
		got, err := Due(c.p, c.v)
		if want := (Cut{c.through, c.reason, c.passed}); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v %v, want %v", c.name, got, err, want)
		}
	}
	broken := func(uint64) (uint64, error) { return 0, errors.New("broken") }
	if cut, err := Due(Policy{MaxBytes: 1}, View{First: 1, Seq: 9, Size: broken}); err == nil || cut.Through != 0 {
		t.Errorf("%v %v", cut, err)
	}
}

// shelf is a world that retention may trim.
type shelf struct {
	*world
	trims []string
	fail  error
}

func (s *shelf) Trim(_ context.Context, through uint64, reason string, passed []string) (uint64, error) {
	var fail error
	s.with(func() {
		if fail = s.fail; fail == nil {
			s.trims = append(s.trims, fmt.Sprintf("%d %s %v", through, reason, passed))
		}
	})
	if fail != nil {
		return 0, fail
	}
	s.trim(through)
	s.add(1, "retention_trimmed")
	return through, nil
}

func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{world: newWorld()}
		s.add(2000, "decision")
		time.Sleep(12 * time.Hour)
		s.add(100, "decision")
		known, cursor := false, uint64(0)
		k, err := Keep(KeeperSettings{Log: s, Policy: Policy{MaxAge: 24 * time.Hour, HoldBytes: 1 << 30},
			Cursors: func() (of map[string]uint64, ok bool) {
				s.with(func() { of, ok = map[string]uint64{"siem": cursor}, known })
				return of, ok
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		after(13 * time.Hour)
		trims := func() (out []string) { s.with(func() { out = slices.Clone(s.trims) }); return out }
		expect(t, "while cursors are not known", []any{len(trims()), k.Status().Error}, []any{0, errUnknown})
		s.with(func() { known = true })
		after(time.Minute)
		expect(t, "while a subscriber holds all", len(trims()), 0)
		s.with(func() { cursor = 1500 })
		after(time.Minute)
		expect(t, "trims", trims(), []string{"1500 max_age []"})
		s.with(func() { s.fail, cursor = errors.New("disk full"), 1<<40 })
		after(90 * time.Minute)
		expect(t, "error", k.Status().Error, "trim up to 2000: disk full")
		s.with(func() { s.fail = nil })
		after(time.Minute)
		expect(t, "status", []any{k.Status().Error, k.Status().Trims, k.Status().Records}, []any{"", 2, 2000})
		// An idle log: records about trims age, too, and must not make one another without end.
		before := len(trims())
		after(240 * time.Hour)
		if n := len(trims()) - before; n > 40 {
			t.Errorf("%d trims in ten idle days", n)
		}
	})
}

// What was not archived does not go. What was goes up to there, and the record of it names those alone who have not got
// that. How long it waits is told.
func TestKeeperArchives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{world: newWorld()}
		s.add(2000, "decision")
		taken, failed := uint64(0), errors.New("no bucket")
		k, err := Keep(KeeperSettings{Log: s, Policy: Policy{MaxAge: 24 * time.Hour},
			Cursors: func() (map[string]uint64, bool) { return map[string]uint64{"siem": 700, "lake": 1900}, true },
			Archive: func(_ context.Context, through uint64) (last uint64, err error) {
				s.with(func() { last, err = min(taken, through), failed })
				return last, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		trims := func() (out []string) { s.with(func() { out = slices.Clone(s.trims) }); return out }
		after(26 * time.Hour)
		expect(t, "while nothing is archived", []any{len(trims()), k.Status().Error},
			[]any{0, "records wait to be archived: no bucket"})
		if waits := time.Since(k.Status().Since); waits < time.Hour {
			t.Errorf("it waits for %v", waits)
		}
		s.with(func() { taken = 800 })
		after(time.Minute)
		expect(t, "what was taken before it failed", trims(), []string{"800 max_age [siem]"})
		s.with(func() { taken, failed = 1800, nil })
		after(time.Minute)
		expect(t, "trims", trims(), []string{"800 max_age [siem]", "1800 max_age [siem]"})
		expect(t, "status", []any{k.Status().Error, k.Status().Since.IsZero(), k.Status().Records}, []any{"", true, 1800})
	})
}

// Whoever looks how retention stands does not wait for whoever reads its messages.
func TestKeeperReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{world: newWorld()}
		made, said := make(chan *Keeper, 1), make(chan string, 8)
		k, err := Keep(KeeperSettings{Log: s, Policy: Policy{MaxAge: time.Hour}, Cursors: func() (map[string]uint64, bool) {
			return nil, false
		},
			Report: func(format string, args ...any) {
				k := <-made
				made <- k
				said <- k.Status().Error + fmt.Sprintf(format, args...)
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		made <- k
		expect(t, "report", <-said, "retention: "+errUnknown.Error())
		after(time.Second)
		expect(t, "status", k.Status().Error, errUnknown)
	})
}

// A record from a time when the clock was wrong keeps too much, never too little.
func TestKeeperOnAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{world: newWorld()}
		s.add(5000, "decision")
		s.append([]byte(`{"v":1,"seq":5001,"timestamp":"2099-01-01T00:00:00.000000000Z","type":"scan"}`))
		s.append([]byte(`{"v":1,"seq":5002,"timestamp":"1970-01-01T00:00:00.000000000Z","type":"scan"}`))
		time.Sleep(time.Hour)
		s.add(50, "decision")
		k := &Keeper{set: KeeperSettings{Log: s, Policy: Policy{MaxAge: time.Minute}, Now: time.Now}}
		old, err := k.old(context.Background(), 1, k.set.Now(), 1<<40)
		expect(t, "old", []any{old, err}, []any{5000, nil})
		s.trim(5001)
		old, err = k.old(context.Background(), 5002, k.set.Now(), 1<<40)
		expect(t, "old", []any{old, err}, []any{5002, nil})
		s.append([]byte(`{"v":1}`))
		time.Sleep(time.Hour)
		if _, err = k.old(context.Background(), 5003, k.set.Now(), 1<<40); err == nil {
			t.Error("a record without a time is taken for old")
		}
	})
}

func TestKeepRefuses(t *testing.T) {
	for _, set := range []KeeperSettings{{}, {Log: &shelf{}},
		{Log: &shelf{}, Cursors: func() (map[string]uint64, bool) { return nil, true }, Policy: Policy{MaxAge: -1}}} {
		if _, err := Keep(set); err == nil {
			t.Errorf("%+v", set)
		}
	}
}
