package feed

import (
	"context"
	"testing"
	"time"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func TestFilter(t *testing.T) {
	bubble(t, func(w *world, s *Settings) {
		w.kinds = []string{"kill", "unkill"}
		s.Types = w.kinds
	}, func(t *testing.T, w *world, p *Pump) {
		after(time.Second)
		w.add(20_000, "decision")
		after(5 * time.Second)
		s := p.Status()
		expect(t, "no record sent, cursor at the end", []any{s.Delivered, s.Cursor, s.Filtered}, []any{0, 20_000, 20_000})
		before, told := w.moves, len(w.batches)
		for range 100 {
			w.add(1, "decision")
			after(100 * time.Millisecond)
		}
		if n := w.moves - before; n > 12 {
			t.Errorf("the cursor moved %d times in 10 s over what nobody wants", n)
		}
		if n := len(w.batches) - told; n > 12 {
			t.Errorf("%d batches in 10 s said that all was filtered out", n)
		}
		w.add(1, "kill")
		w.add(10, "decision")
		w.add(1, "unkill")
		after(3 * time.Second)
		expect(t, "sent, cursor", []any{p.Status().Delivered, p.Status().Cursor}, []any{2, 20_112})
		w.add(50, "decision")
		after(3 * time.Second)
		w.add(1, "kill")
		w.with(func() {
			w.behave = func(b *pluginv1.Batch) []reply {
				return []reply{{ack: &pluginv1.Ack{Seq: b.FirstSeq - 1, Error: "no"}}}
			}
		})
		after(30 * time.Millisecond)
		expect(t, "a refusal behind what was filtered out", p.Status().Protocol, 0)
	})
}

// A subscriber is told how far each batch goes, also over what it does not want: however often streams and pumps end,
// the next batch begins where the last one that it took in ended. Whoever proves completeness would else take the rest
// for a hole.
func TestFilteredBatchesHaveNoHoles(t *testing.T) {
	last := uint64(0)
	bubble(t, func(w *world, s *Settings) {
		w.kinds = []string{"kill"}
		s.Types = w.kinds
		w.behave = func(b *pluginv1.Batch) []reply {
			if b.FirstSeq > last+1 {
				w.fault("a batch begins with %d, the one that was acknowledged last ended with %d", b.FirstSeq, last)
			}
			last = max(last, b.LastSeq)
			return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
		}
	}, func(t *testing.T, w *world, p *Pump) {
		for i := range 30 {
			w.add(500, "decision")
			w.add(i%2, "kill")
			after(time.Duration(i) * 137 * time.Millisecond)
			switch i % 3 {
			case 0:
				w.die()
			case 1:
				p.crash()
				p = w.start(t, func(_ *world, s *Settings) { s.Types = w.kinds })
			case 2:
				expect(t, "close", p.Close(context.Background()), nil)
				p = w.start(t, func(_ *world, s *Settings) { s.Types = w.kinds })
			}
		}
		after(time.Minute)
		expect(t, "cursor", p.Status().Cursor, w.Seq())
	})
}
