package follow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a log in memory. Record seq has seq%7 bytes more than ten.
type memory struct {
	first, last uint64
	during      func(seq uint64) // called in front of each record of a walk
	err         error
	wakes       []chan<- struct{}
}

func (m *memory) Seq() uint64   { return m.last }
func (m *memory) First() uint64 { return m.first }

func (m *memory) Records(from uint64, fn func(uint64, []byte) error) error {
	if m.err != nil {
		return m.err
	}
	for seq, last := max(from, m.first), m.last; seq <= last; seq++ {
		if m.during != nil {
			m.during(seq)
		}
		if seq < m.first {
			seq = m.first
		}
		if err := fn(seq, make([]byte, 10+seq%7)); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	return nil
}

func (m *memory) Follow(wake chan<- struct{}) func() {
	m.wakes = append(m.wakes, wake)
	return func() { m.wakes = nil }
}

// Whatever grows, goes and has no room meanwhile: every record is handed over once, in order, or is in a gap.
func TestNothingIsLeftOut(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &memory{first: 1}
		m.during = func(uint64) {
			if rng.IntN(40) == 0 {
				m.first = min(m.first+rng.Uint64N(20), max(m.last, 1))
			}
		}
		c, done := At(m, 1), uint64(0)
		for turn := 0; turn < 60 || c.Next() <= m.last; turn++ {
			if turn < 60 {
				m.last += rng.Uint64N(30)
			}
			if m.last > 0 {
				m.during(0) // between two turns, too
			}
			end := m.last
			got := c.Read(Limits{Work: rng.IntN(300), Records: rng.IntN(20)}, func(seq uint64, rec []byte) (int, error) {
				if seq != done+1 || c.Next() != seq || uint64(len(rec)) != 10+seq%7 {
					t.Fatalf("seed %d: record %d of %d bytes behind %d, the cursor is at %d", seed, seq, len(rec), done, c.Next())
				}
				if rng.IntN(10) == 0 {
					return 0, ErrLater
				}
				done = seq
				return 0, nil
			})
			switch got.State {
			case Gone:
				if got.Gone < c.Next() || got.Gone >= m.first {
					t.Fatalf("seed %d: records %d to %d are called gone, the log begins with %d", seed, c.Next(), got.Gone, m.first)
				}
				done = got.Gone
				c.Move(done + 1)
			case AtEnd:
				if done != end {
					t.Fatalf("seed %d: at the end with %d of %d", seed, done, end)
				}
			case Failed:
				t.Fatal(got.Err)
			}
		}
		if done != m.last {
			t.Fatalf("seed %d: %d of %d", seed, done, m.last)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name string
		lim  Limits
		work int // of each record besides its bytes
		next uint64
		end  State
	}{
		{"none", Limits{}, 0, 101, AtEnd},
		{"records", Limits{Records: 7}, 0, 8, More},
		{"as many records as there are", Limits{Records: 100}, 0, 101, AtEnd},
		{"before", Limits{Before: 50}, 0, 50, More},
		{"work of bytes", Limits{Work: 30}, 0, 4, More}, // 11, 12 and 13 bytes
		{"work besides", Limits{Work: 30}, 100, 2, More},
		{"the first record is read in any case", Limits{Work: 1}, 0, 2, More},
	} {
		cur := At(&memory{first: 1, last: 100}, 1)
		if got := cur.Read(c.lim, func(uint64, []byte) (int, error) { return c.work, nil }); got.State != c.end ||
			cur.Next() != c.next {
			t.Errorf("%s: %+v, next %d, want state %d, next %d", c.name, got, cur.Next(), c.end, c.next)
		}
	}
}

// What cannot be read, by the log or by whoever is given it, comes again.
func TestFails(t *testing.T) {
	m, broken := &memory{first: 1, last: 5}, errors.New("broken")
	c := At(m, 1)
	got := c.Read(Limits{}, func(seq uint64, _ []byte) (int, error) {
		if seq == 3 {
			return 0, broken
		}
		return 0, nil
	})
	if got.State != Failed || !errors.Is(got.Err, broken) || c.Next() != 3 {
		t.Errorf("%+v, next %d", got, c.Next())
	}
	m.err = broken
	if got := c.Read(Limits{}, nil); got.State != Failed || !errors.Is(got.Err, broken) || c.Next() != 3 {
		t.Errorf("%+v, next %d", got, c.Next())
	}
}

func TestFollower(t *testing.T) {
	m := &memory{first: 1, last: 3}
	f := Start(m, 1)
	take := func(uint64, []byte) (int, error) { return 0, nil }
	if f.AtEnd() {
		t.Error("nothing was read, and it is at the end")
	}
	if f.Read(Limits{Records: 1}, take); f.AtEnd() {
		t.Error("at the end with one of three")
	}
	if f.Read(Limits{}, take); !f.AtEnd() {
		t.Error("not at the end")
	}
	m.last = 5
	m.wakes[0] <- struct{}{}
	<-f.Wake()
	if f.Woken(); f.AtEnd() {
		t.Error("woken, and at the end")
	}
	if f.ToEnd(); f.Next() != 6 {
		t.Errorf("next %d", f.Next())
	}
	if f.Stop(); m.wakes != nil {
		t.Error("it still follows")
	}
	stopped := make(chan struct{})
	close(stopped)
	if Pause(1<<62, stopped) || !Pause(0, nil) {
		t.Error("a pause does not end as it should")
	}
}
