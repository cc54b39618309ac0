package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// deed is one thing that happens to a pump.
type deed struct {
	What string
	N    int
}

// moods are what a subscriber may be like for a while.
var moods = []string{"good", "good", "partial", "silent", "break", "gone", "refuse", "beyond", "back", "slow"}

// play runs a story and gives what the oracle has found.
func play(t *testing.T, deeds []deed, filter bool, dead bool) (err error) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if filter {
			w.kinds = []string{"decision", "subscriber_dead_letter"}
		}
		story := &story{w: w, mood: "good", set: func(_ *world, s *Settings) {
			if dead {
				s.OnPoison = PoisonDead
			}
		}}
		w.behave = story.behave
		story.p = w.start(t, story.set)
		for _, d := range deeds {
			story.do(t, d)
		}
		err = story.end()
		for _, p := range w.pumps {
			p.crash()
		}
	})
	return err
}

type story struct {
	w    *world
	p    *Pump
	mood string
	bad  uint64
	set  func(*world, *Settings)
}

func (s *story) do(t *testing.T, d deed) {
	w := s.w
	switch d.What {
	case "write":
		w.add(d.N, "decision")
	case "write other":
		w.add(d.N, "scan")
	case "wait":
		after(time.Duration(d.N) * time.Millisecond)
	case "wait long":
		after(time.Duration(d.N) * time.Second)
	case "mood":
		w.with(func() { s.mood = moods[d.N%len(moods)] })
	case "poison":
		w.with(func() { s.bad = w.taken + 1 + uint64(d.N) })
	case "die":
		w.die()
	case "down":
		w.with(func() { w.down = d.N%2 == 0 })
	case "crash":
		s.p.crash()
		s.p = w.start(t, s.set)
	case "restart":
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_ = s.p.Close(ctx)
		cancel()
		s.p = w.start(t, s.set)
	case "disk":
		w.with(func() {
			w.onMove = func(Move) (bool, error) { return d.N%3 == 1, errors.New("stalled") }
			if d.N%3 == 0 {
				w.onMove = nil
			}
		})
	case "trim":
		w.trim(uint64(d.N))
	case "replay":
		_ = s.p.Replay(context.Background(), operator, uint64(d.N))
	case "resume":
		_ = s.p.Resume(context.Background(), operator, d.N%2 == 0)
	}
}

func (s *story) behave(b *pluginv1.Batch) []reply {
	if s.bad != 0 && slices.ContainsFunc(b.Records, func(r *pluginv1.Record) bool { return r.Seq == s.bad }) {
		return []reply{{err: status.Error(codes.Internal, "panic")}}
	}
	good := reply{ack: &pluginv1.Ack{Seq: b.LastSeq}}
	switch s.mood {
	case "partial":
		return []reply{{ack: &pluginv1.Ack{Seq: (b.FirstSeq + b.LastSeq) / 2}}}
	case "silent":
		return []reply{{mute: true}}
	case "break":
		return []reply{good, {err: status.Error(codes.Internal, "broken")}}
	case "gone":
		return []reply{{err: status.Error(codes.Unavailable, "reset")}}
	case "refuse":
		return []reply{{ack: &pluginv1.Ack{Seq: b.FirstSeq - 1, Error: "no"}}}
	case "beyond":
		// Far beyond: what is on its way to it may be acknowledged as far as the pump can tell.
		return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq + 1<<20}}}
	case "back":
		return []reply{good, {ack: &pluginv1.Ack{Seq: b.FirstSeq - 1}}}
	case "slow":
		s.w.mu.Unlock()
		time.Sleep(3 * time.Second)
		s.w.mu.Lock()
	}
	return []reply{good}
}

// end lets everything be well again: then everything must arrive.
func (s *story) end() error {
	w := s.w
	w.with(func() { s.mood, s.bad, w.down, w.onMove = "good", 0, false, nil })
	for range 20 {
		after(time.Minute)
		if s.p.Status().State == StatePaused {
			if err := s.p.Resume(context.Background(), operator, false); err != nil {
				return err
			}
		}
	}
	w.add(1, "decision")
	after(5 * time.Minute)
	st := s.p.Status()
	if st.Cursor != w.Seq() || st.State != StateDelivering {
		return fmt.Errorf("in the end it is %+v, the log has %d records", st, w.Seq())
	}
	return w.verdict()
}

func TestAnyStory(t *testing.T) {
	kinds := []string{"write", "write", "write", "write other", "wait", "wait", "wait", "wait long", "mood", "mood",
		"mood", "poison", "die", "down", "crash", "crash", "restart", "disk", "trim", "replay", "resume"}
	rapid.Check(t, func(rt *rapid.T) {
		deeds := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) deed {
			return deed{rapid.SampledFrom(kinds).Draw(rt, "what"), rapid.IntRange(0, 600).Draw(rt, "n")}
		}), 1, 40).Draw(rt, "deeds")
		if err := play(t, deeds, rapid.Bool().Draw(rt, "filter"), rapid.Bool().Draw(rt, "dead letters")); err != nil {
			rt.Fatal(err)
		}
	})
}
