package feed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// TestHearsTheEnd: whoever acknowledges without a pause does not keep the pump from anything else.
func TestHearsTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &Pump{set: Settings{Window: 4, AckTimeout: time.Minute, Log: newWorld()},
		stop: make(chan struct{}), asks: make(chan *ask)}
	close(p.stop)
	c := newConn(p, ctx, cancel, nil)
	c.in = make(chan heard, 100*hearMost)
	for range cap(c.in) {
		c.in <- heard{ack: &pluginv1.Ack{}}
	}
	for !c.closing {
		if len(c.in) == 0 {
			t.Fatal("it is not heard")
		}
		if e := c.step(ctx); e.cause != notYet {
			t.Fatalf("%+v", e)
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	for name, c := range map[string]struct {
		reply func(b *pluginv1.Batch) []reply
		want  string
	}{
		"beyond what was sent": {func(b *pluginv1.Batch) []reply { return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq + 1}}} }, "nothing behind 100 was sent"},
		"backwards": {func(b *pluginv1.Batch) []reply {
			return []reply{{ack: &pluginv1.Ack{Seq: 50}}, {ack: &pluginv1.Ack{Seq: 49}}}
		}, "it acknowledges 49 after 50"},
		"a refusal of nothing": {func(b *pluginv1.Batch) []reply {
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}, {ack: &pluginv1.Ack{Error: "no"}}}
		}, "it refuses what is behind 100, but nothing was sent"},
		"without end": {func(b *pluginv1.Batch) []reply {
			return slices.Repeat([]reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}, emptyMost+2)
		}, "it acknowledged nothing new 65536 times"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world, _ *Settings) {
				w.add(100, "decision")
				w.behave = c.reply
			}, func(t *testing.T, w *world, p *Pump) {
				after(50 * time.Millisecond)
				s := p.Status()
				if s.State != StateBackoff || !strings.Contains(s.Detail, c.want) || s.Protocol != 1 {
					t.Fatalf("%+v", s)
				}
				after(time.Hour)
				expect(t, "events", w.types(), []string{}) // it is not the records' fault
				w.with(func() { w.behave = nil })
				after(time.Minute)
				expect(t, "cursor", p.Status().Cursor, 100)
			})
		})
	}
}

// guesser reads the first batch of a stream and nothing more, and acknowledges what it thinks comes next.
type guesser struct{ w *world }

func (g guesser) Consume(ctx context.Context) (Stream, error) {
	return &guessing{w: g.w, ctx: ctx, first: make(chan uint64, 1)}, nil
}

type guessing struct {
	w     *world
	ctx   context.Context
	first chan uint64
	sent  int
	next  uint64
}

func (g *guessing) Send(b *pluginv1.Batch) error {
	if g.sent++; g.sent == 1 {
		g.first <- b.FirstSeq
		return nil
	}
	<-g.ctx.Done()
	return g.ctx.Err()
}

func (g *guessing) CloseSend() error { return nil }

func (g *guessing) Recv() (*pluginv1.Ack, error) {
	select {
	case first := <-g.first:
		g.next = first - 1
	case <-time.After(100 * time.Millisecond):
	case <-g.ctx.Done():
		return nil, g.ctx.Err()
	}
	g.next += 256
	g.w.with(func() { g.w.taken = max(g.w.taken, g.next) })
	return &pluginv1.Ack{Seq: g.next}, nil
}

// What was not sent yet cannot be acknowledged. Who reads nothing and guesses is not believed, and holds nobody up.
func TestAcknowledgesWhatItHasNotRead(t *testing.T) {
	bubble(t, func(w *world, s *Settings) {
		w.add(5000, "decision")
		s.Consumer = guesser{w}
	}, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		s := p.Status()
		if s.Protocol == 0 || s.Cursor > 2*256 || !strings.Contains(s.Detail, "but nothing behind 51") {
			t.Errorf("%+v", s)
		}
		after(time.Minute)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		expect(t, "close", p.Close(ctx), nil)
	})
}

// Who acknowledges the last record that it was given need not know that the batch goes on over records that were
// filtered out.
func TestAcknowledgesTheLastRecord(t *testing.T) {
	bubble(t, func(w *world, s *Settings) {
		w.kinds = []string{"kill"}
		s.Types = w.kinds
		w.behave = func(b *pluginv1.Batch) []reply {
			last := b.LastSeq
			if n := len(b.Records); n > 0 {
				last = b.Records[n-1].Seq
			}
			return []reply{{ack: &pluginv1.Ack{Seq: last}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		for range 10 {
			w.add(3, "decision")
			w.add(2, "kill")
			w.add(4, "decision")
			after(time.Second)
		}
		s := p.Status()
		expect(t, "cursor, delivered, connects, failures", []any{s.Cursor, s.Delivered, s.Connects, s.Failures},
			[]any{90, 20, 1, 0})
	})
}

// Any acknowledgement within what was sent is good, also in the middle of a batch, one that says nothing new, and one
// said twice.
func TestPartialAcknowledgements(t *testing.T) {
	bubble(t, func(w *world, _ *Settings) {
		w.add(1000, "decision")
		w.behave = func(b *pluginv1.Batch) []reply {
			mid := (b.FirstSeq + b.LastSeq) / 2
			return []reply{{ack: &pluginv1.Ack{}}, {ack: &pluginv1.Ack{Seq: mid}}, {ack: &pluginv1.Ack{Seq: mid}},
				{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		after(5 * time.Second)
		s := p.Status()
		expect(t, "cursor, delivered, protocol", []any{s.Cursor, s.Delivered, s.Protocol, s.Redelivered},
			[]any{1000, 1000, 0, 0})
	})
}
