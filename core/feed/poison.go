package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/core/log"
)

// blame notes against which record a stream has ended. Only one that was on its way can be to blame, and it is the
// first of them for sure only when it was alone: so what was on its way goes one at a time from now on.
func (p *Pump) blame(c *conn, e end) {
	if e.cause == endAsked || e.cause == endClosed {
		return
	}
	if p.stuck = c.pending(); p.stuck == 0 {
		return
	}
	p.size, p.suspect = 1, max(p.suspect, c.after)
	if e.cause != endFailed {
		return
	}
	if p.fail.seq != p.stuck {
		p.fail = failure{seq: p.stuck}
	}
	p.fail.n++
	p.fail.why = e.why
	p.now.Failures++
}

// careful reports whether records go one at a time, or batches one at a time until it is known that they get through.
func (p *Pump) careful() bool { return p.suspect > p.acked || p.size < p.set.BatchRecords }

// settlePoison does what the operator wants done with a record that has failed too often.
func (p *Pump) settlePoison(ctx context.Context) {
	if p.set.OnPoison == PoisonDead && !p.own(p.fail.seq) {
		if err := p.pass(ctx, Event{Why: p.fail.why}); err != nil {
			p.again(ctx, StateBackoff, err.Error())
		}
		return
	}
	e := Event{Type: EventPaused, First: p.fail.seq, Last: p.fail.seq, Why: p.fail.why}
	if err := p.set.Cursors.Move(ctx, Move{Name: p.set.Name, Stay: true, Events: []Event{e}}); err != nil {
		p.again(ctx, StateBackoff, "the pause cannot be recorded: "+err.Error())
		return
	}
	p.set.Report("subscriber %s: paused at record %d: %s", p.set.Name, p.fail.seq, p.fail.why)
	p.paused = true
}

// pass moves the cursor over the record that fails, and records that. The record about it comes with the same write.
func (p *Pump) pass(ctx context.Context, e Event, more ...Event) error {
	seq := p.fail.seq
	if seq == 0 {
		seq = p.stuck
	}
	e.Type, e.First, e.Last = EventDeadLetter, seq, seq
	told := passed{from: p.acked + 1, span: span{seq, seq}}
	for _, g := range p.gaps { // on their way, too, and what is behind the cursor now does not come again
		if g.last > p.acked {
			told.first = min(told.first, max(g.first, p.acked+1))
		}
	}
	if p.passed.last == p.acked && p.passed.last != 0 { // nor did it acknowledge that one
		told.from, told.first = p.passed.from, p.passed.first
	}
	if err := p.move(ctx, seq, append([]Event{e}, more...)...); err != nil {
		return err
	}
	p.set.Report("subscriber %s: record %d was passed over: %s", p.set.Name, seq, e.Why)
	p.now.DeadLetters++
	p.passed = told
	p.tries = 0
	p.publish()
	return nil
}

// own reports whether a record tells of this very subscriber. Such a one is never passed over by itself: that would
// make another record of it, which would fail as this one did, without end. A record that cannot be read counts as one.
func (p *Pump) own(seq uint64) (own bool) {
	h, is, err := p.head(seq)
	if err != nil {
		return false
	}
	return is == 0 || is == seq && string(h.Subscriber) == p.set.Name && strings.HasPrefix(string(h.Type), "subscriber_")
}

// head is what the first record from seq on that is there says of itself, and which one it is; 0 for none, and for one
// that cannot be parsed.
func (p *Pump) head(seq uint64) (h log.Head, is uint64, err error) {
	enough := errors.New("one is enough")
	err = p.set.Log.Records(seq, func(n uint64, record []byte) error {
		if h.Read(bytes.Clone(record)) {
			is = n
		} else {
			h = log.Head{}
		}
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return h, is, err
}

// ask is an operator's word on its way to the pump.
type ask struct {
	by     Who
	resume bool
	skip   bool
	replay uint64
	err    error
	done   chan struct{}
}

// Resume lets a paused subscriber go on. With skip the record that failed is passed over, and recorded as a dead
// letter; skip also helps a subscriber that is not paused but does not get past a record. It returns when that is on
// disk.
func (p *Pump) Resume(ctx context.Context, by Who, skip bool) error {
	return p.word(ctx, &ask{by: by, resume: true, skip: skip})
}

// Replay delivers once more what was delivered, from that record on. It returns when the cursor is there; the batches
// up to where the subscriber was say that they are a replay. Refused: records that were not delivered yet or are gone.
func (p *Pump) Replay(ctx context.Context, by Who, from uint64) error {
	return p.word(ctx, &ask{by: by, replay: from})
}

func (p *Pump) word(ctx context.Context, a *ask) error {
	a.done = make(chan struct{})
	select {
	case p.asks <- a:
	case <-p.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	<-a.done // the pump answers what it has taken
	return a.err
}

// answer does what was asked. It reports whether a stream has to begin anew, or a rest to end.
func (p *Pump) answer(ctx context.Context, a *ask) (anew bool) {
	defer close(a.done)
	switch {
	case !p.began:
		a.err = errors.New("it has not begun yet")
	case a.resume:
		a.err = p.resumed(ctx, a)
	default:
		a.err = p.replayed(ctx, a)
	}
	p.publish()
	return a.err == nil
}

func (p *Pump) resumed(ctx context.Context, a *ask) error {
	why := ""
	if a.by.Principal != "" {
		why = " by " + a.by.Principal
	}
	resumed := Event{Type: EventResumed, By: a.by}
	switch {
	case a.skip && (p.fail.seq != 0 || p.stuck != 0):
		return p.skipped(ctx, Event{Why: strings.TrimSpace(p.fail.why + " (skipped" + why + ")"), By: a.by}, resumed)
	case a.skip && p.passed.ended:
		resumed.First, resumed.Last = p.passed.first, p.passed.last
		if err := p.set.Cursors.Move(ctx, Move{Name: p.set.Name, Stay: true, Events: []Event{resumed}}); err != nil {
			return fmt.Errorf("it cannot be recorded: %w", err)
		}
		p.set.Report("subscriber %s: it is not told any more that records %d to %d were passed over%s", p.set.Name,
			p.passed.first, p.passed.last, why)
		p.passed = passed{}
		return nil
	case a.skip:
		return errors.New("it is stuck at no record")
	case !p.paused:
		return errors.New("it is not paused")
	}
	resumed.First, resumed.Last = p.fail.seq, p.fail.seq
	if err := p.set.Cursors.Move(ctx, Move{Name: p.set.Name, Stay: true, Events: []Event{resumed}}); err != nil {
		return fmt.Errorf("it cannot be recorded: %w", err)
	}
	p.paused, p.fail = false, failure{}
	return nil
}

func (p *Pump) skipped(ctx context.Context, dead, resumed Event) error {
	var more []Event
	if p.paused {
		more = append(more, resumed)
	}
	if err := p.pass(ctx, dead, more...); err != nil {
		return err
	}
	p.paused = false
	return nil
}

func (p *Pump) replayed(ctx context.Context, a *ask) error {
	switch first := p.set.Log.First(); {
	case p.paused:
		return fmt.Errorf("it is paused at record %d: resume it first", p.fail.seq)
	case a.replay < first:
		return fmt.Errorf("from: %d is gone, the log begins with %d", a.replay, first)
	case a.replay > p.acked:
		return fmt.Errorf("from: %d was not delivered yet, the cursor is at %d", a.replay, p.acked)
	}
	to := a.replay - 1
	e := Event{Type: EventReplay, First: a.replay, Last: p.acked, By: a.by}
	high := max(p.at.High, p.acked)
	if p.acked > p.at.Seq { // what is acknowledged is not asked for again after a crash
		if err := p.move(ctx, p.acked); err != nil {
			return err
		}
	}
	if err := p.set.Cursors.Move(ctx, Move{Name: p.set.Name, To: to, Back: true, Events: []Event{e}}); err != nil {
		return fmt.Errorf("the cursor cannot be written: %w", err)
	}
	p.at, p.acked, p.gaps = Position{Seq: to, High: high}, to, nil
	p.fail, p.stuck, p.size, p.suspect = failure{}, 0, p.set.BatchRecords, 0
	return nil
}
