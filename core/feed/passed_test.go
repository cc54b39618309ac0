package feed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Whoever checks that each batch follows the one before sees no hole where a record was passed over: the next stream
// begins with saying so, until that is acknowledged.
func TestPassedOverIsTold(t *testing.T) {
	for name, stubborn := range map[string]bool{"acknowledged": false, "never acknowledged": true} {
		t.Run(name, func(t *testing.T) {
			var told []string
			var first uint64 // of the batch behind
			bubble(t, func(w *world, set *Settings) {
				for i := range 60 {
					w.add(1, []string{"decision", "scan"}[i%2])
				}
				w.kinds, set.Types, set.OnPoison = []string{"decision"}, []string{"decision"}, PoisonDead
				last := uint64(0)
				w.behave = func(b *pluginv1.Batch) []reply {
					if b.FirstSeq > last+1 && !stubborn {
						t.Errorf("a hole between %d and %d", last, b.FirstSeq)
					}
					if g := b.Gap; g != nil {
						told = append(told, fmt.Sprintf("%d-%d: %d-%d %s", b.FirstSeq, b.LastSeq, g.FirstSeq, g.LastSeq, g.Reason))
						if stubborn {
							return []reply{{err: status.Error(codes.Unknown, "no gaps here")}}
						}
					}
					if i := slices.IndexFunc(b.Records, func(r *pluginv1.Record) bool { return r.Seq == 31 || r.Seq == 33 }); i >= 0 {
						before := b.FirstSeq - 1
						if i > 0 {
							before = b.Records[i-1].Seq
						}
						last = max(last, before)
						return []reply{{ack: &pluginv1.Ack{Seq: before}}, {ack: &pluginv1.Ack{Error: "not this one"}}}
					}
					if b.Gap == nil && len(told) > 0 && first == 0 {
						first = b.FirstSeq
					}
					last = b.LastSeq
					return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
				}
			}, func(t *testing.T, w *world, p *Pump) {
				after(time.Hour)
				if s := p.Status(); s.Cursor < 60 {
					t.Errorf("%+v", s)
				}
				if !stubborn {
					expect(t, "events", w.types(), []string{"dead_letter 31-31", "dead_letter 33-33"})
					expect(t, "told", told, []string{"30-31: 31-31 dead_letter", "32-33: 33-33 dead_letter"})
					return
				}
				expect(t, "told", told[:5], slices.Repeat([]string{"30-31: 31-31 dead_letter"}, 5))
				expect(t, "told in all", len(told), 10)
				expect(t, "what follows", first, 34)
			})
		})
	}
}

// A subscriber that is gone when it is told of what was passed over has refused nothing: it is told for as long as it
// takes, unless an operator says otherwise.
func TestPassedOverInAnOutage(t *testing.T) {
	for name, skip := range map[string]bool{"it ends": false, "an operator's word": true} {
		t.Run(name, func(t *testing.T) {
			told, down := 0, true
			bubble(t, func(w *world, set *Settings) {
				w.add(60, "decision")
				set.OnPoison = PoisonDead
				w.behave = func(b *pluginv1.Batch) []reply {
					switch i := slices.IndexFunc(b.Records, func(r *pluginv1.Record) bool { return r.Seq == 31 }); {
					case b.Gap != nil:
						if told++; down {
							return []reply{{err: status.Error(codes.Unavailable, "the database is down")}}
						}
					case i == 0:
						return []reply{{ack: &pluginv1.Ack{Error: "not this one"}}}
					case i > 0:
						return []reply{{ack: &pluginv1.Ack{Seq: 30}}, {ack: &pluginv1.Ack{Error: "not this one"}}}
					}
					return []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
				}
			}, func(t *testing.T, w *world, p *Pump) {
				after(time.Hour)
				s, before := p.Status(), 0
				w.with(func() { before = told })
				if before < 50 || s.Cursor != 31 || s.Poison != 0 ||
					!strings.Contains(s.Detail, "when it was told that records 31 to 31 were passed over") {
					t.Fatalf("told %d times, %+v", before, s)
				}
				expect(t, "no word", p.Resume(context.Background(), operator, false), "it is not paused")
				events := []string{"dead_letter 31-31"}
				if skip {
					expect(t, "skip", p.Resume(context.Background(), operator, true), nil)
					expect(t, "skip again", p.Resume(context.Background(), operator, true), "it is stuck at no record")
					events = append(events, "resumed 31-31")
				} else {
					w.with(func() { down = false })
				}
				more := 0
				w.with(func() { before = told })
				after(time.Minute)
				w.with(func() { more = told - before })
				if more != 1 && !skip || more != 0 && skip || p.Status().Cursor < 60 {
					t.Errorf("told %d times more, %+v", more, p.Status())
				}
				expect(t, "events", w.types(), events)
			})
		})
	}
}
