package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

var operator = Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin", Peer: "0"}

// bubble runs a test on a clock of its own and asks the oracle at the end.
func bubble(t *testing.T, set func(w *world, s *Settings), fn func(t *testing.T, w *world, p *Pump)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer func() {
			for _, p := range w.pumps {
				p.crash()
			}
		}()
		fn(t, w, w.start(t, set))
		if err := w.verdict(); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) start(t *testing.T, set func(w *world, s *Settings)) *Pump {
	t.Helper()
	s := w.settings()
	if set != nil {
		set(w, &s)
	}
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	w.pumps = append(w.pumps, p)
	return p
}

// after lets time pass and everybody come to rest.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func TestDelivers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		w.add(1000, "decision")
		after(2 * time.Second)
		s := p.Status()
		expect(t, "state", s.State, StateDelivering)
		expect(t, "cursor, delivered, lag", []any{s.Cursor, s.Delivered, s.LagRecords, s.Redelivered},
			[]any{1000, 1000, 0, 0})
		if n := len(w.batches); n != 4 {
			t.Errorf("%d batches for 1000 records", n)
		}
		if w.moves > 5 {
			t.Errorf("the cursor was written %d times for 4 batches", w.moves)
		}
		expect(t, "close", p.Close(context.Background()), nil)
		expect(t, "state", p.Status().State, StateClosed)
		expect(t, "word to a closed pump", errors.Is(p.Resume(context.Background(), operator, false), ErrClosed), true)
	})
}

// At most four batches are on their way, and the durable cursor counts: a crash brings back no more than those.
func TestWindow(t *testing.T) {
	var acks []reply
	silent := func(b *pluginv1.Batch) []reply {
		acks = append(acks, reply{ack: &pluginv1.Ack{Seq: b.LastSeq}})
		return nil
	}
	bubble(t, func(w *world, _ *Settings) {
		w.behave = silent
		w.add(5000, "decision")
	}, func(t *testing.T, w *world, p *Pump) {
		after(5 * time.Second)
		expect(t, "batches without an acknowledgement", len(w.batches), 4)
		w.with(func() { w.onMove = func(Move) (bool, error) { return false, errors.New("stalled") } })
		w.with(func() { w.taken = 1024; w.open.out <- acks[3] })
		after(5 * time.Second)
		expect(t, "batches while the cursor cannot be written", len(w.batches), 4)
		if s := p.Status(); s.Cursor != 0 || !strings.Contains(s.Detail, "stalled") {
			t.Errorf("%+v", s)
		}
		w.with(func() { w.onMove = nil })
		after(5 * time.Second)
		expect(t, "batches once it can", len(w.batches), 8)
		p.crash()
		w.behave = nil
		p = w.start(t, nil)
		after(10 * time.Second)
		expect(t, "cursor", p.Status().Cursor, 5000)
		expect(t, "duplicates", w.twice(), 1024)
		expect(t, "close", p.Close(context.Background()), nil)
	})
}

// A crash at any moment of the cursor's life misses nothing.
func TestCrashAroundTheCursor(t *testing.T) {
	for name, c := range map[string]struct {
		applied bool
		at      uint64
	}{"before the first write": {false, 0}, "after it": {true, 0}, "before one in the middle": {false, 700},
		"after one in the middle": {true, 700}} {
		t.Run(name, func(t *testing.T) {
			var victim *Pump
			bubble(t, nil, func(t *testing.T, w *world, p *Pump) {
				victim = p
				w.with(func() {
					w.onMove = func(m Move) (bool, error) {
						if m.To < c.at {
							return true, nil
						}
						victim.kill()
						return c.applied, errors.New("gone")
					}
				})
				w.add(2000, "decision")
				after(time.Second)
				<-p.done
				w.with(func() { w.onMove = nil })
				p = w.start(t, nil)
				after(10 * time.Second)
				expect(t, "cursor", p.Status().Cursor, 2000)
				if n := w.twice(); n > 1024 {
					t.Errorf("%d records came twice, the window has 1024", n)
				}
				p.crash()
			})
		})
	}
}

// A subscriber that is killed again and again gets everything, and nothing is blamed on records.
func TestProcessKilled(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, p *Pump) {
		for range 50 {
			w.add(300, "decision")
			after(7 * time.Millisecond)
			w.with(func() { w.down = true })
			w.die()
			after(500 * time.Millisecond)
			w.with(func() { w.down = false })
		}
		after(time.Minute)
		s := p.Status()
		expect(t, "cursor", s.Cursor, 15000)
		expect(t, "failures, dead letters, events", []any{s.Failures, s.DeadLetters, w.types()}, []any{0, 0, []string{}})
	})
}

// A crash that comes with a record is not poison by itself, but the operator sees which record it is.
func TestProcessDiesOfARecord(t *testing.T) {
	bubble(t, func(w *world, _ *Settings) {
		w.add(600, "decision")
		w.behave = func(b *pluginv1.Batch) []reply {
			if slices.ContainsFunc(b.Records, func(r *pluginv1.Record) bool { return r.Seq == 333 }) {
				return []reply{{err: status.Error(codes.Unavailable, "connection reset")}}
			}
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(10 * time.Minute)
		s := p.Status()
		expect(t, "cursor and the record", []any{s.Cursor, s.Poison, w.types()}, []any{332, 333, []string{}})
		expect(t, "not paused", p.Resume(context.Background(), operator, false), "it is not paused")
		expect(t, "skip", p.Resume(context.Background(), operator, true), nil)
		after(time.Minute)
		expect(t, "cursor", p.Status().Cursor, 601)
		expect(t, "events", w.types(), []string{"dead_letter 333-333"})
	})
}

// poison refuses one record in every way there is.
func poison(how string, bad uint64) func(b *pluginv1.Batch) []reply {
	return func(b *pluginv1.Batch) []reply {
		i := slices.IndexFunc(b.Records, func(r *pluginv1.Record) bool { return r.Seq == bad })
		if i < 0 {
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
		switch how {
		case "exact refusal":
			return []reply{{ack: &pluginv1.Ack{Seq: bad - 1, Error: "bad record"}}}
		case "refusal of the batch":
			return []reply{{ack: &pluginv1.Ack{Seq: b.FirstSeq - 1, Error: "bad batch"}}}
		case "refusal with nothing new":
			return []reply{{ack: &pluginv1.Ack{Error: "bad batch"}}}
		case "broken stream":
			return []reply{{err: status.Error(codes.Internal, "panic")}}
		case "end of the stream":
			return []reply{{err: io.EOF}}
		}
		return []reply{{mute: true}} // silence
	}
}

var poisons = []string{"exact refusal", "refusal of the batch", "refusal with nothing new", "broken stream",
	"end of the stream", "silence"}

// The record that fails is found among its neighbours, which all get through.
func TestPoisonDeadLetter(t *testing.T) {
	for _, how := range poisons {
		for _, bad := range []uint64{1, 2, 255, 257, 700, 1024, 1500} {
			t.Run(fmt.Sprintf("%s of %d", how, bad), func(t *testing.T) {
				bubble(t, func(w *world, s *Settings) {
					s.OnPoison = PoisonDead
					w.add(1500, "decision")
					w.behave = poison(how, bad)
				}, func(t *testing.T, w *world, p *Pump) {
					after(20 * time.Minute)
					s := p.Status()
					expect(t, "events", w.types(), []string{fmt.Sprintf("dead_letter %d-%d", bad, bad)})
					expect(t, "cursor, delivered, dead letters, failures",
						[]any{s.Cursor, s.Delivered, s.DeadLetters, s.Failures >= 5 && s.Failures <= 6}, []any{1501, 1500, 1, true})
					if tries := w.got[bad]; tries < 5 || tries > 6 {
						t.Errorf("it was tried %d times", tries)
					}
					if why := w.events[0].Why; why == "" {
						t.Error("the dead letter does not say why")
					}
				})
			})
		}
	}
}

func TestPoisonPause(t *testing.T) {
	for _, how := range poisons {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(w *world, _ *Settings) {
				w.add(1000, "decision")
				w.behave = poison(how, 500)
			}, func(t *testing.T, w *world, p *Pump) {
				ctx := context.Background()
				after(20 * time.Minute)
				s := p.Status()
				expect(t, "state", []any{s.State, s.Cursor, s.Poison}, []any{StatePaused, 499, 500})
				expect(t, "events", w.types(), []string{"paused 500-500"})
				expect(t, "replay", p.Replay(ctx, operator, 1), "it is paused at record 500: resume it first")
				expect(t, "resume", p.Resume(ctx, operator, false), nil)
				after(20 * time.Minute)
				expect(t, "state after it fails again", p.Status().State, StatePaused)
				expect(t, "events", w.types(), []string{"paused 500-500", "resumed 500-500", "paused 500-500"})
				expect(t, "skip", p.Resume(ctx, operator, true), nil)
				after(time.Minute)
				expect(t, "state", []any{p.Status().State, p.Status().Cursor}, []any{StateDelivering, w.Seq()})
				expect(t, "events", w.types()[3:], []string{"dead_letter 500-500", "resumed 0-0"})
				expect(t, "who", w.events[3].By, operator)
			})
		})
	}
}

// A subscriber that mends itself is not paused, whatever it has failed at before.
func TestFailuresAreForgottenWithProgress(t *testing.T) {
	bubble(t, func(w *world, _ *Settings) {
		w.add(20, "decision")
		tries := map[uint64]int{}
		w.behave = func(b *pluginv1.Batch) []reply {
			if tries[b.FirstSeq]++; tries[b.FirstSeq] < 5 {
				return []reply{{ack: &pluginv1.Ack{Seq: b.FirstSeq - 1, Error: "not now"}}}
			}
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(time.Hour)
		expect(t, "events, cursor", []any{w.types(), p.Status().Cursor}, []any{[]string{}, 20})
	})
}

// The record that tells of a dead letter may be poison, too: that must have an end.
func TestDeadLettersOfDeadLetters(t *testing.T) {
	bubble(t, func(w *world, s *Settings) {
		s.OnPoison = PoisonDead
		w.add(1, "decision")
		w.behave = func(b *pluginv1.Batch) []reply {
			return []reply{{ack: &pluginv1.Ack{Seq: b.FirstSeq - 1, Error: "nothing pleases me"}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(24 * time.Hour)
		expect(t, "state", p.Status().State, StatePaused)
		expect(t, "events", w.types(), []string{"dead_letter 1-1", "paused 2-2"})
	})
}

func TestGap(t *testing.T) {
	bubble(t, func(w *world, _ *Settings) { w.add(100, "decision") }, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		w.with(func() { w.down = true })
		w.die()
		w.add(500, "decision")
		after(time.Second)
		w.trim(400)
		s := p.Status()
		expect(t, "gap in the status", []any{s.Gap, s.LagRecords, s.State}, []any{300, 500, StateWaiting})
		w.with(func() { w.down = false })
		after(10 * time.Second)
		expect(t, "events", w.types(), []string{"gap 101-400"})
		s = p.Status()
		expect(t, "cursor, lost", []any{s.Cursor, s.Lost, s.Gap}, []any{601, 300, 0})
		i := slices.IndexFunc(w.batches, func(b *pluginv1.Batch) bool { return b.Gap != nil })
		if b := w.batches[i]; b.FirstSeq != 101 || b.LastSeq != 400 || b.Gap.FirstSeq != 101 || b.Gap.LastSeq != 400 ||
			len(b.Records) != 0 || b.Gap.Reason == "" {
			t.Errorf("%v", b)
		}
	})
}

// A gap that was not acknowledged is told again, and recorded once.
func TestGapIsToldUntilAcknowledged(t *testing.T) {
	refused := 0
	bubble(t, func(w *world, _ *Settings) {
		w.add(100, "decision")
		w.disk["siem"] = Position{10, 10}
		w.taken = 10
		w.trim(50)
		w.behave = func(b *pluginv1.Batch) []reply {
			if b.Gap != nil && refused < 3 {
				refused++
				return []reply{{err: status.Error(codes.Unavailable, "reset")}}
			}
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(time.Minute)
		expect(t, "events, cursor", []any{w.types(), p.Status().Cursor}, []any{[]string{"gap 11-50"}, 101})
	})
}

func TestStart(t *testing.T) {
	for start, want := range map[string]uint64{StartEarliest: 41, StartLatest: 101} {
		t.Run(start, func(t *testing.T) {
			bubble(t, func(w *world, s *Settings) {
				w.add(100, "decision")
				w.trim(40)
				w.down = true
				s.Start = start
			}, func(t *testing.T, w *world, p *Pump) {
				after(time.Second)
				p.crash() // before it was ready for the first time: "latest" was then, not now
				w.add(10, "decision")
				w.with(func() { w.down = false })
				p = w.start(t, func(_ *world, s *Settings) { s.Start = start })
				after(time.Second)
				expect(t, "first record, events", []any{w.batches[0].Records[0].Seq, w.types()}, []any{want, []string{}})
				p.crash()
			})
		})
	}
}

func TestReplay(t *testing.T) {
	bubble(t, func(w *world, _ *Settings) { w.add(1000, "decision") }, func(t *testing.T, w *world, p *Pump) {
		ctx := context.Background()
		after(5 * time.Second)
		w.trim(100)
		expect(t, "too late", p.Replay(ctx, operator, 1002), "from: 1002 was not delivered yet, the cursor is at 1000")
		expect(t, "gone", p.Replay(ctx, operator, 100), "from: 100 is gone, the log begins with 101")
		expect(t, "replay", p.Replay(ctx, operator, 301), nil)
		expect(t, "cursor", w.disk["siem"], Position{300, 1000})
		w.add(100, "decision")
		after(5 * time.Second)
		expect(t, "events", w.types(), []string{"replay 301-1000"})
		expect(t, "came twice", []any{w.got[300], w.got[301], w.got[1000], w.got[1001]}, []any{1, 2, 2, 1})
		expect(t, "status", []any{p.Status().Cursor, p.Status().Redelivered}, []any{1101, 0})
	})
}

// A replay that fails half way, when the cursor was written for the last time before it, leaves the window open.
func TestReplayFails(t *testing.T) {
	var acks []reply
	bubble(t, func(w *world, _ *Settings) {
		w.add(5000, "decision")
		w.behave = func(b *pluginv1.Batch) []reply {
			acks = append(acks, reply{ack: &pluginv1.Ack{Seq: b.LastSeq}})
			return nil
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(5 * time.Second)
		stalled := errors.New("stalled")
		w.with(func() {
			w.onMove = func(Move) (bool, error) { return false, stalled }
			w.taken = 1024
			w.open.out <- acks[3]
		})
		after(100 * time.Millisecond)
		w.with(func() {
			w.onMove = func(m Move) (bool, error) {
				if m.Back {
					return false, stalled
				}
				return true, nil
			}
		})
		expect(t, "replay", errors.Is(p.Replay(context.Background(), operator, 1), stalled), true)
		w.with(func() { w.onMove = nil })
		after(5 * time.Second)
		expect(t, "cursor, batches", []any{p.Status().Cursor, len(w.batches)}, []any{1024, 8})
	})
}

// While the first cursor cannot be written nobody is told that it is at 0.
func TestBeginsLate(t *testing.T) {
	bubble(t, func(w *world, s *Settings) {
		w.add(100, "decision")
		s.Start = StartLatest
		w.onMove = func(Move) (bool, error) { return false, errors.New("stalled") }
	}, func(t *testing.T, w *world, p *Pump) {
		after(10 * time.Second)
		_, known := p.Cursor()
		s := p.Status()
		expect(t, "cursor is known, lag", []any{known, s.LagRecords, s.LagBytes}, []any{false, 0, 0})
		if s.State != StateBackoff || !strings.Contains(s.Detail, "stalled") {
			t.Errorf("%+v", s)
		}
		w.with(func() { w.onMove = nil })
		after(time.Minute)
		at, known := p.Cursor()
		expect(t, "cursor", []any{at, known}, []any{100, true})
	})
}

// A slow subscriber that lives gets everything without being blamed, as long as something goes on within 30 s.
func TestSlow(t *testing.T) {
	bubble(t, func(w *world, _ *Settings) {
		w.add(1000, "decision")
		w.behave = func(b *pluginv1.Batch) []reply {
			w.mu.Unlock()
			time.Sleep(29 * time.Second)
			w.mu.Lock()
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(10 * time.Minute)
		s := p.Status()
		expect(t, "cursor, failures, connects", []any{s.Cursor, s.Failures, s.Connects}, []any{1000, 0, 1})
	})
}

// One that stands still for 60 s gets what it missed.
func TestStopped(t *testing.T) {
	stopped := false
	bubble(t, func(w *world, _ *Settings) {
		w.behave = func(b *pluginv1.Batch) []reply {
			if stopped {
				return []reply{{mute: true}}
			}
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		for range 10 {
			w.add(2000, "decision")
			after(5 * time.Second)
			w.with(func() { stopped = true })
			w.add(500, "decision")
			after(time.Minute)
			w.with(func() { stopped = false })
			after(2 * time.Minute)
		}
		expect(t, "cursor, events", []any{p.Status().Cursor, w.types()}, []any{25_000, []string{}})
		if n := w.twice(); n > 10*3*1024 {
			t.Errorf("%d records came twice", n)
		}
	})
}

func TestLogThatCannotBeRead(t *testing.T) {
	bubble(t, func(w *world, _ *Settings) {
		w.add(10, "decision")
		w.logErr = errors.New("bad sector")
	}, func(t *testing.T, w *world, p *Pump) {
		after(time.Minute)
		if s := p.Status(); s.Cursor != 0 || !strings.Contains(s.Detail, "bad sector") {
			t.Errorf("%+v", s)
		}
		w.with(func() { w.logErr = nil })
		after(5 * time.Second)
		expect(t, "cursor", p.Status().Cursor, 10)
	})
}

// Close waits for acknowledgements that come, and not for those that do not.
func TestClose(t *testing.T) {
	for _, answers := range []bool{true, false} {
		bubble(t, func(w *world, _ *Settings) {
			w.add(300, "decision")
			w.behave = func(b *pluginv1.Batch) []reply {
				w.mu.Unlock()
				time.Sleep(2 * time.Second)
				w.mu.Lock()
				if !answers {
					return []reply{{mute: true}}
				}
				return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
			}
		}, func(t *testing.T, w *world, p *Pump) {
			after(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			begin := time.Now()
			err := p.Close(ctx)
			want := uint64(300)
			if !answers {
				want = 0
			}
			expect(t, "closed cleanly, cursor", []any{err == nil, w.disk["siem"].Seq}, []any{answers, want})
			if d := time.Since(begin); answers && d > 6*time.Second || !answers && d > 11*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	w := newWorld()
	for want, change := range map[string]func(s *Settings){
		"name: is missing":                  func(s *Settings) { s.Name = "" },
		`payload: "some" is not one of`:     func(s *Settings) { s.Payload = "some" },
		"payload: redacted takes something": func(s *Settings) { s.Payload = "" },
		`start: "middle" is not one of`:     func(s *Settings) { s.Start = "middle" },
		`on_poison: "drop" is not one of`:   func(s *Settings) { s.OnPoison = "drop" },
		"window: 5 is not within 1 to 4":    func(s *Settings) { s.Window = 5 },
		"batch records: 257 is not":         func(s *Settings) { s.BatchRecords = 257 },
		"batch bytes: -1 is not":            func(s *Settings) { s.BatchBytes = -1 },
		"a log, cursors and a consumer":     func(s *Settings) { s.Log = nil },
		"ack timeout: -1s is negative":      func(s *Settings) { s.AckTimeout = -time.Second },
	} {
		s := w.settings()
		change(&s)
		if p, err := Start(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v %v", want, p, err)
		}
	}
}
